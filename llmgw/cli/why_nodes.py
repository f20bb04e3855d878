# SPDX-License-Identifier: Apache-2.0
"""What nodes say of a replica, for people: told once for all nodes that say the same, those first that lack least."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmgw.cli.cells import plural, some
from llmgw.cli.table import wrapped
from llmgw.model.replica import ProfileSpec
from llmgw.model.why import Check, NodeWhy, Why

NODES_NAMED = 3
"""Nodes that a row names."""
_GROUPS, _NEXT_BEST = 16, 3
_LEFT, _BELOW = 36, 4
_OF_PROFILE = {"engine-support", "shape", "heads"}
"""Constraints that are about no node."""
Row = tuple[str, tuple[str, ...]]
"""Names of nodes, and what they say, a sentence a line."""


def node_lines(why: Why, profiles: Sequence[ProfileSpec], width: int) -> Iterator[str]:
    """The lines about all nodes, by profile."""
    blank = False
    for profile in profiles:
        mine = [one for one in why.nodes if one.profile == profile.name and not one.chosen]
        if not mine:
            continue
        if blank:
            yield ""
        blank = True
        wants = f"{profile.gpus} x {' or '.join(profile.devices)}" if profile.devices else "CPU"
        members = f", {profile.nodes} nodes" if profile.nodes > 1 else ""
        yield from wrapped(f"What the nodes say of {why.subject} by profile {profile.name} ({wants}{members}):", width)
        rows = [*_fitting(mine), *_refusing(mine)]
        yield from _columns(rows, width)


def _fitting(nodes: Iterable[NodeWhy]) -> Iterator[Row]:
    fits = sorted((one for one in nodes if one.fits), key=lambda one: (-(one.total or 0.0), one.node))
    for one in fits[:_NEXT_BEST]:
        score = "" if one.total is None else f", score {one.total:.2f}"
        compared = f"; {one.compared}" if one.compared else ""
        yield f"  {one.node}", (f"fits{score}{compared}",)
    if len(fits) > _NEXT_BEST:
        others = [one.node for one in fits[_NEXT_BEST:]]
        yield _names(others), ("fit too, with no higher score",)


def _refusing(nodes: Iterable[NodeWhy]) -> Iterator[Row]:
    """What nodes say that refuse, those first that lack least, and last in one row those with hardware of another
    class.
    """
    refusing = [one for one in nodes if not one.fits]
    everywhere = _everywhere(refusing)
    if everywhere:
        yield f"  all {plural(len(refusing), 'node')}", everywhere
    others = [one for one in refusing if any(check.constraint == "class" for check in one.failing)]
    groups: dict[tuple[str, ...], list[NodeWhy]] = {}
    for one in refusing:
        if one not in others:
            own = tuple(check.message for check in one.failing if check.message not in everywhere)
            groups.setdefault(own, []).append(one)
    groups.pop((), None)
    nearest = sorted(groups.items(), key=lambda group: (_lacks(group[1][0]), -len(group[1]), group[1][0].node))
    for messages, group in nearest[:_GROUPS]:
        yield _names([one.node for one in group]), messages
    far = [one for _messages, group in nearest[_GROUPS:] for one in group]
    if far:
        constraints = sorted({check.constraint for one in far for check in one.failing})
        yield (
            f"  {plural(len(far), 'more node')}",
            (f"for {', '.join(constraints)}: `--node NAME` and --json tell it all",),
        )
    if others:
        yield _names([one.node for one in others]), (_other_hardware(others),)


def _everywhere(nodes: Sequence[NodeWhy]) -> tuple[str, ...]:
    """What several nodes say of the profile alone, and so all of them."""
    if len(nodes) == 1:
        return ()
    return tuple(
        dict.fromkeys(check.message for one in nodes for check in one.failing if check.constraint in _OF_PROFILE)
    )


def _lacks(one: NodeWhy) -> tuple[int, float]:
    """How far a node is from taking the replica: constraints that fail, and how much of the amounts is lacking."""
    lacking = [1 - check.has / check.needs for check in one.failing if check.has is not None and check.needs]
    return len(one.failing), sum(lacking)


def _other_hardware(nodes: Sequence[NodeWhy]) -> str:
    """What those nodes have that have none of the classes."""
    checks = [check for one in nodes for check in one.failing if check.constraint == "class"]
    has = sorted({name for check in checks for name in check.message.partition(_HAS)[2].split(", ")})
    cards = [name for name in has if name != _NO_DEVICE]
    words = f"{'has' if len(nodes) == 1 else 'have'} other hardware: {', '.join(cards)}" if cards else ""
    return " or ".join(filter(None, (words, f"{'' if words else 'has '}{_NO_DEVICE}" if len(cards) < len(has) else "")))


_HAS = ", has "
_NO_DEVICE = "no device"


def _names(names: Sequence[str]) -> str:
    return f"  {some(names, NODES_NAMED)}"


def closely(why: Why, width: int) -> Iterator[str]:
    """Everything about the nodes asked for."""
    for number, one in enumerate(why.nodes):
        if number:
            yield ""
        yield from wrapped(_verdict(one, why), width, "  ")
        rows = [(f"  {_mark(check)}  {check.constraint}", (check.message,)) for check in one.checks or ()]
        yield from _columns(rows, width)
        if one.score and not one.chosen:
            terms = ", ".join(f"{term.name} {term.value * term.weight:.2f}" for term in one.score)
            yield from wrapped(f"  its score would be {one.total:.2f}: {terms}", width, "    ")


def _mark(check: Check) -> str:
    return "NO" if not check.passes else "ok" if check.known else "? "


def _verdict(one: NodeWhy, why: Why) -> str:
    head = f"{one.node}, by profile {one.profile}:"
    if one.chosen:
        return f"{head} {why.subject} is here."
    if one.fits:
        return f"{head} {why.subject} fits here{f'; {one.compared}' if one.compared else ''}."
    count = len(one.failing)
    return f"{head} no place for {why.subject}, {plural(count, 'constraint')} {'fails' if count == 1 else 'fail'}."


def _columns(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Names on the left, what is said of them on the right, broken between words; below them where names are long."""
    longest = max((len(name) for name, _told in rows), default=0)
    left = longest if longest <= _LEFT else _BELOW
    for name, told in rows:
        room = max(width - left - 2, 1)
        lines = [line for one in told for line in wrapped(one, room, "  ")]
        if longest > _LEFT:
            yield name
        yield from (f"{name if not at and longest <= _LEFT else '':<{left}}  {line}" for at, line in enumerate(lines))

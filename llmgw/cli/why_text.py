# SPDX-License-Identifier: Apache-2.0
"""The answer to `plan --why` for people: first the answer in a sentence, then what would change it, then what each node
says, told once for all nodes that say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from llmgw.cli.cells import GB, plural, some
from llmgw.cli.table import lines_of, wrapped
from llmgw.model.replica import ServiceSpec
from llmgw.model.why import Check, Cost, NodeWhy, Place, Relaxation, ReplicaWhy, Why, WhyState

_NODES_NAMED, _REPLICAS_NAMED, _ROWS, _GROUPS, _NEXT_BEST = 3, 8, 12, 10, 3
_LEFT, _BELOW = 36, 4
_COSTS = {
    Cost.SETTING: "A setting; nothing that runs is touched:",
    Cost.NODE_WORK: "Work on a node; no replica is touched:",
    Cost.CHANGES: "The replicas themselves change:",
    Cost.TAKES: "Something that runs is moved or stopped:",
}
_WITHOUT = (WhyState.UNPLACED, WhyState.HELD)


def why_lines(why: Why, service: ServiceSpec, width: int) -> list[str]:
    """The answer in lines, no wider than `width` where words allow that."""
    sections = [
        list(_answer(why, width)),
        list(_relaxations(why, width)),
        list(_score(why, width)),
        list(_closely(why, width) if why.asked_nodes is not None else _nodes(why, service, width)),
    ]
    filled = [section for section in sections if section]
    return [line for number, section in enumerate(filled) for line in (["", *section] if number else section)]


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(why: Why, width: int) -> Iterator[str]:
    if not why.replicas:
        yield f"The catalog asks for no replica of {why.service}."
        return
    if why.replica is not None:
        yield from wrapped(_sentence(why.replicas[0]), width, "  ")
        return
    lacking = [one for one in why.replicas if one.state in _WITHOUT]
    if not lacking:
        count = len(why.replicas)
        all_of = f"All {count} replicas" if count > 1 else "The one replica"
        yield f"{all_of} of {why.service} {'have' if count > 1 else 'has'} a place."
    elif len(lacking) == len(why.replicas):
        yield f"No replica of {why.service} has a place; the catalog asks for {why.wanted}."
    else:
        yield f"{len(lacking)} of {plural(len(why.replicas), 'replica')} of {why.service} have no place."
    told = _alike(why.replicas)
    for reason, replicas in told[:_ROWS]:
        yield from wrapped(f"  {some(replicas, _REPLICAS_NAMED)}: {reason}", width, "    ")
    if len(told) > _ROWS:
        count = sum(len(replicas) for _reason, replicas in told[_ROWS:])
        yield f"  and {plural(count, 'replica')} more, which --json lists"


def _alike(replicas: Iterable[ReplicaWhy]) -> list[tuple[str, list[str]]]:
    """Replicas of which the same is said, those without a place first."""
    found: dict[str, list[str]] = {}
    for one in sorted(replicas, key=lambda one: one.state not in _WITHOUT):
        found.setdefault(_reason(one), []).append(one.replica)
    return list(found.items())


def _reason(one: ReplicaWhy) -> str:
    if one.state is WhyState.HELD:
        return f"held back: {one.reason}"
    return f"{one.reason}{_profile(one.place)}"


def _profile(place: Place | None) -> str:
    if place is None:
        return ""
    devices = f", {plural(len(place.devices), 'device')}" if place.devices else ""
    return f" (profile {place.profile}{devices})"


def _sentence(one: ReplicaWhy) -> str:
    if one.state is WhyState.HELD:
        return f"{one.replica} is held back: {one.reason}."
    if one.state is WhyState.UNPLACED:
        return f"{one.replica} has no place: it {one.reason}."
    place = one.place
    if one.state is WhyState.KEPT and place is not None:
        return f"{one.replica} {one.reason}, as all does that runs and fits ({_how(place)})."
    return f"{one.replica} {one.reason}{f' ({_how(place)})' if place is not None else ''}."


def _how(place: Place) -> str:
    """`profile chat-h200, h200-141g 0, 1, 2, 3`."""
    classes: dict[str, list[str]] = {}
    for device in place.devices:
        name, _, device_class = device.partition(" (")
        classes.setdefault(device_class.rstrip(")"), []).append(name)
    told = (
        f"{device_class} {', '.join(names)}" if device_class else ", ".join(names)
        for device_class, names in classes.items()
    )
    return ", ".join([f"profile {place.profile}", *told])


# --- what would change it --------------------------------------------------------------------------------------------


def _relaxations(why: Why, width: int) -> Iterator[str]:
    if why.subject is None or not any(one.state is WhyState.UNPLACED for one in why.replicas):
        return
    if not why.relaxations:
        on = "" if why.asked_nodes is None else f" on {some(why.asked_nodes, _NODES_NAMED)}"
        nothing = f"Nothing that llmgw can try would give {why.subject} a place{on}"
        hint = "" if why.replica is None else f"; others may come first, see `llmgw plan --why {why.service}`"
        hardware = "`llmgw plan --smallest` tells what hardware would"
        yield from wrapped(f"{nothing}: more has to change than one or two things{hint}. {hardware}.", width)
        return
    yield f"Any one of these would give {why.subject} a place, the cheapest first."
    cost = None
    for number, one in enumerate(why.relaxations, 1):
        if one.cost is not cost:
            yield _COSTS[one.cost]
        cost = one.cost
        yield from _relaxation(number, one, width)


def _relaxation(number: int, one: Relaxation, width: int) -> Iterator[str]:
    entries = sorted({step.entry for step in one.steps if step.entry})
    where = f" ({', '.join(entries)}: fits on {some(one.nodes, _NODES_NAMED)})" if _in_catalog(one) else ""
    if entries and not where:
        where = f" ({', '.join(entries)})"
    head = f"{number:>3}. "
    indent = " " * len(head)
    yield from wrapped(f"{head}{one.sentence}{where}", width, indent)
    how = "; ".join(dict.fromkeys(step.how for step in one.steps if step.how))
    for detail in (how, f"mind: {one.caution}" if one.caution else ""):
        if detail:
            yield from (f"{indent}{line}" for line in wrapped(detail, width - len(indent), "  "))


def _in_catalog(one: Relaxation) -> bool:
    return all(step.entry is not None for step in one.steps)


# --- the score of what has a place -----------------------------------------------------------------------------------


def _score(why: Why, width: int) -> Iterator[str]:
    if why.fresh is not None and why.replica is not None:
        where = ", ".join(member.node for member in why.fresh.members)
        yield from wrapped(
            f"Placed anew it would go to {where} ({_how(why.fresh)}); what runs and fits is not moved.", width
        )
    chosen = next((one for one in why.nodes if one.chosen and one.score), None)
    if chosen is None:
        return
    yield f"{why.subject} on {chosen.node} scores {chosen.total:.2f} as things stand:"
    terms = [
        (f"  {one.name}", f"{one.value * one.weight:.2f}", f"{one.value:.2f} x {one.weight:g}") for one in chosen.score
    ]
    yield from lines_of([("  TERM", "COUNTS", "VALUE x WEIGHT"), *terms], width)


# --- what the nodes say ----------------------------------------------------------------------------------------------


def _nodes(why: Why, service: ServiceSpec, width: int) -> Iterator[str]:
    blank = False
    for profile in service.profiles:
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


def _fitting(nodes: Iterable[NodeWhy]) -> Iterator[tuple[str, str]]:
    fits = sorted((one for one in nodes if one.fits), key=lambda one: (-(one.total or 0.0), one.node))
    for one in fits[:_NEXT_BEST]:
        score = "" if one.total is None else f", score {one.total:.2f}"
        compared = f"; {one.compared}" if one.compared else ""
        yield f"  {one.node}", f"fits{score}{compared}"
    if len(fits) > _NEXT_BEST:
        others = [one.node for one in fits[_NEXT_BEST:]]
        yield _names(others), "fit too, with no higher score"


def _refusing(nodes: Iterable[NodeWhy]) -> Iterator[tuple[str, str]]:
    """What nodes say that refuse, those first that lack least. Nodes that say the same are one row; where that makes
    too many rows, nodes that refuse for the same constraints are.
    """
    refusing = [one for one in nodes if not one.fits]
    groups = _by(refusing, lambda one: tuple(check.message for check in one.failing))
    if len(groups) > _GROUPS:
        groups = _by(refusing, lambda one: tuple(check.constraint for check in one.failing))
    for group in sorted(groups, key=lambda group: (len(group[0].failing), -len(group), group[0].node)):
        told = [_merged([one.failing[at] for one in group]) for at in range(len(group[0].failing))]
        yield _names([one.node for one in group]), "; ".join(told)


def _by(nodes: Iterable[NodeWhy], key: Callable[[NodeWhy], tuple[str, ...]]) -> list[list[NodeWhy]]:
    groups: dict[tuple[str, ...], list[NodeWhy]] = {}
    for one in nodes:
        groups.setdefault(key(one), []).append(one)
    return list(groups.values())


def _merged(checks: Sequence[Check]) -> str:
    """What several nodes say of one constraint, as one: by amounts where they differ in nothing else."""
    messages = list(dict.fromkeys(check.message for check in checks))
    if len(messages) == 1:
        return messages[0]
    first = checks[0]
    has = sorted({check.has for check in checks if check.has is not None})
    noun = _NOUNS.get(first.constraint)
    if noun and len(has) > 1 and len({check.needs for check in checks}) == 1:
        return f"has {_number(has[0], first)} to {_number(has[-1], first)} {noun}, needs {_number(first.needs, first)}"
    heads = {message.partition(_HAS)[0] for message in messages}
    if len(heads) == 1:
        tails = [message.partition(_HAS)[2] for message in messages]
        return f"{heads.pop()}{_HAS}{_any(tails)}"
    return _any(messages)


_HAS = ", has "
_NOUNS = {"memory": "GB of memory left", "disk": "GB of disk left", "devices": "free devices", "partners": "nodes"}


def _any(words: Sequence[str]) -> str:
    most = 1 if any(", " in word for word in words[:2]) else 2
    return " or ".join([*words[:most], *(["others"] if len(words) > most else [])])


def _number(amount: float | None, check: Check) -> str:
    return f"{amount or 0:g}" if check.unit != "bytes" else f"{(amount or 0) / GB:.0f}"


def _names(names: Sequence[str]) -> str:
    return f"  {some(names, _NODES_NAMED)}"


def _closely(why: Why, width: int) -> Iterator[str]:
    """Everything about the nodes asked for."""
    for number, one in enumerate(why.nodes):
        if number:
            yield ""
        yield from wrapped(_verdict(one, why), width, "  ")
        rows = [
            (f"  {'ok' if check.passes else 'NO'}  {check.constraint}", check.message) for check in one.checks or ()
        ]
        yield from _columns(rows, width)
        if one.score and not one.chosen:
            terms = ", ".join(f"{term.name} {term.value * term.weight:.2f}" for term in one.score)
            yield from wrapped(f"  its score would be {one.total:.2f}: {terms}", width, "    ")


def _verdict(one: NodeWhy, why: Why) -> str:
    head = f"{one.node}, by profile {one.profile}:"
    if one.chosen:
        return f"{head} {why.subject} is here."
    if one.fits:
        return f"{head} {why.subject} fits here{f'; {one.compared}' if one.compared else ''}."
    count = len(one.failing)
    return f"{head} no place for {why.subject}, {plural(count, 'constraint')} {'fails' if count == 1 else 'fail'}."


def _columns(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Names on the left, what is said of them on the right, broken between words; below them where names are long."""
    longest = max((len(name) for name, _told in rows), default=0)
    left = longest if longest <= _LEFT else _BELOW
    for name, told in rows:
        lines = wrapped(told, max(width - left - 2, 1))
        if longest > _LEFT:
            yield name
        yield from (f"{name if not at and longest <= _LEFT else '':<{left}}  {line}" for at, line in enumerate(lines))

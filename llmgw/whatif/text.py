# SPDX-License-Identifier: Apache-2.0
"""Suppositions, differences and what is the smallest, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmgw.whatif.difference import Change, Count, Difference, Free
from llmgw.whatif.said import Said
from llmgw.whatif.smallest import Need, Never, Smallest

_NAMED = 12
_WIDTH = 18


def supposed_lines(said: Iterable[Said]) -> list[str]:
    """What was supposed, a line each, with what was assumed for it below."""
    return [line for one in said for line in (f"Supposed: {one.what}", *(f"    {text}" for text in one.assumed))]


def difference_lines(difference: Difference) -> list[str]:
    """What changes against the present plan; numbers of services and classes only where they differ."""
    lines = list(_difference(difference))
    return ["Compared with the plan for what is there:", *(lines or ["    nothing changes"])]


def _difference(difference: Difference) -> Iterator[str]:
    yield from _row("placed now", [_arrived(one) for one in difference.gained])
    yield from _row("fits no more", list(_left(difference.fits_no_more)))
    yield from _row("still no place", _names(one for one in difference.unplaced if one.asked_before))
    yield from _row("no place", list(_lacking(one for one in difference.unplaced if not one.asked_before)))
    yield from _row("not asked for", [f"{one.replica} (was on {_where(one.before)})" for one in difference.dropped])
    yield from _row("moves", [_moved(one) for one in difference.moves])
    yield from _row("planned elsewhere", [_moved(one) for one in difference.elsewhere])
    yield from _row("replicas placed", [_count(one) for one in difference.services if one.changed])
    yield from _row("devices free", [_free(one) for one in difference.devices if one.changed])


def smallest_lines(answer: Smallest) -> list[str]:
    """How many nodes are needed, what is known of that number, and what no number of them helps."""
    return list(_smallest(answer))


def _smallest(answer: Smallest) -> Iterator[str]:
    each = f"with {answer.kind}"
    if answer.held:
        yield f"{_replicas(answer.held)} held back, see below: no hardware changes that."
    if answer.nodes == 0:
        yield f"Every {'other ' if answer.held else ''}replica has a place: no node {each} is needed."
        return
    lacking = f"{_replicas(answer.missing)} without a place"
    if answer.nodes is None:
        yield f"No number of nodes {each} helps: {lacking}."
    else:
        nodes = "1 node" if answer.nodes == 1 else f"{answer.nodes} nodes"
        helped = f"{answer.missing - len(answer.never)} of the {lacking}" if answer.never else f"the {lacking}"
        yield f"Smallest: {nodes} {each} for {helped}."
        yield f"    {_how_sure(answer)}"
    for need in answer.needs if len(answer.needs) > 1 else ():
        yield f"    {_need(need)}"
    for text, replicas in _alike(answer.never):
        have = "has" if len(replicas) == 1 else "have"
        yield f"    {_some(replicas)} {have} no place on them: {text}"


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


def _how_sure(answer: Smallest) -> str:
    if answer.exact:
        return "every smaller number was tried"
    tried = ", ".join(f"{number} ({count})" for number, count in answer.tried)
    if answer.monotone:
        return f"tried, and replicas that then have no place: {tried}"
    return f"more nodes did not always place more, so a smaller number may do that was not tried; tried: {tried}"


def _need(need: Need) -> str:
    if need.nodes is None:
        return f"{need.service} lacks {need.missing}: none fits on such nodes, however many"
    if need.never:
        some = f"{need.missing - need.never} of them would need {need.nodes} of their own"
        return f"{need.service} lacks {need.missing}: {some}, the rest fits on none"
    return f"{need.service} lacks {need.missing}: they would need {need.nodes} of their own"


def _alike(never: Iterable[Never]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for one in never:
        found.setdefault("; ".join(one.reasons) or "no reason is known", []).append(one.replica)
    return list(found.items())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _row(title: str, entries: Sequence[str]) -> Iterator[str]:
    if entries:
        more = [f"and {len(entries) - _NAMED} more"] if len(entries) > _NAMED else []
        first, *rest = [*entries[:_NAMED], *more]
        yield f"    {title:<{_WIDTH}} {first}"
        yield from (f"    {'':<{_WIDTH}} {entry}" for entry in rest)


def _names(changes: Iterable[Change]) -> list[str]:
    """All in one entry, or none."""
    names = [one.replica for one in changes]
    return [_some(names)] if names else []


def _left(changes: Iterable[Change]) -> Iterator[str]:
    """A line each, and the reason once for those that follow one another with the same."""
    said = None
    for one in changes:
        why = f": {one.why}" if one.why and one.why != said else ", likewise" if one.why else ""
        yield f"{one.replica} (was on {_where(one.before)}){why}"
        said = one.why


def _lacking(changes: Iterable[Change]) -> Iterator[str]:
    """Those with the same reason together."""
    alike: dict[str | None, list[str]] = {}
    for one in changes:
        alike.setdefault(one.why, []).append(one.replica)
    for why, replicas in alike.items():
        yield f"{_some(replicas)}: {why}" if why else _some(replicas)


def _arrived(change: Change) -> str:
    return f"{change.replica} on {_where(change.after)}"


def _moved(change: Change) -> str:
    if change.before == change.after:
        return f"{change.replica} on {_where(change.after)}, other devices"
    return f"{change.replica} {_where(change.before)} -> {_where(change.after)}"


def _where(nodes: Iterable[str]) -> str:
    return ", ".join(nodes)


def _count(count: Count) -> str:
    before, after = f"{count.placed_before} of {count.wanted_before}", f"{count.placed_after} of {count.wanted_after}"
    return f"{count.service}: {before} -> {after}"


def _free(free: Free) -> str:
    before, after = f"{free.free_before} of {free.total_before}", f"{free.free_after} of {free.total_after}"
    return f"{free.device_class}: {before} -> {after}"

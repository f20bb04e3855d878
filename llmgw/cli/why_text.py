# SPDX-License-Identifier: Apache-2.0
"""The answer to `plan --why` for people: first the answer in a sentence, then what would change it, then what each node
says, told once for all nodes that say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmgw.cli.cells import plural, some
from llmgw.cli.table import lines_of, wrapped
from llmgw.cli.why_nodes import NODES_NAMED, closely, node_lines
from llmgw.model.plan import Rollout
from llmgw.model.replica import ProfileSpec
from llmgw.model.why import Cost, Place, Relaxation, ReplicaWhy, Why, WhyState

_REPLICAS_NAMED, _ROWS = 8, 12
_COSTS = {
    Cost.SETTING: "A setting; nothing that runs is touched:",
    Cost.NODE_WORK: "Work on a node; no replica is touched:",
    Cost.CHANGES: "The replicas themselves change:",
    Cost.TAKES: "Something that runs is moved or stopped:",
    Cost.PROMISE: "What was asked for on purpose, or said of a node, changes:",
}
_WITHOUT = (WhyState.UNPLACED, WhyState.HELD)


def why_lines(why: Why, profiles: Sequence[ProfileSpec], width: int) -> list[str]:
    """The answer in lines, no wider than `width` where words allow that."""
    sections = [
        list(_answer(why, width)),
        list(_relaxations(why, profiles, width)),
        list(_score(why, width)),
        list(closely(why, width) if why.asked_nodes is not None else node_lines(why, profiles, width)),
    ]
    filled = [section for section in sections if section]
    return [line for number, section in enumerate(filled) for line in (["", *section] if number else section)]


def refused_lines(rollout: Rollout, width: int) -> list[str]:
    """That a change of the service is not carried out now, why, and what to do."""
    why = rollout.reason or "nothing of it may be away"
    said = f"A change of {rollout.service} waits: it cannot be rolled out, since {why}."
    fix = wrapped(f"    fix: {rollout.fix}", width, "    ") if rollout.fix is not None else []
    return [*wrapped(said, width, "  "), *fix]


# --- the answer ------------------------------------------------------------------------------------------------------


def _answer(why: Why, width: int) -> Iterator[str]:
    if why.replica is None and any(one.state is WhyState.STOPS for one in why.replicas):
        yield f"The catalog has no service {why.service}."
        for one in why.replicas:
            yield from wrapped(f"  {_sentence(one)}", width, "    ")
        return
    if not why.replicas:
        yield f"The catalog asks for no replica of {why.service}."
        return
    if why.replica is not None:
        yield from wrapped(_sentence(why.replicas[0]), width, "  ")
        return
    lacking = [one for one in why.replicas if one.state in _WITHOUT]
    if not lacking:
        count = len(why.replicas)
        all_of = "Both replicas" if count == 2 else f"All {count} replicas" if count > 1 else "The one replica"  # noqa: PLR2004
        yield f"{all_of} of {why.service} {'have' if count > 1 else 'has'} a place."
    elif len(lacking) == len(why.replicas):
        yield f"No replica of {why.service} has a place; the catalog asks for {why.wanted}."
    else:
        has = "has" if len(lacking) == 1 else "have"
        yield f"{len(lacking)} of {plural(len(why.replicas), 'replica')} of {why.service} {has} no place."
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
    if one.state is WhyState.STOPS:
        return f"{one.replica} {one.reason}."
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


def _relaxations(why: Why, profiles: Sequence[ProfileSpec], width: int) -> Iterator[str]:
    if why.subject is None or not any(one.state is WhyState.UNPLACED for one in why.replicas):
        return
    for told in why.first:
        yield from wrapped(f"{told}.", width)
    if why.relaxations:
        yield f"Any one of these would give {why.subject} a place, the cheapest first."
    elif not why.first:
        on = "" if why.asked_nodes is None else f" on {some(why.asked_nodes, NODES_NAMED)}"
        hint = "" if why.replica is None else f" Others may come first, see `llmgw plan --why {why.service}`."
        nothing = f"Nothing that llmgw tries would give {why.subject} a place{on}: more has to change than llmgw tries."
        yield from wrapped(f"{nothing}{hint}", width)
    cost = None
    for number, one in enumerate(why.relaxations, 1):
        if one.cost is not cost:
            yield _COSTS[one.cost]
        cost = one.cost
        yield from _relaxation(number, one, width)
    if why.hardware and why.asked_nodes is None:
        profile = next(one for one in profiles if not one.on_cpu)
        kind = f"{profile.devices[0]}x{profile.gpus}"
        yield from wrapped(f"How many more nodes would do: `llmgw plan --smallest {kind}`.", width)


def _relaxation(number: int, one: Relaxation, width: int) -> Iterator[str]:
    entries = sorted({step.entry for step in one.steps if step.entry})
    most = len(one.nodes) if one.together else NODES_NAMED
    where = f" ({', '.join(entries)}: fits on {some(one.nodes, most)})" if _in_catalog(one) else ""
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

# SPDX-License-Identifier: Apache-2.0
"""The plan for people: what changes and why, what cannot be placed, what is left alone (R1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from llmgw.model.ids import NodeName
from llmgw.model.plan import Action, ActionKind, Plan, StopMembers
from llmgw.plan.drift_text import short_drift_lines
from llmgw.plan.fetches_text import fetch_lines
from llmgw.plan.rollouts_text import refused_lines, rollout_lines, why_withheld, withheld
from llmgw.plan.steps import fetches_of, marks_of
from llmgw.plan.unplaced_text import advice_lines, unplaced_lines, untouched_lines
from llmgw.plan.waves_text import wave_lines
from llmgw.plan.wording import number, some

__all__ = ["SYMBOLS", "device_ranges", "plan_lines", "summary_line", "wave_lines"]

SYMBOLS = {
    ActionKind.CREATE: "+",
    ActionKind.UPDATE: "~",
    ActionKind.REWRITE: "=",
    ActionKind.START: "^",
    ActionKind.MOVE: ">",
    ActionKind.STOP: "-",
    ActionKind.KEEP: " ",
    ActionKind.STAND_IN: "&",
}
_WORDS = {
    ActionKind.CREATE: "to create",
    ActionKind.UPDATE: "to update (restart)",
    ActionKind.REWRITE: "to rewrite (no restart)",
    ActionKind.START: "to start again",
    ActionKind.MOVE: "to move",
    ActionKind.STOP: "to stop",
    ActionKind.STAND_IN: "to stand in meanwhile",
    ActionKind.KEEP: "unchanged",
}
_KIND_WIDTH = 7


def plan_lines(plan: Plan, *, every_action: bool = False) -> list[str]:
    """The plan as lines: actions that change something (with `every_action` the others too), problems, then a
    summary.
    """
    return list(_lines(plan, every_action=every_action))


def _lines(plan: Plan, *, every_action: bool) -> Iterator[str]:
    if plan.frozen:
        yield f"! frozen: {plan.frozen} (override with --allow-mass-loss)"
    yield from refused_lines(plan)
    shown = [action for action in plan.actions if every_action or action.kind is not ActionKind.KEEP]
    width = max((len(action.replica) for action in shown), default=0)
    kinds = max((len(action.kind.value) for action in shown), default=0)
    out = withheld(plan)
    details = [(*action.reasons, *([why_withheld(action, plan)] if action.replica in out else [])) for action in shown]
    told = zip(shown, details, strict=True)
    # What is the same of several replicas of a service is told once, below the last of them.
    for (_service, _kind, reasons), those in groupby(told, lambda one: (one[0].service, one[0].kind, one[1])):
        several = [action for action, _details in those]
        yield from (_action(action, width, max(kinds, _KIND_WIDTH)) for action in several)
        yield from (f"    {'each: ' if len(several) > 1 else ''}{reason}" for reason in reasons)
    yield from rollout_lines(plan)
    yield from (f"* {line}" for line in fetch_lines(fetches_of(plan)))
    yield from (f"! {one.node}: device {one.device} is quarantined: {one.message}" for one in marks_of(plan))
    yield from unplaced_lines(plan.unplaced)
    yield from advice_lines(plan.advice)
    yield from untouched_lines(plan.untouched)
    yield from short_drift_lines(plan)
    for note in plan.notes:
        yield f"* {note}"
    yield ""
    yield summary_line(plan)


def summary_line(plan: Plan) -> str:
    """One sentence: how many replicas of each kind, how many cannot be placed or rolled out, whether routes change.
    What is on nodes that are left alone is told apart.
    """
    out = withheld(plan)
    waiting = [one for one in plan.actions if one.kind is ActionKind.STOP and _waits(one, plan)]
    unseen = [one for one in plan.actions if one.kind is ActionKind.KEEP and _left_alone(one, plan)]
    counts = Counter(one.kind for one in plan.actions if one.replica not in out)
    counts[ActionKind.STOP] -= sum(one.replica not in out for one in waiting)
    counts[ActionKind.KEEP] -= sum(one.replica not in out for one in unseen)
    waits = f"{number(len(waiting), 'stop')} wait{'s' if len(waiting) == 1 else ''} for {_nodes(waiting, plan)}"
    if not plan.changes and not plan.unplaced and not out:
        told = [_as_wanted(counts[ActionKind.KEEP])] if counts[ActionKind.KEEP] or not unseen else []
        told += [*_unseen(unseen, plan, noun=not told), *([waits] if waiting else [])]
        return f"Nothing to do: {'; '.join(told)}."
    parts = [f"{counts[kind]} {word}{_least(plan, kind)}" for kind, word in _WORDS.items() if counts[kind]]
    if unseen:
        parts.append(f"{len(unseen)} left alone ({_nodes(unseen, plan)})")
    if waiting:
        parts.append(waits)
    if out:
        parts.append(f"{len(out)} cannot be rolled out")
    if plan.unplaced:
        parts.append(f"{len(plan.unplaced)} cannot be placed")
    marked = marks_of(plan)
    if marked:
        parts.append(f"{number(len(marked), 'device')} to quarantine")
    if plan.changes and not marked and not any(counts[kind] for kind in ActionKind if kind is not ActionKind.KEEP):
        parts.append("routes to publish")
    return f"Plan: {', '.join(parts) or 'no replicas'}."


def _as_wanted(kept: int) -> str:
    return f"{kept} {'replica is as the catalog wants it' if kept == 1 else 'replicas are as the catalog wants them'}"


def _unseen(unseen: Sequence[Action], plan: Plan, *, noun: bool) -> Iterator[str]:
    """Of how many replicas nobody can say that they are as they should be, and where they are."""
    for chosen in (False, True):
        those = [one for one in unseen if any(_by_choice(plan, node) for node in one.nodes) is chosen]
        many = number(len(those), "replica") if noun else str(len(those))
        if those and chosen:
            yield f"{many} on {_nodes(those, plan)} {'is' if len(those) == 1 else 'are'} left alone"
        elif those:
            yield f"of {many} on {_nodes(those, plan)} nothing is known now"


def _by_choice(plan: Plan, node: NodeName) -> bool:
    """Whether a node is left alone because this run may not touch it, whatever is known of it."""
    return plan.untouched.get(node, "").startswith("is left alone")


def _left_alone(action: Action, plan: Plan) -> bool:
    return any(node in plan.untouched for node in action.nodes)


def _waits(stop: Action, plan: Plan) -> bool:
    """Whether nothing of a replica can be stopped now: no node of it may be touched."""
    touched = {
        node
        for wave in plan.waves
        for step in wave.steps
        if isinstance(step, StopMembers)
        for node, _unit in step.units
    }
    return bool(stop.nodes) and all(node in plan.untouched and node not in touched for node in stop.nodes)


def _nodes(actions: Sequence[Action], plan: Plan) -> str:
    return some(sorted({node for one in actions for node in one.nodes if node in plan.untouched}))


def _devices(action: Action) -> str:
    """The devices by name; of several members how many each has, and what joins them."""
    if len(action.members) <= 1:
        return f" on {', '.join(device_ranges(action.devices))}" if action.devices else ""
    first = action.members[0]
    classes = sorted({name.rpartition(" (")[2].rstrip(")") for name in action.devices if name.endswith(")")})
    joined = f"NVLink domain {first.domain}" if first.domain is not None else f"fabric {first.fabric}"
    known = f", joined by {joined}" if first.domain is not None or first.fabric is not None else ""
    return f" with {len(first.devices)} x {' or '.join(classes) or 'device'} each{known}"


def device_ranges(names: Sequence[str]) -> list[str]:
    """Names of devices with runs of cards of one class told as one: `0-7 (h100-80g)`."""
    runs: list[tuple[int | None, int | None, str]] = []
    for name in names:
        number, _, rest = name.partition(" ")
        index = int(number) if number.isascii() and number.isdigit() else None
        before = runs[-1] if runs else None
        if index is not None and before and before[1] == index - 1 and before[2] == rest:
            runs[-1] = (before[0], index, rest)
        else:
            runs.append((index, index, rest) if index is not None else (None, None, name))
    return [
        rest if first is None else f"{first} {rest}" if first == last else f"{first}-{last} {rest}"
        for first, last, rest in runs
    ]


def _least(plan: Plan, kind: ActionKind) -> str:
    """Of the moves: how few any plan would need (P8)."""
    if kind is not ActionKind.MOVE or plan.moves_lower_bound is None:
        return ""
    if plan.moves <= plan.moves_lower_bound:
        return " (the fewest possible)"
    return f" (at least {plan.moves_lower_bound})"


def _action(action: Action, width: int, kinds: int) -> str:
    where = ", ".join(action.nodes)
    if action.from_nodes:
        where = f"{', '.join(action.from_nodes)} -> {where}"
    by = f" by {action.profile}" if action.profile and action.kind is not ActionKind.KEEP else ""
    comma = "," if by and len(action.members) > 1 else ""
    what = f"{where}{_devices(action)}{comma}{by}"
    return f"{SYMBOLS[action.kind]} {action.replica:<{width}}  {action.kind.value:<{kinds}} {what}"

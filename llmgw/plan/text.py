# SPDX-License-Identifier: Apache-2.0
"""The plan for people: what changes and why, what cannot be placed, what is left alone (R1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from llmgw.model.advice import Advice, AdvisedMove
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement, Rejection, Unplaced
from llmgw.model.plan import Action, ActionKind, FetchWeights, MarkDevices, Plan, Publish, StartMembers, Wave
from llmgw.plan.fetches_text import fetch_lines

SYMBOLS = {
    ActionKind.CREATE: "+",
    ActionKind.UPDATE: "~",
    ActionKind.REWRITE: "=",
    ActionKind.START: "^",
    ActionKind.MOVE: ">",
    ActionKind.STOP: "-",
    ActionKind.KEEP: " ",
}
_WORDS = {
    ActionKind.CREATE: "to create",
    ActionKind.UPDATE: "to update (restart)",
    ActionKind.REWRITE: "to rewrite (no restart)",
    ActionKind.START: "to start again",
    ActionKind.MOVE: "to move",
    ActionKind.STOP: "to stop",
    ActionKind.KEEP: "unchanged",
}
_NAMES_SHOWN = 8
_REASONS_SHOWN = 16
_FAR = {"class", "capability", "device-memory", "node-state"}
"""What only other cards would mend, or nobody can tell."""
_NODES_TOLD = 16
"""Up to so many nodes all that keeps them away is told; of more, what the nearest lack."""


def plan_lines(plan: Plan, *, every_action: bool = False) -> list[str]:
    """The plan as lines: actions that change something (with `every_action` the others too), problems, then a
    summary.
    """
    return list(_lines(plan, every_action=every_action))


def _lines(plan: Plan, *, every_action: bool) -> Iterator[str]:
    if plan.frozen:
        yield f"! frozen: {plan.frozen} (override with --allow-mass-loss)"
    shown = [action for action in plan.actions if every_action or action.kind is not ActionKind.KEEP]
    width = max((len(action.replica) for action in shown), default=0)
    for action in shown:
        yield from _action(action, width)
    steps = (step for wave in plan.waves for step in wave.steps)
    fetches = (one for step in steps if isinstance(step, FetchWeights) for one in step.fetches)
    yield from (f"* {line}" for line in fetch_lines(fetches))
    yield from _unplaced(plan.unplaced)
    yield from advice_lines(plan.advice)
    yield from _untouched(plan.untouched)
    for note in plan.notes:
        yield f"* {note}"
    yield ""
    yield summary_line(plan)


def summary_line(plan: Plan) -> str:
    """One sentence: how many replicas of each kind, how many cannot be placed, whether routes change."""
    counts = Counter(action.kind for action in plan.actions)
    if not plan.changes and not plan.unplaced:
        return f"Nothing to do: {counts[ActionKind.KEEP]} replicas are as the catalog wants them."
    parts = [f"{counts[kind]} {word}{_least(plan, kind)}" for kind, word in _WORDS.items() if counts[kind]]
    if plan.unplaced:
        parts.append(f"{len(plan.unplaced)} cannot be placed")
    if plan.changes and not any(counts[kind] for kind in ActionKind if kind is not ActionKind.KEEP):
        parts.append("routes to publish")
    return f"Plan: {', '.join(parts) or 'no replicas'}."


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
    return " (no plan needs fewer)" if plan.moves <= plan.moves_lower_bound else f" (at least {plan.moves_lower_bound})"


def _action(action: Action, width: int) -> Iterator[str]:
    where = ", ".join(action.nodes)
    if action.from_nodes:
        where = f"{', '.join(action.from_nodes)} -> {where}"
    by = f" by {action.profile}" if action.profile and action.kind is not ActionKind.KEEP else ""
    comma = "," if by and len(action.members) > 1 else ""
    what = f"{where}{_devices(action)}{comma}{by}"
    yield f"{SYMBOLS[action.kind]} {action.replica:<{width}}  {action.kind.value:<7} {what}"
    for reason in action.reasons:
        yield f"    {reason}"


def _unplaced(unplaced: Iterable[Unplaced]) -> Iterator[str]:
    """What has no place, once for all replicas of which the same is true."""
    alike: dict[tuple[str | None, str | None], list[Unplaced]] = {}
    for one in unplaced:
        alike.setdefault((one.held, None if one.held else one.like or one.replica), []).append(one)
    for (held, _first), those in alike.items():
        names = _some([one.replica for one in those])
        if held:
            yield f"! {names} is held back: {held}" if len(those) == 1 else f"! each of {names} is held back: {held}"
        else:
            yield f"! {names} cannot be placed:"
            yield from _why_not(those)


def _why_not(those: Sequence[Unplaced]) -> Iterator[str]:
    """Who took their place, and why the nodes do not take them: the reasons of most nodes, if there are many."""
    took: dict[str, list[str]] = {}
    for one in those:
        if one.gave_way_to is not None:
            took.setdefault(one.gave_way_to, []).append(one.replica)
    for taker, replicas in took.items():
        yield f"    {_some(replicas)} gave way to {taker}"
    for one in those:
        if one.runs_on:
            yield f"    {one.replica} goes on running on {', '.join(one.runs_on)}, though {one.must_leave}"
    rejections = [rejection for one in those for rejection in one.rejections]
    if not rejections:
        yield "    the inventory's group `fleet` has no nodes"
    yield from _nowhere(rejections)
    near = _nearest(rejections)
    found = _grouped(one for one in rejections if one.node in near)
    most = sorted(found, key=lambda message: -len(found[message]))[:_REASONS_SHOWN]
    for message in [message for message in found if message in most]:
        yield f"    {_some(list(found[message]))}: {message}"
    told = {node for message in most for node in found[message]}
    rest = {one.node for one in rejections} - told
    if rest:
        lack = "lack more" if len(near) < len({one.node for one in rejections}) else "have other reasons"
        yield f"    {_count(rest, 'more node')} {lack}: `llmgw plan --why {those[0].replica}` tells it all"


def _nowhere(rejections: Iterable[Rejection]) -> Iterator[str]:
    """That no node at all has a device of the classes that are asked for, where it is so."""
    by_node: dict[str, set[str]] = {}
    wanted: dict[str, None] = {}
    for one in rejections:
        by_node.setdefault(one.node, set()).add(one.constraint)
        if one.constraint == "class":
            wanted[one.message.removeprefix("needs ").partition(", has ")[0]] = None
    known = [constraints for constraints in by_node.values() if "node-state" not in constraints]
    if len(known) > 1 and all("class" in constraints for constraints in known):
        yield f"    none of {len(known)} nodes has {' or '.join(wanted)}"


def _nearest(rejections: Iterable[Rejection]) -> set[str]:
    """Of many nodes those that fail the fewest constraints: what somebody could do something about."""
    failing: dict[tuple[str, str], set[str]] = {}
    for one in rejections:
        failing.setdefault((one.node, one.profile), set()).add(one.constraint)
    nodes = {node for node, _ in failing}
    if len(nodes) <= _NODES_TOLD:
        return nodes
    far = {key: len(constraints) + 2 * len(constraints & _FAR) for key, constraints in failing.items()}
    least = min(far.values())
    return {node for (node, _), distance in far.items() if distance == least}


def advice_lines(advice: Iterable[Advice]) -> Iterator[str]:
    """What would make room, and what it costs (P10)."""
    for one in advice:
        count = "one move" if len(one.moves) == 1 else f"{len(one.moves)} moves"
        yield f"* {one.replica} would fit on {', '.join(one.nodes)} after {count}, which this plan does not make:"
        for move in one.moves:
            yield (
                f"    {move.replica}: {', '.join(move.from_nodes)} -> {', '.join(move.to_nodes)}, "
                f"{_count(range(move.devices), 'device')}, up to {move.ready_timeout_s} s to load{_lacks(move)}"
            )


def _lacks(move: AdvisedMove) -> str:
    if not move.nodes_without_weights:
        return ""
    size = "" if not move.weights_bytes else f" ({move.weights_bytes / 10**9:.0f} GB)"
    return f", its weights{size} are not known to be on {', '.join(move.nodes_without_weights)}"


def _grouped(rejections: Iterable[Rejection]) -> dict[str, dict[str, None]]:
    """Rejections that say the same of several nodes, told once: a message to its nodes, in their order."""
    by_message: dict[str, dict[str, None]] = {}
    for rejection in rejections:
        by_message.setdefault(rejection.message.removeprefix(f"{rejection.node} "), {})[rejection.node] = None
    return by_message


def _untouched(nodes: Mapping[NodeName, str]) -> Iterator[str]:
    """The nodes that are left alone, a line each, or one for very many of the same kind."""
    alike: dict[str, list[str]] = {}
    for node in sorted(nodes):
        alike.setdefault(nodes[node], []).append(node)
    for node in sorted(nodes):
        same = alike[nodes[node]]
        if len(same) <= _NAMES_SHOWN:
            yield f"! {node} {nodes[node]}"
        elif node == same[0]:
            yield f"! {_some(same)}: each {nodes[node]}"


def wave_lines(plan: Plan) -> list[str]:
    """The waves in order, a line each step."""
    return [line for number, wave in enumerate(plan.waves, 1) for line in _wave(number, wave)]


def _wave(number: int, wave: Wave) -> Iterator[str]:
    yield f"{number}. {wave.title}"
    for step in wave.steps:
        if isinstance(step, FetchWeights):
            yield from (f"   {line}" for line in fetch_lines(step.fetches))
        elif isinstance(step, StartMembers):
            nodes = {unit.node for unit in step.units}
            yield f"   write {_count(step.units, 'unit')} on {_count(nodes, 'node')}, wait until ready"
        elif isinstance(step, Publish):
            count = sum(len(route.endpoints) for route in step.routes.routes)
            drain = f", drain {_some(step.drain)} (up to {step.drain_timeout_s} s)" if step.drain else ""
            ready = f", wait until gateways see {_some(step.ready)}" if step.ready else ""
            yield f"   publish routes to {_number(count, 'endpoint')}{drain}{ready}"
        elif isinstance(step, MarkDevices):
            yield f"   quarantine {_count(step.devices, 'device')}"
        else:
            yield f"   stop {_count(step.units, 'unit')}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _count(things: Collection[object], noun: str) -> str:
    return _number(len(things), noun)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def placement_lines(placement: Placement, fleet: FleetSnapshot) -> list[str]:
    """Devices by class on every node: used of all (V1)."""
    used = {device for one in placement.assignments for member in one.members for device in member.devices}
    lines = []
    for node in fleet.nodes:
        if node.devices is None:
            lines.append(f"{node.name}: devices unknown")
            continue
        classes = Counter(device.device_class for device in node.devices)
        taken = Counter(device.device_class for device in node.devices if device.uuid in used)
        parts = [f"{taken[name]}/{count} {name}" for name, count in sorted(classes.items())]
        lines.append(f"{node.name}: {', '.join(parts) or 'no devices'}")
    return lines

# SPDX-License-Identifier: Apache-2.0
"""The plan for people: what changes and why, what cannot be placed, what is left alone (R1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement, Rejection, Unplaced
from llmgw.model.plan import Action, ActionKind, Plan, Publish, StartMembers, Wave

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
    for unplaced in plan.unplaced:
        yield from _unplaced(unplaced)
    for node, why in sorted(plan.untouched.items()):
        yield f"! {node} {why}"
    yield ""
    yield summary_line(plan)


def summary_line(plan: Plan) -> str:
    """One sentence: how many replicas of each kind, how many cannot be placed, whether routes change."""
    counts = Counter(action.kind for action in plan.actions)
    if not plan.changes and not plan.unplaced:
        return f"Nothing to do: {counts[ActionKind.KEEP]} replicas are as the catalog wants them."
    parts = [f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind]]
    if plan.unplaced:
        parts.append(f"{len(plan.unplaced)} cannot be placed")
    if plan.changes and not any(counts[kind] for kind in ActionKind if kind is not ActionKind.KEEP):
        parts.append("routes to publish")
    return f"Plan: {', '.join(parts) or 'no replicas'}."


def _action(action: Action, width: int) -> Iterator[str]:
    where = ", ".join(action.nodes)
    if action.from_nodes:
        where = f"{', '.join(action.from_nodes)} -> {where}"
    devices = f" on {', '.join(action.devices)}" if action.devices else ""
    by = f" by {action.profile}" if action.profile and action.kind is not ActionKind.KEEP else ""
    yield f"{SYMBOLS[action.kind]} {action.replica:<{width}}  {action.kind.value:<7} {where}{devices}{by}"
    for reason in action.reasons:
        yield f"    {reason}"


def _unplaced(unplaced: Unplaced) -> Iterator[str]:
    if unplaced.held:
        yield f"! {unplaced.replica} is held back: {unplaced.held}"
        return
    yield f"! {unplaced.replica} cannot be placed:"
    for message, nodes in _grouped(unplaced.rejections):
        yield f"    {_some(nodes)}: {message}"
    if not unplaced.rejections:
        yield "    the inventory's group `fleet` has no nodes"


def _grouped(rejections: Iterable[Rejection]) -> list[tuple[str, list[str]]]:
    """Rejections that say the same of several nodes, told once."""
    by_message: dict[str, list[str]] = {}
    for rejection in rejections:
        nodes = by_message.setdefault(rejection.message.removeprefix(f"{rejection.node} "), [])
        if rejection.node not in nodes:
            nodes.append(rejection.node)
    return list(by_message.items())


def wave_lines(plan: Plan) -> list[str]:
    """The waves in order, a line each step."""
    return [line for number, wave in enumerate(plan.waves, 1) for line in _wave(number, wave)]


def _wave(number: int, wave: Wave) -> Iterator[str]:
    yield f"{number}. {wave.title}"
    for step in wave.steps:
        if isinstance(step, StartMembers):
            nodes = {unit.node for unit in step.units}
            yield f"   write {_count(step.units, 'unit')} on {_count(nodes, 'node')}, wait until ready"
        elif isinstance(step, Publish):
            endpoints = [endpoint for route in step.routes.routes for endpoint in route.endpoints]
            drain = f", drain {_some(step.drain)} (up to {step.drain_timeout_s} s)" if step.drain else ""
            ready = f", wait until gateways see {_some(step.ready)}" if step.ready else ""
            yield f"   publish routes to {_count(endpoints, 'endpoint')}{drain}{ready}"
        else:
            yield f"   stop {_count(step.units, 'unit')}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _count(things: Collection[object], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


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

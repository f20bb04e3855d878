# SPDX-License-Identifier: Apache-2.0
"""The difference between the units that should be and those that are: one action a replica, with reasons (R1, R2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from llmgw.model.ids import NodeName, ReplicaId, ServiceName, UnitName
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.placement import Assignment
from llmgw.model.plan import Action, ActionKind
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract, unitchange
from llmgw.placement.assign import Outcome
from llmgw.placement.instances import Instance
from llmgw.plan.changed_words import what_changes

_KINDS = {
    unitchange.CREATED: ActionKind.CREATE,
    unitchange.RESTARTED: ActionKind.UPDATE,
    unitchange.REWRITTEN: ActionKind.REWRITE,
    unitchange.STARTED: ActionKind.START,
    unitchange.KEPT: ActionKind.KEEP,
}


@dataclass(frozen=True, slots=True)
class Change:
    """One action with the units it writes and removes; `instance` is what it replaces or stops, `running` whether its
    units run now.
    """

    action: Action
    assignment: Assignment | None = None
    units: tuple[UnitFile, ...] = ()
    removes: tuple[tuple[NodeName, UnitName], ...] = ()
    instance: Instance | None = None
    running: bool = False


def changes_of(
    outcome: Outcome, units: Mapping[ReplicaId, tuple[UnitFile, ...]], fleet: FleetSnapshot
) -> tuple[Change, ...]:
    """What happens to every replica, in the order of the placement, then what stops, by replica and node.

    `units` holds the rendered units of every assignment on nodes that may be touched; an assignment without any is
    kept as it is.
    """
    nodes = {node.name: node for node in fleet.nodes}
    changes = [_of_assignment(one, units.get(one.replica, ()), outcome, nodes) for one in outcome.placement.assignments]
    for instance, reason in outcome.surplus:
        changes.append(_stop(instance, reason))
    return tuple(changes)


def _of_assignment(
    assignment: Assignment, units: tuple[UnitFile, ...], outcome: Outcome, nodes: Mapping[NodeName, Node]
) -> Change:
    came_from = outcome.displaced.get(assignment.replica)
    where = tuple(member.node for member in assignment.members)
    written = {(unit.node, unit.name) for unit in units}
    moved = came_from is not None and (came_from[0].nodes != where or bool(units and _removal(came_from[0], written)))
    kinds = [_kind(unit, nodes[unit.node]) for unit in units]
    kind = ActionKind.MOVE if moved else max(kinds, key=_SEVERITY.index, default=ActionKind.KEEP)
    reasons = tuple(dict.fromkeys(_reasons(kind, units, nodes, came_from)))
    action = Action(
        kind=kind,
        replica=assignment.replica,
        service=assignment.service.name,
        nodes=where,
        devices=tuple(device_names(assignment, nodes)),
        profile=assignment.profile.name,
        from_nodes=came_from[0].nodes if moved and came_from else (),
        reasons=reasons,
        members=assignment.members,
    )
    removes = _removal(came_from[0], written) if moved and came_from else ()
    running = bool(units) and all(_runs(unit, nodes[unit.node]) for unit in units)
    return Change(action, assignment, units, removes, came_from[0] if came_from else None, running)


def devices_held(change: Change) -> frozenset[tuple[str, str]]:
    """The devices that a replica has now and gives up, each with its node."""
    if change.instance is None:
        return frozenset()
    return frozenset((part.node.name, device) for part in change.instance.parts for device in part.unit.devices)


def devices_needed(change: Change) -> frozenset[tuple[str, str]]:
    """The devices that a replica will have, each with its node."""
    members = change.assignment.members if change.assignment is not None else ()
    return frozenset((member.node, device) for member in members for device in member.devices)


_CHANGES = "what it is started with changes (`llmgw diff` shows how)"
_SEVERITY = [ActionKind.KEEP, ActionKind.REWRITE, ActionKind.START, ActionKind.UPDATE, ActionKind.CREATE]


def _kind(unit: UnitFile, node: Node) -> ActionKind:
    observed = observed_unit(node, unit.name)
    return _KINDS[unitchange.change(observed, unit.process_digest, unit.text_digest)]


def _runs(unit: UnitFile, node: Node) -> bool:
    observed = observed_unit(node, unit.name)
    return observed is not None and unitchange.is_running(observed)


def observed_unit(node: Node, name: str) -> contract.ObservedUnit | None:
    """The unit of that name on a node, as last seen."""
    return next((unit for unit in (node.facts.units or ()) if unit.name == name), None) if node.facts else None


def _stop(instance: Instance, reason: str) -> Change:
    action = Action(
        kind=ActionKind.STOP,
        replica=instance.replica,
        service=ServiceName(instance.service),
        nodes=instance.nodes,
        reasons=(reason, *_all_left_alone(instance)),
    )
    return Change(action, removes=_removal(instance), instance=instance)


def _removal(
    instance: Instance, stays: Collection[tuple[NodeName, UnitName]] = ()
) -> tuple[tuple[NodeName, UnitName], ...]:
    """The units of an instance that go, but for those that are written anew and those on nodes that may not be touched
    now.
    """
    units = [(part.node.name, UnitName(part.unit.name)) for part in instance.parts if part.node.state is NodeState.OK]
    return tuple(unit for unit in units if unit not in stays)


def _all_left_alone(instance: Instance) -> Iterable[str]:
    return (line for part in instance.parts for line in _left_alone(part.node))


def _left_alone(node: Node) -> Iterable[str]:
    if node.state is NodeState.FROZEN:
        yield f"its unit on {node.name} stays: the node is left alone in this run"
    elif node.state is not NodeState.OK:
        yield f"its unit on {node.name} stays until the node can be reached"


def _reasons(
    kind: ActionKind, units: Iterable[UnitFile], nodes: Mapping[NodeName, Node], came_from: tuple[Instance, str] | None
) -> Iterable[str]:
    if came_from is not None:
        yield came_from[1]
        if kind is ActionKind.MOVE:
            yield from _all_left_alone(came_from[0])
        return
    for unit in units:
        observed = observed_unit(nodes[unit.node], unit.name)
        if observed is not None and kind is not ActionKind.KEEP:
            yield from _why(observed, unit)


def _why(observed: contract.ObservedUnit, unit: UnitFile) -> Iterable[str]:
    if not unitchange.is_running(observed):
        state = "/".join(filter(None, (observed.active_state, observed.sub_state))) or "not running"
        yield f"it is {state}"
    elif observed.running_digest not in (None, unit.process_digest):
        same = observed.process_digest == unit.process_digest and not observed.edited
        yield "it runs something older than its unit file" if same else _changed(observed, unit)
    if (
        observed.edited
        and observed.actual_text_digest is not None
        and observed.actual_text_digest == observed.text_digest
    ):
        yield "a drop-in changes it"
    elif observed.edited:
        yield "its unit was edited by hand"
    elif observed.actual_text_digest is None:
        yield "its unit file is missing"
    elif observed.actual_text_digest != unit.text_digest and observed.process_digest == unit.process_digest:
        yield "only the text of its unit changes, it goes on running"
    elif observed.needs_reload:
        yield "systemd has not read its unit since it was written"
    elif observed.enabled is False:
        yield "its unit is not enabled: it would not start with the machine"


def _changed(observed: contract.ObservedUnit, unit: UnitFile) -> str:
    """What differs of what it is started with, where the unit that runs is known and is llmgw's."""
    whole = observed.running_digest == observed.process_digest and not observed.edited
    words = what_changes(observed.text, unit.text) if observed.text and whole else None
    return _CHANGES if words is None else f"what it is started with: {words}"


def device_names(assignment: Assignment, nodes: Mapping[NodeName, Node]) -> Iterable[str]:
    """The devices of a placed replica as people know them, with the class; with the node where there are several."""
    for member in assignment.members:
        known = {device.uuid: device for device in nodes[member.node].devices or ()}
        where = f"{member.node}:" if len(assignment.members) > 1 else ""
        for uuid in member.devices:
            device = known.get(uuid)
            yield where + (uuid if device is None else f"{device.display_name} ({device.device_class})")

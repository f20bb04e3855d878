# SPDX-License-Identifier: Apache-2.0
"""`decide(catalog, fleet, options) -> Decision`: the whole product's one decision, as a pure function.

It composes placement, units, plan and routes. It reads no file, no clock and no network; the same inputs give the same
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from llmgw.fleet.published import published
from llmgw.model.ids import EndpointId, NodeName, ReplicaId, UnitName
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.placement import Placement
from llmgw.model.plan import PLAN_FORMAT, ActionKind, Plan, PlanInputs, Publish, Wave
from llmgw.model.replica import Catalog
from llmgw.model.route import RouteTable
from llmgw.model.unit import UnitFile
from llmgw.placement.advice import advice, free_devices
from llmgw.placement.assign import Outcome, frozen, place
from llmgw.placement.bound import unavoidable_moves
from llmgw.placement.notes import notes
from llmgw.plan.diff import Change, changes_of, devices_held, devices_needed
from llmgw.plan.drift import drift_of
from llmgw.plan.fetches import Fetches
from llmgw.plan.order import Order
from llmgw.plan.quarantine import quarantines
from llmgw.plan.rollouts import Rolling, carried_out, late_starts, rollings
from llmgw.plan.unseen_text import unseen_notes
from llmgw.routes.build import endpoint_id
from llmgw.routes.codec import routes_digest
from llmgw.routes.now import serving_now
from llmgw.routes.serving import from_assignment
from llmgw.routes.withheld import still_drained
from llmgw.units.access import access_of, open_engines
from llmgw.units.render import render

MASS_LOSS_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class Options:
    """What the operator asked for in this run. `limit` None: every node may be touched."""

    limit: frozenset[str] | None = None
    allow_mass_loss: bool = False
    inputs: PlanInputs | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Everything that follows from catalog and fleet."""

    placement: Placement
    units: tuple[UnitFile, ...]
    plan: Plan
    routes: RouteTable
    """As they are once the plan is carried out."""
    changes: tuple[Change, ...] = field(default=())
    outcome: Outcome | None = None
    """How the placement came about, for whoever explains it."""

    @property
    def fenced(self) -> frozenset[EndpointId]:
        """Endpoints that run and may not be routed to: copies of replicas that are elsewhere, such as those that a node
        brings back which was cut off.
        """
        surplus = self.outcome.surplus if self.outcome else ()
        elsewhere = {one.replica for one in self.placement.assignments}
        copies = (instance for instance, _ in surplus if instance.led and instance.replica in elsewhere)
        return frozenset(endpoint_id(instance.replica, instance.node.name) for instance in copies)


def decide(catalog: Catalog, fleet: FleetSnapshot, options: Options | None = None) -> Decision:
    """The decision for a catalog and a fleet. Raises LlmgwError only where a text cannot stand in a unit."""
    options = options or Options()
    fleet, freeze = bounded(fleet, options)
    served = published(fleet)
    if served.untold:
        fleet = frozen(fleet, (NodeState.OK,))
    outcome = place(catalog, fleet)
    nodes = {node.name: node for node in fleet.nodes}
    untouched = dict(_untouched(fleet))
    access = access_of(catalog, fleet)
    units: dict[ReplicaId, tuple[UnitFile, ...]] = {}
    for assignment in outcome.placement.assignments:
        if not assignment.partial and not any(member.node in untouched for member in assignment.members):
            units[assignment.replica] = tuple(
                render(assignment, member, nodes, access) for member in assignment.members
            )
    changes = changes_of(outcome, units, fleet)
    late = late_starts(changes)
    rolling = rollings(
        outcome, changes, late, lambda one: tuple(render(one, member, nodes, access) for member in one.members)
    )
    rolling, going = carried_out(rolling, changes, frozenset(one.replica for one in outcome.placement.unplaced))
    drift = drift_of(fleet, changes, {one.action.replica for one in changes} - {one.action.replica for one in going})
    stand_ins = [change for one in rolling for change in one.stand_ins]
    order = _ordered(catalog, fleet, [*going, *stand_ins], rolling, late)
    changes = (*changes, *stand_ins)
    routes = order.publish().routes
    # Routes that lack what is not told would take away what serves.
    waves = () if served.untold else _published(order, fleet, routes)
    plan = Plan(
        format_version=PLAN_FORMAT,
        generation=_generation(fleet) + (1 if waves else 0),
        actions=tuple(change.action for change in changes),
        waves=waves,
        unplaced=outcome.placement.unplaced,
        untouched=untouched,
        frozen=freeze,
        expected_units=_expected(fleet),
        moves=sum(change.action.kind is ActionKind.MOVE for change in changes),
        moves_lower_bound=unavoidable_moves(outcome),
        notes=(*unseen_notes(fleet, served), *open_engines(catalog, fleet, access), *notes(outcome)),
        advice=advice(outcome),
        free=free_devices(outcome.board),
        inputs=options.inputs,
        rollouts=tuple(one.rollout for one in rolling),
        drift=drift,
    )
    every_unit = tuple(unit for replica in sorted(units) for unit in units[replica])
    return Decision(outcome.placement, every_unit, plan, routes, changes, outcome)


def bounded(fleet: FleetSnapshot, options: Options) -> tuple[FleetSnapshot, str | None]:
    """The fleet with everything frozen that this run may not touch, and why if mass loss did it (P9)."""
    lost = [node.name for node in fleet.nodes if node.state is NodeState.LOST]
    reason = None
    if len(lost) > max(1, MASS_LOSS_SHARE * len(fleet.nodes)) and not options.allow_mass_loss:
        named = ", ".join(lost[:5])
        reason = f"{len(lost)} of {len(fleet.nodes)} nodes are lost at once ({named}): what runs stays as it is"
        fleet = frozen(fleet, (NodeState.LOST,))
    if options.limit is not None:
        limit = options.limit
        nodes = tuple(
            replace(node, state=NodeState.FROZEN) if node.state is NodeState.OK and node.name not in limit else node
            for node in fleet.nodes
        )
        gateways = tuple(
            replace(gateway, state=NodeState.FROZEN)
            if gateway.state is NodeState.OK and gateway.name not in limit
            else gateway
            for gateway in fleet.gateways
        )
        fleet = replace(fleet, nodes=nodes, gateways=gateways)
    return fleet, reason


def _untouched(fleet: FleetSnapshot) -> Iterator[tuple[NodeName, str]]:
    why = {
        NodeState.UNREACHABLE: "does not answer; what runs there counts as running",
        NodeState.UNSEEN: "has no usable facts",
        NodeState.FROZEN: "is left alone in this run",
        NodeState.LOST: "is lost",
    }
    for node in fleet.nodes:
        if node.state in why:
            yield node.name, why[node.state]
        elif node.facts is None or node.facts.units is None:
            yield node.name, "could not tell its units"
        elif node.facts.engines is None:
            yield node.name, "could not tell its engines"


def _ordered(
    catalog: Catalog,
    fleet: FleetSnapshot,
    changes: Sequence[Change],
    rolling: Sequence[Rolling],
    late: frozenset[ReplicaId],
) -> Order:
    nodes = {node.name: node for node in fleet.nodes}
    arrivals = {
        change.action.replica: from_assignment(change.assignment, change.units[0], nodes[change.assignment.leader.node])
        for change in changes
        if change.assignment is not None and change.units
    }
    drained = still_drained(fleet, catalog.fleet.lost_after_s)
    order = Order(catalog, serving_now(fleet), Fetches(fleet), nodes, drained, gateways=len(fleet.gateways))
    rolled = {change.action.replica for one in rolling for change in one.changes}
    by_kind: dict[ActionKind, list[Change]] = {kind: [] for kind in ActionKind}
    for change in changes:
        by_kind[change.action.kind].append(change)
    starting = by_kind[ActionKind.CREATE] + by_kind[ActionKind.MOVE]
    dead = [one for one in by_kind[ActionKind.START] + by_kind[ActionKind.UPDATE] if one.action.replica not in rolled]
    # What does not run takes nothing away: it comes first, unless it waits for a device that somebody else must leave.
    leaving = {device for change in starting for device in devices_held(change)}
    # What needs a device that a rollout gives up comes after all rollouts.
    last = [one for one in dead if one.action.replica in late]
    dead = [one for one in dead if one.action.replica not in late]
    waiting = {change.action.replica for change in dead if devices_needed(change) & leaving}
    order.mark(quarantines(fleet))
    serving_on = {(change.action.replica, change.action.nodes) for one in rolling for change in one.surplus}
    order.stop([one for one in by_kind[ActionKind.STOP] if (one.action.replica, one.action.nodes) not in serving_on])
    order.revive([one for one in dead if one.action.replica not in waiting], arrivals)
    order.start([one for one in starting if one.action.replica not in late], arrivals)
    order.revive([one for one in dead if one.action.replica in waiting], arrivals)
    order.roll([one for one in rolling if one.changes], arrivals)
    order.start([one for one in starting if one.action.replica in late], arrivals)
    order.revive(last, arrivals)
    order.rewrite(by_kind[ActionKind.REWRITE])
    return order


def _published(order: Order, fleet: FleetSnapshot, routes: RouteTable) -> tuple[Wave, ...]:
    """The waves, and a last one that publishes when some gateway would else be left with other routes."""
    waves = tuple(order.waves)
    if any(isinstance(step, Publish) for wave in waves for step in wave.steps) or not fleet.gateways:
        return waves
    digest = routes_digest(routes)
    reached = (gateway for gateway in fleet.gateways if gateway.state is NodeState.OK)
    behind = [gateway.name for gateway in reached if gateway.bundle is None or gateway.bundle.routes_digest != digest]
    return (*waves, Wave(f"publish routes to {', '.join(sorted(behind))}", (Publish(routes),))) if behind else waves


def _generation(fleet: FleetSnapshot) -> int:
    """The highest generation that any node or gateway has seen (R11)."""
    seen = [node.facts.generation for node in fleet.nodes if node.facts and node.facts.generation is not None]
    seen += [
        gateway.bundle.generation
        for gateway in fleet.gateways
        if gateway.bundle and gateway.bundle.generation is not None
    ]
    return max(seen, default=0)


def _expected(fleet: FleetSnapshot) -> dict[NodeName, dict[UnitName, str]]:
    return {
        node.name: {
            UnitName(unit.name): unit.actual_text_digest
            for unit in sorted(node.facts.units, key=lambda one: one.name)
            if unit.actual_text_digest is not None
        }
        for node in fleet.nodes
        if node.facts is not None and node.facts.units is not None
    }

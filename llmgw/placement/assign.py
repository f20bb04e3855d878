# SPDX-License-Identifier: Apache-2.0
"""Assignment: what runs and still fits stays, the rest gets the best feasible place (P8). Deterministic, whatever the
order of input.

Cost: kept replicas are O(replicas); every new or displaced one looks at every node once, and at all its constraints
only where it
finds no place at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from llmgw.model.ids import DeviceId, NodeName, ReplicaId
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.placement import Assignment, Member, Placement, Rejection, Unplaced
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.placement.feasibility import Ask, chosen_class, rejections
from llmgw.placement.instances import Instance, hidden_replicas, instances_of
from llmgw.placement.ledger import Ledger
from llmgw.placement.score import score, total
from llmgw.placement.select import Selection, select


@dataclass(frozen=True, slots=True)
class Outcome:
    """A placement and what it means for the instances that run.

    `displaced`: instances that are replaced elsewhere, with the reason; `surplus`: instances nobody wants, with the
    reason.
    """

    placement: Placement
    displaced: dict[ReplicaId, tuple[Instance, str]] = field(default_factory=dict)
    surplus: tuple[tuple[Instance, str], ...] = ()


def place(catalog: Catalog, fleet: FleetSnapshot) -> Outcome:
    """The placement of every replica the catalog asks for, or why it has none."""
    selection = select(catalog, instances_of(fleet))
    board = _Board(catalog, fleet)
    board.reserve(selection)
    assignments = [board.keep(service, instance, profile) for service, instance, profile in selection.kept]
    displaced = dict(selection.displaced)
    unplaced: list[Unplaced] = []
    hidden = hidden_replicas(fleet)
    for service, number in selection.wanted:
        replica = ReplicaId(f"{service.name}/{number}")
        if hidden and replica not in displaced:
            unplaced.append(Unplaced(replica, service.name, (), _held(hidden)))
            continue
        placed = board.place(service, replica, displaced.get(replica))
        if isinstance(placed, Assignment):
            assignments.append(placed)
        else:
            unplaced.append(placed)
    order = {service.name: position for position, service in enumerate(catalog.services)}
    assignments.sort(key=lambda one: (order[one.service.name], _number(one.replica)))
    return Outcome(Placement(tuple(assignments), tuple(unplaced)), displaced, selection.surplus)


def _held(hidden: Sequence[NodeName]) -> str:
    names = ", ".join(hidden)
    return (
        f"it may run on {names}, whose units cannot be seen; "
        "run `llmgw facts refresh`, or set llmgw_lost: true if the node is gone"
    )


def _number(replica: ReplicaId) -> int:
    return int(replica.rpartition("/")[2])


class _Board:
    """All ledgers of one placement."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot) -> None:
        self._ledgers = {node.name: Ledger(node, catalog.fleet.port_range) for node in fleet.nodes}
        self._nodes = fleet.nodes
        self._domains: dict[tuple[str, str], int] = {}

    def reserve(self, selection: Selection) -> None:
        """Ports of everything that runs stay taken: what leaves still listens while the plan is carried out."""
        for instance in selection.seen:
            if instance.unit.port is not None and instance.node.name in self._ledgers:
                self._ledgers[instance.node.name].reserve_ports((instance.unit.port,))

    def keep(self, service: ServiceSpec, instance: Instance, profile: ProfileSpec) -> Assignment:
        """The instance's own place, promised first: its unit says which devices it has, whatever the node."""
        ledger = self._ledgers[instance.node.name]
        devices = tuple(map(DeviceId, instance.unit.devices))
        port = instance.unit.port if instance.unit.port is not None else ledger.free_port() or 0
        ledger.promise(service.name, profile, devices, port)
        self._count(service, instance.node)
        return Assignment(
            instance.replica, service, profile, (Member(0, instance.node.name, devices, port),), kept=True
        )

    def place(
        self, service: ServiceSpec, replica: ReplicaId, came_from: tuple[Instance, str] | None
    ) -> Assignment | Unplaced:
        """The best feasible node by the first profile that has one; the slot it came from is tried first (P8)."""
        home = came_from[0].node.name if came_from else None
        for profile in service.profiles:
            best: tuple[bool, float, NodeName] | None = None
            for node in self._nodes:
                ask, ledger = self._ask(service, profile, node), self._ledgers[node.name]
                if rejections(ask, ledger, first=True):
                    continue
                rank = (node.name != home, -total(score(ask, ledger)), node.name)
                best = rank if best is None or rank < best else best
            if best is not None:
                return self._take(service, profile, replica, best[2])
        return Unplaced(replica, service.name, tuple(self._reasons(service)))

    def _take(self, service: ServiceSpec, profile: ProfileSpec, replica: ReplicaId, name: NodeName) -> Assignment:
        ledger = self._ledgers[name]
        ask = self._ask(service, profile, ledger.node)
        terms = score(ask, ledger)
        device_class = chosen_class(ask, ledger)
        free = () if device_class is None else ledger.free_devices(device_class)[: profile.gpus]
        devices = tuple(device.uuid for device in free)
        port = ledger.free_port() or 0
        ledger.promise(service.name, profile, devices, port)
        self._count(service, ledger.node)
        return Assignment(replica, service, profile, (Member(0, name, devices, port),), score=terms)

    def _reasons(self, service: ServiceSpec) -> Iterable[Rejection]:
        for profile in service.profiles:
            for node in self._nodes:
                yield from rejections(self._ask(service, profile, node), self._ledgers[node.name])

    def _ask(self, service: ServiceSpec, profile: ProfileSpec, node: Node) -> Ask:
        if service.spread is None:
            return Ask(service, profile)
        domain = _domain(service.spread, node)
        here = self._domains.get((service.name, domain), 0) if domain else 0
        return Ask(service, profile, self._share(service), here, domain)

    def _share(self, service: ServiceSpec) -> int:
        """An even share: replicas over the number of domains that can take any, rounded up."""
        spread = service.spread or ""
        usable = (node for node in self._nodes if node.state is NodeState.OK and not node.drained and not node.cordoned)
        domains = {domain for domain in (_domain(spread, node) for node in usable) if domain}
        return math.ceil(service.replicas / max(1, len(domains)))

    def _count(self, service: ServiceSpec, node: Node) -> None:
        domain = _domain(service.spread, node) if service.spread else None
        if domain:
            self._domains[service.name, domain] = self._domains.get((service.name, domain), 0) + 1


def _domain(spread: str, node: Node) -> str | None:
    return node.name if spread == "node" else node.labels.get(spread)


def frozen(fleet: FleetSnapshot, states: Iterable[NodeState]) -> FleetSnapshot:
    """The fleet with every node in one of the states made FROZEN: counted as it is, changed in nothing."""
    wanted = set(states)
    return replace(
        fleet,
        nodes=tuple(replace(node, state=NodeState.FROZEN) if node.state in wanted else node for node in fleet.nodes),
    )

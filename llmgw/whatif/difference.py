# SPDX-License-Identifier: Apache-2.0
"""What differs between two decisions: what finds a place, what fits no more, what moves, what stays free (P12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llmgw.decide import Decision, Options, decide
from llmgw.model.ids import DeviceClass, NodeName, ReplicaId, ServiceName
from llmgw.model.node import Device, FleetSnapshot, Node, NodeState
from llmgw.model.placement import Assignment, Unplaced
from llmgw.model.replica import Catalog
from llmgw.whatif.cause import replica_causes


@dataclass(frozen=True, slots=True)
class Side:
    """A catalog, a fleet, and the decision that follows from them."""

    catalog: Catalog
    fleet: FleetSnapshot
    decision: Decision


@dataclass(frozen=True, slots=True)
class Change:
    """Where a replica is on both sides: the nodes of its members in order of rank; empty: it has no place, or it is not
    asked for.
    """

    replica: ReplicaId
    before: tuple[NodeName, ...] = ()
    after: tuple[NodeName, ...] = ()
    runs: bool = False
    """Whether it runs where it is before: only then a change of place costs a restart."""
    asked_before: bool = True
    why: str | None = None
    """Why it has no place after, where it has none; None where it has one, or nothing is known."""


@dataclass(frozen=True, slots=True)
class Count:
    """Replicas of a service: how many have a place, of how many that are asked for."""

    service: ServiceName
    placed_before: int
    wanted_before: int
    placed_after: int
    wanted_after: int

    @property
    def changed(self) -> bool:
        """Whether any of the numbers differs."""
        return (self.placed_before, self.wanted_before) != (self.placed_after, self.wanted_after)


@dataclass(frozen=True, slots=True)
class Free:
    """Devices of a class, and those of them that no replica has and that take a new one, once the plan is done."""

    device_class: DeviceClass
    free_before: int
    total_before: int
    free_after: int
    total_after: int

    @property
    def changed(self) -> bool:
        """Whether any of the numbers differs."""
        return (self.free_before, self.total_before) != (self.free_after, self.total_after)


@dataclass(frozen=True, slots=True)
class Difference:
    """How two decisions differ; replicas in order of name and number, services and classes by name.

    `gained`: without a place before, or not asked for. `fits_no_more`: with a place before. `unplaced`: without one on
    both sides, or asked for only now. `dropped`: not asked for any more. `moves`: on other nodes or devices than those
    where they run. `elsewhere`: planned for other nodes, and not running yet, so that it costs nothing.
    """

    gained: tuple[Change, ...] = ()
    fits_no_more: tuple[Change, ...] = ()
    unplaced: tuple[Change, ...] = ()
    dropped: tuple[Change, ...] = ()
    moves: tuple[Change, ...] = ()
    elsewhere: tuple[Change, ...] = ()
    services: tuple[Count, ...] = ()
    devices: tuple[Free, ...] = ()


def side(catalog: Catalog, fleet: FleetSnapshot, options: Options | None = None) -> Side:
    """The decision together with what it follows from. Costs what `decide` costs."""
    return Side(catalog, fleet, decide(catalog, fleet, options))


def compare(before: Side, after: Side) -> Difference:
    """What differs from `before` to `after`. O(replicas + devices)."""
    was, now = _placed(before), _placed(after)
    lacked, lacks = _unplaced(before), _unplaced(after)
    causes = replica_causes(after.decision, after.fleet, {replica: _nodes(one) for replica, one in was.items()})
    found: dict[str, list[Change]] = {}
    for replica in sorted({*was, *now, *lacked, *lacks}, key=_order):
        kind = _kind(was.get(replica), now.get(replica), lacks=replica in lacks)
        if kind is not None:
            first = was.get(replica)
            asked = first is not None or replica in lacked
            runs = first is not None and first.kept
            change = Change(replica, _nodes(first), _nodes(now.get(replica)), runs, asked, causes.get(replica))
            found.setdefault(kind, []).append(change)
    changes = {kind: tuple(some) for kind, some in found.items()}
    return Difference(**changes, services=tuple(_services(before, after)), devices=tuple(_devices(before, after)))


def _kind(was: Assignment | None, now: Assignment | None, *, lacks: bool) -> str | None:
    """The field of `Difference` that a replica belongs into; None: it stays where it is, or it is on neither side."""
    if now is None:
        if lacks:
            return "unplaced" if was is None else "fits_no_more"
        return None if was is None else "dropped"
    if was is None:
        return "gained"
    if _slots(was) == _slots(now):
        return None
    return "moves" if was.kept else "elsewhere"


def _slots(one: Assignment) -> list[tuple[NodeName, tuple[str, ...]]]:
    return [(member.node, member.devices) for member in one.members]


def _placed(one: Side) -> Mapping[ReplicaId, Assignment]:
    return {assignment.replica: assignment for assignment in one.decision.placement.assignments}


def _unplaced(one: Side) -> Mapping[ReplicaId, Unplaced]:
    return {unplaced.replica: unplaced for unplaced in one.decision.placement.unplaced}


def _nodes(one: Assignment | None) -> tuple[NodeName, ...]:
    return () if one is None else tuple(member.node for member in one.members)


def _order(replica: ReplicaId) -> tuple[str, int]:
    service, _, number = replica.rpartition("/")
    return service, int(number)


def _services(before: Side, after: Side) -> Iterator[Count]:
    wanted = [{service.name: service.replicas for service in one.catalog.services} for one in (before, after)]
    placed = [Counter(one.service.name for one in side.decision.placement.assignments) for side in (before, after)]
    for name in sorted({*wanted[0], *wanted[1]}):
        yield Count(name, placed[0][name], wanted[0].get(name, 0), placed[1][name], wanted[1].get(name, 0))


def _devices(before: Side, after: Side) -> Iterator[Free]:
    first, second = _by_class(before), _by_class(after)
    for name in sorted({*first, *second}):
        yield Free(name, *first.get(name, (0, 0)), *second.get(name, (0, 0)))


def _by_class(one: Side) -> dict[DeviceClass, tuple[int, int]]:
    """Free and all devices by class."""
    held = {
        device
        for assignment in one.decision.placement.assignments
        for member in assignment.members
        for device in member.devices
    }
    free: Counter[DeviceClass] = Counter()
    total: Counter[DeviceClass] = Counter()
    for node in one.fleet.nodes:
        for device in node.devices or ():
            total[device.device_class] += 1
            free[device.device_class] += device.uuid not in held and _open(node, device)
    return {name: (free[name], count) for name, count in total.items()}


def _open(node: Node, device: Device) -> bool:
    """Whether something new may come to a device that nothing holds. Where units are unknown nothing may."""
    usable = node.state is NodeState.OK and not node.cordoned and not node.drained
    known = node.facts is not None and node.facts.units is not None
    return usable and known and not device.blocked_by and not device.kept_away_by

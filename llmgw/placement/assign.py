# SPDX-License-Identifier: Apache-2.0
"""Assignment: what runs and still fits stays, the rest gets the best feasible place (P8). Deterministic, whatever the
order of input.

Cost: kept replicas are O(replicas); a service with new ones looks at every node once, and again at few for each
replica; what finds no place looks once more at everything, to make room and to say why not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from llmgw.model.ids import DeviceId, ReplicaId
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.placement import Assignment, Placement, Rejection, Unplaced
from llmgw.model.replica import Catalog, ServiceSpec
from llmgw.placement.board import NOWHERE, Board
from llmgw.placement.candidates import Candidates
from llmgw.placement.instances import Instance, hidden_because, hidden_replicas, instances_of
from llmgw.placement.keep import kept
from llmgw.placement.queue import Queue
from llmgw.placement.rearrange import FEW_NODES, Rearrangement, preempting, without_moves
from llmgw.placement.select import Selection, select


@dataclass(frozen=True, slots=True)
class Outcome:
    """A placement and what it means for the instances that run.

    `displaced`: instances that are replaced elsewhere, with the reason; `surplus`: instances nobody wants, or that gave
    way to others, with the reason. `board`: everything promised.
    """

    placement: Placement
    board: Board
    displaced: dict[ReplicaId, tuple[Instance, str]] = field(default_factory=dict)
    surplus: tuple[tuple[Instance, str], ...] = ()


def place(catalog: Catalog, fleet: FleetSnapshot, *, reasons: bool = True) -> Outcome:
    """The placement of every replica the catalog asks for, or why it has none; without `reasons` only that it has."""
    hidden = hidden_replicas(fleet)
    selection = select(catalog, instances_of(fleet), hidden=bool(hidden))
    return _Placing(catalog, fleet, selection, hidden_because(fleet, hidden)).outcome(reasons=reasons)


class _Placing:
    """One placement while it is computed."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot, selection: Selection, hidden: str | None) -> None:
        self._services: dict[str, int] = {service.name: position for position, service in enumerate(catalog.services)}
        self._hidden = hidden
        self._board = Board(catalog, fleet)
        self._queue = Queue(self._board)
        self._displaced = dict(selection.displaced)
        self._surplus = list(selection.surplus)
        self._running = {instance.replica: instance for _, instance, _ in selection.kept}
        self._unplaced: dict[ReplicaId, Unplaced] = {}
        self._hopeless: set[str] = set()
        self._rearranged = False
        self._finder: tuple[str, list[Candidates]] | None = None
        for instance in selection.seen:
            for part in instance.parts:
                self._board.reserve(part)
        for service, instance, profile in selection.kept:
            self._board.take(kept(service, instance, profile, self._board))
        for instance, _ in self._displaced.values():
            self._board.vacate(instance)
        self._queue.add(selection.wanted, selection.displaced)

    def outcome(self, *, reasons: bool) -> Outcome:
        """Place everything that waits, and say why not of what has no place."""
        self._place_waiting()
        while self._rearranged:
            # Making room for one may have left room for another that found none before.
            self._rearranged = False
            if len(self._board.ledgers) <= FEW_NODES:
                self._hopeless.clear()
            again = [one for one in self._unplaced.values() if one.held is None and self._is_unplaced(one)]
            services = self._board.catalog.services
            self._queue.add(
                [(services[self._services[one.service]], _number(one.replica)) for one in again], self._displaced
            )
            self._place_waiting()
        self._stop_homeless()
        assignments = sorted(self._board.assigned.values(), key=self._order)
        homeless = [self._where_it_is(one) for one in self._unplaced.values() if self._is_unplaced(one)]
        homeless.sort(key=self._order)
        unplaced = tuple(self._explained(homeless) if reasons else homeless)
        return Outcome(Placement(tuple(assignments), unplaced), self._board, self._displaced, tuple(self._surplus))

    def _place_waiting(self) -> None:
        while (wanted := self._queue.next()) is not None:
            service, number = wanted
            self._place(service, ReplicaId(f"{service.name}/{number}"))

    def _is_unplaced(self, one: Unplaced) -> bool:
        return one.replica not in self._board.assigned

    def _stop_homeless(self) -> None:
        """What must leave and has no other place goes on serving, unless it gave way or others have its devices now."""
        takers = {
            (member.node, device): one.replica
            for one in self._board.assigned.values()
            for member in one.members
            for device in member.devices
        }
        for replica in sorted(self._unplaced.keys() - self._board.assigned.keys()):
            gone = self._displaced.get(replica)
            if gone is None:
                continue
            instance, reason = gone
            held = [(part.node.name, DeviceId(device)) for part in instance.parts for device in part.unit.devices]
            took = sorted({takers[device] for device in held if device in takers})
            if took and self._unplaced[replica].gave_way_to is None:
                reason = f"{reason}, and {', '.join(took)} gets its devices"
            if took or self._unplaced[replica].gave_way_to is not None:
                self._surplus.append((instance, reason))
                del self._displaced[replica]

    def _where_it_is(self, one: Unplaced) -> Unplaced:
        still = self._displaced.get(one.replica)
        if still is None or not still[0].working:
            return one
        return replace(one, runs_on=still[0].nodes, must_leave=still[1])

    def _order(self, one: Assignment | Unplaced) -> tuple[int, int]:
        return self._services[one.service if isinstance(one, Unplaced) else one.service.name], _number(one.replica)

    def _place(self, service: ServiceSpec, replica: ReplicaId) -> None:
        if self._hidden and replica not in self._displaced:
            self._unplaced[replica] = Unplaced(replica, service.name, (), self._hidden)
            return
        found = self._best(service, replica)
        if found is not None:
            self._take(found)
            return
        # Nothing has become free since the last replica of this service found no room.
        room = None if service.name in self._hopeless else self._make_room(service, replica)
        if room is not None:
            self._carry_out(room)
            return
        self._hopeless.add(service.name)
        self._unplaced.setdefault(replica, Unplaced(replica, service.name, ()))

    def _best(self, service: ServiceSpec, replica: ReplicaId) -> Assignment | None:
        """The best place by the first profile that has one; where it came from is tried first (P8)."""
        came_from = self._displaced.get(replica)
        home = frozenset(came_from[0].nodes) if came_from else NOWHERE
        for position, profile in enumerate(service.profiles):
            if home or profile.nodes > 1:
                found = self._board.find(service, profile, replica, home=home)
            else:
                candidates = self._candidates(service)[position]
                ledger = candidates.best()
                ask = self._board.ask(service, profile)
                found = None if ledger is None else self._board.on(ask, replica, ledger)
            if found is not None:
                return found
        return None

    def _candidates(self, service: ServiceSpec) -> list[Candidates]:
        if self._finder is None or self._finder[0] != service.name:
            board = self._board
            self._finder = service.name, [Candidates(board, board.ask(service, one)) for one in service.profiles]
        return self._finder[1]

    def _take(self, assignment: Assignment) -> None:
        self._board.take(assignment)
        self._has_left(assignment.replica)
        if self._finder is not None and self._finder[0] == assignment.service.name:
            for candidates in self._finder[1]:
                candidates.touch(assignment)

    def _has_left(self, replica: ReplicaId) -> None:
        if replica in self._displaced:
            self._board.vacate(self._displaced[replica][0], still=False)

    def _make_room(self, service: ServiceSpec, replica: ReplicaId) -> Rearrangement | None:
        """Room by placing otherwise what is not placed for good yet, else by letting lower priorities give way."""
        board = self._board
        return without_moves(board, service, replica) or preempting(board, service, replica)

    def _carry_out(self, room: Rearrangement) -> None:
        self._finder = None
        self._rearranged = True
        for old, _ in room.changes:
            self._board.give_back(old)
        self._board.take(replace(room.assignment, preempts=tuple(sorted(one.replica for one in room.touched))))
        self._has_left(room.assignment.replica)
        for old, new in room.changes:
            if new is not None:
                self._board.take(new)
            if old.kept or new is None:
                self._gives_way(old, new, room.assignment)

    def _gives_way(self, victim: Assignment, new: Assignment | None, to: Assignment) -> None:
        """A replica of lower priority that runs gets another place, or waits for its turn to find one."""
        over = f"priority {to.service.priority} over {victim.service.priority}"
        instance = self._running.pop(victim.replica, None)
        if instance is not None:
            self._displaced[victim.replica] = (instance, f"it gives way to {to.replica} ({over})")
        if new is None:
            self._unplaced[victim.replica] = Unplaced(victim.replica, victim.service.name, (), gave_way_to=to.replica)
            self._queue.add([(victim.service, _number(victim.replica))], self._displaced)

    def _explained(self, unplaced: Iterable[Unplaced]) -> Iterable[Unplaced]:
        """Every one that has found no place, with a rejection for every node and profile, told once a service."""
        told: dict[str, ReplicaId] = {}
        for one in unplaced:
            if one.held is not None:
                yield one
            elif one.service in told:
                yield replace(one, like=told[one.service])
            else:
                told[one.service] = one.replica
                yield replace(one, rejections=tuple(self._rejections(one.service)))

    def _rejections(self, name: str) -> Iterable[Rejection]:
        service = self._board.catalog.services[self._services[name]]
        for profile in service.profiles:
            for ledger in self._board.ledgers.values():
                yield from self._board.rejections(service, profile, ledger.node)


def _number(replica: ReplicaId) -> int:
    return int(replica.rpartition("/")[2])


def frozen(fleet: FleetSnapshot, states: Iterable[NodeState]) -> FleetSnapshot:
    """The fleet with every node in one of the states made FROZEN: counted as it is, changed in nothing."""
    wanted = set(states)
    return replace(
        fleet,
        nodes=tuple(replace(node, state=NodeState.FROZEN) if node.state in wanted else node for node in fleet.nodes),
    )

# SPDX-License-Identifier: Apache-2.0
"""Tries edits: would a replica get a place if somebody did this? (P11)

A trial is a board of its own, of the nodes in question alone, on which everything that has a place is where it is. Then
whatever has no place and comes before the replica gets the first choice of what the edits free, and the replica must
still find something. So what is tried costs the nodes of the trial, not the fleet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from llmgw.model.ids import DeviceId, NodeName, ProfileName, ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.placement import Assignment, Member, Unplaced
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.placement.assign import Outcome, place
from llmgw.placement.board import Board
from llmgw.placement.instances import Instance, eviction
from llmgw.placement.queue import Queue
from llmgw.placement.tally import even_share
from llmgw.placement.why.edits import Edit, edited_catalog, edited_fleet, edited_node, with_nodes

WHOLE = 2000
"""Nodes and replicas that may be placed anew, for all trials together, to see whether they are right."""
NOT_MOVED: Mapping[ReplicaId, Assignment] = MappingProxyType({})
Edits = Mapping[NodeName, tuple[Edit, ...]]
"""What is done on each node; edits of the catalog are the same for all of them."""


class Trials:
    """Tries edits for one replica that has no place."""

    def __init__(self, outcome: Outcome, service: ServiceSpec, replica: ReplicaId) -> None:
        self._board = outcome.board
        self._known = [profile for one in outcome.board.catalog.services for profile in one.profiles]
        self._renamed = 0
        self._service = service
        self._replica = replica
        self._leaving = [instance for other, (instance, _reason) in outcome.displaced.items() if other != replica]
        self._leaving += [instance for instance, _reason in outcome.surplus if instance.replica != replica]
        self._home = outcome.displaced[replica][0] if replica in outcome.displaced else None
        self._waiting = tuple(_waiting(outcome, service.priority))
        self._before = tuple(itertools.takewhile(lambda one: one.replica != replica, self._waiting))
        self._budget = WHOLE
        self.ahead = sum(one.service == service.name for one in self._before)
        """Replicas of the same service that have no place and come first."""
        self.place: tuple[NodeName, ...] = ()
        """The nodes that the last trial found for the replica."""

    def fits(self, profile: ProfileName, edits: Edits, moved: Mapping[ReplicaId, Assignment] = NOT_MOVED) -> bool:
        """Whether the replica has a place on the nodes of `edits` after all of them, by whatever profile. `moved`: new
        places, among these nodes, of replicas that run.
        """
        common = tuple(edit for one in list(edits.values())[:1] for edit in one if edit.of_catalog)
        catalog = edited_catalog(self._board.catalog, self._service.name, profile, common)
        fleet = self._fleet(edits)
        if self._stays_home(fleet):
            return self._in_the_whole_fleet(catalog, edits, unless=self._outranked())
        board = Board(catalog, fleet)
        board.models = self._board.models
        fewer = {edit.fewer for edit in common if edit.fewer}
        services = {one.name: one for one in catalog.services}
        leaving = self._take_what_is_there(board, services, fewer, fleet, moved)
        shared = bool(moved) or any(edit.helps_one_node or edit.port_range for one in edits.values() for edit in one)
        queue = [
            one
            for one in self._waiting_before(common)
            if shared or any(mine.name == profile for mine in services[one.service].profiles)
        ]
        self._spread(board, {self._service.name, *(one.service for one in queue)}, services, edits)
        for one in leaving:
            again = _first_place(board, one.service, one.replica)
            if again is not None:
                board.take(again)
        hopeless: set[ServiceName] = set()
        for waiting in queue:
            found = (
                None if waiting.service in hopeless else _first_place(board, services[waiting.service], waiting.replica)
            )
            if found is None:
                hopeless.add(waiting.service)
            else:
                board.take(found)
        place = _first_place(board, services[self._service.name], self._replica)
        if place is None:
            return False
        self.place = tuple(member.node for member in place.members)
        return bool(moved) or self._in_the_whole_fleet(catalog, edits)

    def _in_the_whole_fleet(self, catalog: Catalog, edits: Edits, *, unless: bool = False) -> bool:
        """Whether the whole placement, made again, has a place for the replica. It may place otherwise what does not
        run yet, and edits may make places of others worse. When `WHOLE` is spent it has one, `unless` that is doubtful.
        """
        outcome = self.placed_again(catalog, edits)
        if outcome is None:
            return not unless
        place = outcome.board.assigned.get(self._replica)
        self.place = self.place if place is None else tuple(member.node for member in place.members)
        return place is not None

    def _outranked(self) -> bool:
        """Whether something more important has no place, to which the replica might have to give way."""
        priorities = {one.name: one.priority for one in self._board.catalog.services}
        return any(priorities[one.service] > self._service.priority for one in self._waiting)

    def placed_again(self, catalog: Catalog, edits: Edits = MappingProxyType({})) -> Outcome | None:
        """The whole placement after edits; None when `WHOLE` is spent."""
        cost = len(self._board.ledgers) + len(self._board.assigned)
        if cost > self._budget:
            return None
        self._budget -= cost
        return place(catalog, edited_fleet(self._board.fleet, edits), reasons=False)

    def _waiting_before(self, edits: Iterable[Edit]) -> Iterable[Unplaced]:
        """What would be asked before the replica. An edit of its profile may let it wait for others that waited for it:
        then all of them, but for later replicas of its own.
        """
        if not any(edit.on_profile for edit in edits):
            return self._before
        return (one for one in self._waiting if one.service != self._service.name or one in self._before)

    def _fleet(self, edits: Edits) -> FleetSnapshot:
        """The nodes of the trial after the edits: those that are edited, and for replicas of several nodes those that
        something may join them with.
        """
        names = set(edits)
        if any(profile.nodes > 1 for profile in self._service.profiles):
            joins = {join for name in edits for join in joins_of(self._board.ledgers[name].node)}
            names |= {
                name for name, ledger in self._board.ledgers.items() if not joins.isdisjoint(joins_of(ledger.node))
            }
        nodes = [edited_node(self._board.ledgers[name].node, edits.get(name, ())) for name in sorted(names)]
        return with_nodes(replace(self._board.fleet, nodes=()), nodes)

    def _stays_home(self, fleet: FleetSnapshot) -> bool:
        """Whether a replica that had to leave its nodes need not any more."""
        return self._home is not None and eviction(self._home) is not None and _on(self._home, fleet) is not None

    def _take_what_is_there(
        self,
        board: Board,
        services: Mapping[ServiceName, ServiceSpec],
        fewer: set[ServiceName],
        fleet: FleetSnapshot,
        moved: Mapping[ReplicaId, Assignment],
    ) -> list[Assignment]:
        """Take what has a place and keeps it; what loses it by the edits is returned."""
        leaving: dict[ReplicaId, Assignment] = {}
        gone = set(last_of_services(self._board, fewer).values())
        for name in board.ledgers:
            for assignment in self._board.on_node[name].values():
                if assignment.replica not in board.assigned and assignment.replica not in gone:
                    now = moved.get(assignment.replica, assignment)
                    within = _within(board, now, services[assignment.service.name])
                    if (within.profile.gpus, within.profile.nodes) == (now.profile.gpus, now.profile.nodes):
                        board.take(within)
                    else:
                        leaving[within.replica] = within
        for instance in self._leaving:
            for part in instance.parts:
                if part.node.name in board.ledgers:
                    board.reserve(part)
            back = _back(instance, fleet, services)
            if back is not None and back.replica not in board.assigned:
                board.take(back)
        return list(leaving.values())

    def _spread(
        self, board: Board, names: Iterable[ServiceName], services: Mapping[ServiceName, ServiceSpec], edits: Edits
    ) -> None:
        """Counts and shares of spread domains are those of the whole fleet."""
        before = {one.name: one for one in self._board.catalog.services}
        for name in sorted(names):
            service, was = services[name], before[name]
            if service.spread is None:
                continue
            tally = board.tally(service)
            able = {node.name: node for node in self._able(service, edits)}
            for profile in service.profiles:
                able |= {one: ledger.node for one, ledger in board.eligible(service, profile).items()}
            tally.share = even_share(service, able.values())
            tally.domains = dict(self._board.tally(was).domains)

    def _able(self, service: ServiceSpec, edits: Edits) -> Iterator[Node]:
        """Nodes outside the trial that could take a replica; profiles by a name under which nobody has asked yet."""
        for profile in service.profiles:
            for name, ledger in self._board.eligible(service, self._apart(profile)).items():
                if name not in edits:
                    yield ledger.node

    def _apart(self, profile: ProfileSpec) -> ProfileSpec:
        if profile in self._known:
            return profile
        self._renamed += 1
        return replace(profile, name=ProfileName(f"{profile.name}, edit {self._renamed}"))


def _waiting(outcome: Outcome, priority: int) -> Iterator[Unplaced]:
    """What has no place and is at least so important, in the order in which it is asked."""
    waiting = {one.replica: one for one in outcome.placement.unplaced if one.held is None}
    services = {one.name: one for one in outcome.board.catalog.services}
    queue = Queue(outcome.board)
    queue.add(((services[one.service], _number(one.replica)) for one in waiting.values()), outcome.displaced)
    while (turn := queue.next()) is not None and turn[0].priority >= priority:
        yield waiting[ReplicaId(f"{turn[0].name}/{turn[1]}")]


def last_of_services(board: Board, names: Iterable[ServiceName]) -> dict[ServiceName, ReplicaId]:
    """For each service the replica that goes when it gets one fewer: of those that run, and only if all have a place
    and none is new, for else that one would go.
    """
    mine: dict[ServiceName, list[Assignment]] = {name: [] for name in names}
    for one in board.assigned.values() if mine else ():
        if one.service.name in mine:
            mine[one.service.name].append(one)
    return {
        name: max(ones, key=lambda one: _stays(board, one)).replica
        for name, ones in mine.items()
        if ones and len(ones) >= ones[0].service.replicas and all(one.kept for one in ones)
    }


def _stays(board: Board, one: Assignment) -> tuple[bool, bool, int]:
    node = board.ledgers[one.leader.node].node
    return node.state.value != "ok", node.cordoned, _number(one.replica)


def _within(board: Board, one: Assignment, service: ServiceSpec) -> Assignment:
    """What a trial sees of a replica that has a place: its members on the nodes of the trial, by the edited service."""
    members = tuple(member for member in one.members if member.node in board.ledgers)
    profile = next(profile for profile in service.profiles if profile.name == one.profile.name)
    return replace(one, service=service, profile=profile, members=members)


def _first_place(board: Board, service: ServiceSpec, replica: ReplicaId) -> Assignment | None:
    found = (board.find(service, profile, replica) for profile in service.profiles)
    return next((one for one in found if one is not None), None)


def _back(instance: Instance, fleet: FleetSnapshot, services: Mapping[ServiceName, ServiceSpec]) -> Assignment | None:
    """The place of an instance that had to leave and need not any more; None for all others."""
    service, now = services.get(ServiceName(instance.service)), _on(instance, fleet)
    if service is None or now is None or eviction(instance) is None:
        return None
    gpus = len(now.unit.devices)
    fitting = [one for one in service.profiles if one.gpus == gpus and one.nodes == len(now.parts)]
    profile = next((one for one in fitting if one.name == now.unit.profile), fitting[0] if fitting else None)
    if profile is None:
        return None
    members = tuple(
        Member(part.rank, part.node.name, tuple(map(DeviceId, part.unit.devices)), part.unit.port or 0)
        for part in now.parts
    )
    return Assignment(instance.replica, service, profile, members, kept=True)


def _on(instance: Instance, fleet: FleetSnapshot) -> Instance | None:
    """The instance on the nodes of a trial; None when one of them is not among them, or when it must leave them too."""
    nodes = {node.name: node for node in fleet.nodes}
    if not nodes.keys() >= set(instance.nodes):
        return None
    now = replace(instance, parts=tuple(replace(part, node=nodes[part.node.name]) for part in instance.parts))
    return None if eviction(now) is not None else now


def joins_of(node: Node) -> set[str]:
    """What may join a node with others, by name."""
    domain = {f"domain {node.domain.domain}"} if node.domain else set()
    return domain | {f"fabric {port.fabric}" for port in node.ports or () if port.fabric}


def _number(replica: ReplicaId) -> int:
    return int(replica.rpartition("/")[2])

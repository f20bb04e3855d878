# SPDX-License-Identifier: Apache-2.0
"""Making room for a replica that fits nowhere: by placing others elsewhere, or by letting others give way.

Three questions with one search, which differ in who may be touched:
- `without_moves`: what is placed in this plan and does not run yet, and gets another place;
- `preempting`: what runs with a lower priority, and gets another place or none (never silently: the plan names it);
- `moving`: what runs, and gets another place: advice only, since what runs and fits stays (P8, P10).

The search is bounded: it tries `TRIES` nodes or groups of nodes, those that lack least first. Fleets of up to
`FEW_NODES` are searched whole, and one step deeper: who must leave may make room himself. Everything tried is undone
on the board.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import inf

from llmgw.model.ids import DeviceClass, ReplicaId
from llmgw.model.node import NodeState
from llmgw.model.placement import Assignment
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.placement.board import Board
from llmgw.placement.feasibility import Ask, has_free, usable_classes
from llmgw.placement.ledger import Ledger
from llmgw.placement.score import total

TRIES = 12
FEW_NODES = 64
SPARE_NODES = 3
"""Nodes beyond those that lack least among which members of a replica are looked for."""
DEEPER_TRIES = 8


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """Room for a replica: where it goes, and for every replica in its way the old place and the new one (None: it gives
    way).
    """

    assignment: Assignment
    changes: tuple[tuple[Assignment, Assignment | None], ...]

    @property
    def moves(self) -> tuple[tuple[Assignment, Assignment], ...]:
        """The replicas that run and would be moved."""
        return tuple((old, new) for old, new in self.changes if new is not None and old.kept)

    @property
    def dropped(self) -> tuple[Assignment, ...]:
        """The replicas that would have no place any more."""
        return tuple(old for old, new in self.changes if new is None)

    @property
    def touched(self) -> tuple[Assignment, ...]:
        """The replicas that lose the place where they run, or any place."""
        return tuple(old for old, new in self.changes if old.kept or new is None)

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """What to compare by: the highest priority that loses its place, how many do, how many move, how many devices
        move.
        """
        highest = max((old.service.priority for old in self.dropped), default=-(10**6))
        devices = sum(len(member.devices) for old, _ in self.changes if old.kept for member in old.members)
        return highest, len(self.dropped), sum(old.kept for old, _ in self.changes), devices


def without_moves(board: Board, service: ServiceSpec, replica: ReplicaId) -> Rearrangement | None:
    """Room made by placing otherwise what does not run yet; nothing loses its place. None: there is none."""
    search = _Search(board, service, replica, lambda one: not one.kept, depth=1)
    return next(iter(search.found()), None)


def preempting(board: Board, service: ServiceSpec, replica: ReplicaId) -> Rearrangement | None:
    """Room made by replicas of lower priority that run: the cheapest of what was tried. None: there is none."""
    search = _Search(
        board, service, replica, lambda one: one.service.priority < service.priority and not one.partial, drop=True
    )
    return min(search.found(), key=_cheapest, default=None)


def moving(board: Board, service: ServiceSpec, replica: ReplicaId) -> Rearrangement | None:
    """The fewest moves of what runs that would make room; None: no tried set of moves does."""
    search = _Search(board, service, replica, lambda one: not one.partial, depth=1)
    return min(search.found(), key=_cheapest, default=None)


def _cheapest(one: Rearrangement) -> tuple[tuple[int, int, int, int], float, str]:
    """What costs others least, and of equal ones the better place."""
    return one.cost, -total(one.assignment.score), one.assignment.leader.node


class _Search:
    """One search. `depth`: how often who must leave may make room himself; `drop`: whether he may lose his place."""

    def __init__(
        self,
        board: Board,
        service: ServiceSpec,
        replica: ReplicaId,
        movable: Callable[[Assignment], bool],
        *,
        depth: int = 0,
        drop: bool = False,
        tries: int | None = None,
    ) -> None:
        self._board = board
        self._service = service
        self._replica = replica
        self._movable = movable
        self._few = len(board.ledgers) <= FEW_NODES
        self._depth = depth if self._few else 0
        self._drop = drop
        self._tries = tries or (FEW_NODES if self._few else TRIES)
        self._log: list[tuple[bool, Assignment]] = []

    def found(self) -> Iterator[Rearrangement]:
        """Every rearrangement among those tried; the board is as before between them."""
        most = self._most_devices()
        for profile in self._service.profiles:
            if profile.gpus * profile.nodes > most:
                continue
            for nodes in islice(self._places(profile), self._tries):
                for first in self._beginnings(profile, nodes):
                    self._board.tries_left -= 1
                    if self._board.tries_left < 0:
                        return
                    room = self._try(profile, nodes, first)
                    self._undo(0)
                    if room is not None:
                        yield room

    def _beginnings(self, profile: ProfileSpec, nodes: tuple[Ledger, ...]) -> Iterator[Assignment | None]:
        """Whom to ask first to leave the first of the nodes: whoever is least reluctant (None), and in small fleets one
        replica of each kind.
        """
        yield None
        if self._few:
            here = self._board.on_node[nodes[0].node.name].values()
            kinds = {(one.service.name, one.profile.name): one for one in here if self._may_leave(one, profile)}
            yield from (kinds[kind] for kind in sorted(kinds))

    def _most_devices(self) -> float:
        """The most devices that could be free at once: others that are placed elsewhere free no more than are free now,
        but for what their smallest profile saves.
        """
        if self._drop:
            return inf
        saved = 0
        for one in self._board.assigned.values():
            if len(one.service.profiles) > 1 and self._movable(one):
                smallest = min(profile.gpus * profile.nodes for profile in one.service.profiles)
                saved += one.profile.gpus * one.profile.nodes - smallest
        return self._board.free_total() + saved

    def _places(self, profile: ProfileSpec) -> Iterator[tuple[Ledger, ...]]:
        """Sets of nodes that could hold the replica if somebody left, those that lack least first."""
        ask = self._board.ask(self._service, profile)
        eligible = self._board.eligible(self._service, profile)
        lacking = {name: lack for name, ledger in eligible.items() if (lack := self._lacks(ask, ledger)) is not None}
        if profile.nodes == 1:
            for name in sorted(lacking, key=lambda name: (lacking[name], name)):
                yield (eligible[name],)
            return
        for pool in self._board.pools:
            for device_class in profile.devices:
                inside = [
                    name
                    for name in pool.nodes
                    if name in eligible and self._could_clear(ask, eligible[name], device_class)
                ]
                inside.sort(key=lambda name: (profile.gpus - len(eligible[name].free_devices(device_class)), name))
                for names in combinations(inside[: profile.nodes + SPARE_NODES], profile.nodes):
                    yield tuple(eligible[name] for name in names)

    def _lacks(self, ask: Ask, ledger: Ledger) -> tuple[int, int] | None:
        """How many devices a node lacks for a member, and how many replicas it has; None where nobody's leaving would
        help.
        """
        if not self._spread_allows(ask, ledger):
            return None
        if ask.profile.on_cpu:
            return (0, ledger.total) if self._could_clear(ask, ledger, None) else None
        lacks = [
            max(0, ask.profile.gpus - len(ledger.free_devices(one)))
            for one in usable_classes(ask, ledger)
            if self._could_clear(ask, ledger, one)
        ]
        return (min(lacks), ledger.total) if lacks else None

    @staticmethod
    def _spread_allows(ask: Ask, ledger: Ledger) -> bool:
        share = ask.tally.share
        if share is None:
            return True
        domain = ask.tally.domain(ledger.node)
        return domain is not None and ask.tally.domains.get(domain, 0) < share

    def _could_clear(self, ask: Ask, ledger: Ledger, device_class: DeviceClass | None) -> bool:
        """Whether a member would fit if everybody left who may: enough devices of the class, and enough host memory."""
        if not self._spread_allows(ask, ledger):
            return False
        here = [one for one in self._board.on_node[ledger.node.name].values() if self._may_leave(one, ask.profile)]
        if not here and not self._fits(ask, ledger):
            return False
        if device_class is not None:
            if device_class not in usable_classes(ask, ledger):
                return False
            own = {device.uuid for device in ledger.devices(device_class)}
            leaving = sum(device in own for one in here for part in one.members for device in part.devices)
            if len(ledger.free_devices(device_class)) + leaving < ask.profile.gpus:
                return False
        needs, left = ask.profile.min_memory_bytes, ledger.unpromised_memory()
        return needs is None or left is None or left + sum(one.profile.min_memory_bytes or 0 for one in here) >= needs

    def _may_leave(self, one: Assignment, profile: ProfileSpec) -> bool:
        """Whether a replica may be placed otherwise for this one; one of the same service and profile gains nothing."""
        if one.service.name == self._service.name and (one.kept or one.profile.name == profile.name):
            return False
        settled = all(self._board.ledgers[member.node].node.state is NodeState.OK for member in one.members)
        return settled and self._movable(one)

    def _fits(self, ask: Ask, ledger: Ledger) -> bool:
        return self._board.takes(ask, ledger) and (
            ask.profile.on_cpu or any(has_free(ask, ledger, one) for one in usable_classes(ask, ledger))
        )

    def _try(self, profile: ProfileSpec, nodes: tuple[Ledger, ...], first: Assignment | None) -> Rearrangement | None:
        ask = self._board.ask(self._service, profile)
        left: list[Assignment] = []
        if first is not None:
            self._give_back(first)
            left.append(first)
        for ledger in nodes:
            gone = self._clear(ask, ledger)
            if gone is None:
                return None
            left += gone
        names = {ledger.node.name for ledger in nodes}
        outside = frozenset(name for name in self._board.ledgers if name not in names)
        target = self._board.find(self._service, profile, self._replica, outside=outside)
        if target is None:
            return None
        self._take(target)
        left = self._back_again(left)
        changes: list[tuple[Assignment, Assignment | None]] = []
        for old in sorted(left, key=_hardest_first):
            placed = self._elsewhere(old)
            if placed is None and not self._drop:
                return None
            changes += placed or [(old, None)]
        return Rearrangement(target, _net(changes))

    def _clear(self, ask: Ask, ledger: Ledger) -> list[Assignment] | None:
        """Take replicas off a node until a member fits; None when it never does."""
        gone: list[Assignment] = []
        while not self._fits(ask, ledger):
            here = [one for one in self._board.on_node[ledger.node.name].values() if self._may_leave(one, ask.profile)]
            if not here:
                return None
            victim = min(here, key=lambda one: self._reluctance(one, ask, ledger))
            self._give_back(victim)
            gone.append(victim)
        return gone

    def _reluctance(self, one: Assignment, ask: Ask, ledger: Ledger) -> tuple[int, bool, bool, int, str]:
        """Whom to ask to leave first: low priority, not running, just enough devices, few of them."""
        lack = min(
            (ask.profile.gpus - len(ledger.free_devices(name)) for name in usable_classes(ask, ledger)), default=0
        )
        devices = sum(len(member.devices) for member in one.members if member.node == ledger.node.name)
        everywhere = sum(len(member.devices) for member in one.members)
        enough = devices >= lack
        return one.service.priority, one.kept, not enough, everywhere if enough else -devices, one.replica

    def _back_again(self, left: list[Assignment]) -> list[Assignment]:
        """Those that must really leave now that the replica has its place: whoever still fits where it was stays."""
        leaving = []
        for one in reversed(left):
            if self._board.has_place_for(one):
                self._take(one)
            else:
                leaving.append(one)
        return leaving

    def _elsewhere(self, old: Assignment) -> list[tuple[Assignment, Assignment | None]] | None:
        """Another place for a replica that leaves, with all that this changes in turn; None when there is none."""
        for profile in old.service.profiles:
            new = self._board.find(old.service, profile, old.replica)
            if new is not None:
                self._take(new)
                return [(old, new)]
        if self._depth:
            own = {self._replica, *(one.replica for _, one in self._log)}
            deeper = _Search(
                self._board,
                old.service,
                old.replica,
                lambda one: self._movable(one) and one.replica not in own,
                depth=self._depth - 1,
                tries=DEEPER_TRIES,
            )
            room = next(iter(deeper.found()), None)
            if room is not None:
                for other, _ in room.changes:
                    self._give_back(other)
                self._take(room.assignment)
                for _, place in room.changes:
                    if place is not None:
                        self._take(place)
                return [(old, room.assignment), *room.changes]
        return None

    def _take(self, one: Assignment) -> None:
        self._board.take(one)
        self._log.append((True, one))

    def _give_back(self, one: Assignment) -> None:
        self._board.give_back(one)
        self._log.append((False, one))

    def _undo(self, length: int) -> None:
        while len(self._log) > length:
            taken, one = self._log.pop()
            (self._board.give_back if taken else self._board.take)(one)


def _hardest_first(one: Assignment) -> tuple[int, int, int, str]:
    return -one.service.priority, -one.profile.nodes, -one.profile.gpus, one.replica


def _net(
    changes: Iterable[tuple[Assignment, Assignment | None]],
) -> tuple[tuple[Assignment, Assignment | None], ...]:
    """From first to last place of each replica."""
    first: dict[ReplicaId, Assignment] = {}
    last: dict[ReplicaId, Assignment | None] = {}
    for old, new in changes:
        first.setdefault(old.replica, old)
        last[old.replica] = new
    return tuple((old, last[replica]) for replica, old in first.items())

# SPDX-License-Identifier: Apache-2.0
"""The inverse question: how many nodes of a kind are needed until everything has a place.

Cost: a decision for every number that is tried. Those are the bound, then 1, 2, 4 and so on, then halves between the
last that is too small and the first that is enough; and all smaller ones where the answer is small. More nodes do not
always place more, because every replica goes to the best place that is left for it: what was tried is told with the
answer, and so is whether it went down all along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from llmgw.model.ids import NodeName, ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement, Rejection, Unplaced
from llmgw.model.replica import Catalog
from llmgw.whatif.nodes import kind_words, with_nodes
from llmgw.whatif.spec import MAX_NODES, NodesSpec

EXACT = 8
"""Up to this answer every smaller number is tried, whatever order they come in."""
Judge = Callable[[Catalog, FleetSnapshot], Placement]


@dataclass(frozen=True, slots=True)
class Never:
    """A replica that no number of these nodes gives a place, and why not on a new one, in sentences."""

    replica: ReplicaId
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """What one service needs, if it alone of those that lack places were asked for. `nodes` None: no number helps."""

    service: ServiceName
    missing: int
    """Replicas without a place as things are."""
    nodes: int | None
    never: int = 0
    """Those of them that have none with `nodes` either."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """The answer. `nodes` 0: nothing lacks a place; None: no number of them gives one to anything that lacks it."""

    kind: str
    """What a node has, in words: `8 x h200-141g`."""
    nodes: int | None
    missing: int
    """Replicas without a place as things are; without those that are held back (P9)."""
    held: int = 0
    """Replicas that are held back as things are: no hardware helps them."""
    never: tuple[Never, ...] = ()
    needs: tuple[Need, ...] = ()
    """By service in order of name; empty where one service alone lacks places."""
    bound: int = MAX_NODES
    """The largest number that was tried."""
    tried: tuple[tuple[int, int], ...] = ()
    """Numbers of nodes and how many replicas had no place with each, by number."""
    monotone: bool = True
    """Whether no number that was tried placed fewer replicas than a smaller one."""
    exact: bool = True
    """Whether every smaller number was tried."""


def smallest(catalog: Catalog, fleet: FleetSnapshot, kind: NodesSpec, judge: Judge) -> Smallest:
    """The smallest number of nodes of a kind with which everything has a place that can have one at all.

    `judge` places a catalog on a fleet. Raises LlmgwError as `with_nodes` does.
    """
    words = kind_words(catalog, fleet, kind)
    search = _Search(catalog, fleet, kind, judge)
    now = search.at(0)
    lacking = _lacking(now)
    held = len(now.unplaced) - len(lacking)
    if not lacking:
        return Smallest(words, 0, 0, held, bound=0, tried=search.tried)
    bound = _bound(catalog, now)
    answer = search.answer(bound)
    most = search.at(bound)
    new = {node.name for node in search.fleet(bound).nodes} - {node.name for node in fleet.nodes}
    never = tuple(Never(one.replica, _reasons(most, one, new)) for one in _lacking(most))
    tried = search.tried
    counts = [count for _number, count in tried]
    return Smallest(
        kind=words,
        nodes=answer,
        missing=len(lacking),
        held=held,
        never=never,
        needs=tuple(_needs(search, now, bound)),
        bound=bound,
        tried=tried,
        monotone=counts == sorted(counts, reverse=True),
        exact=answer is None or {number for number, _count in tried} >= set(range(answer)),
    )


class _Search:
    """Placements of one catalog by the number of added nodes, each computed once."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot, kind: NodesSpec, judge: Judge) -> None:
        self.catalog = catalog
        self._fleet = fleet
        self.kind = kind
        self.judge = judge
        self._placed: dict[int, Placement] = {}

    def other(self, catalog: Catalog) -> _Search:
        """The same for another catalog."""
        return _Search(catalog, self._fleet, self.kind, self.judge)

    @property
    def tried(self) -> tuple[tuple[int, int], ...]:
        """How many replicas lack a place, by number of nodes."""
        return tuple((number, len(_lacking(self._placed[number]))) for number in sorted(self._placed))

    def fleet(self, count: int) -> FleetSnapshot:
        """The fleet with so many more nodes."""
        return with_nodes(self.catalog, self._fleet, replace(self.kind, count=count))[0] if count else self._fleet

    def at(self, count: int) -> Placement:
        """The placement with so many more nodes."""
        if count not in self._placed:
            self._placed[count] = self.judge(self.catalog, self.fleet(count))
        return self._placed[count]

    def answer(self, bound: int) -> int | None:
        """The smallest number up to the bound that places as many as the bound does; None: no more than none does."""
        target = len(_lacking(self.at(bound)))
        if len(_lacking(self.at(0))) <= target:
            return None

        def enough(count: int) -> bool:
            return len(_lacking(self.at(count))) <= target

        high = 1
        while high < bound and not enough(high):
            high *= 2
        low, high = high // 2, min(high, bound)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return next((count for count in range(1, high) if enough(count)), high) if high <= EXACT else high


def _bound(catalog: Catalog, now: Placement) -> int:
    """So many nodes that each member of each replica that does not run could have one of its own."""
    spans = {service.name: max(profile.nodes for profile in service.profiles) for service in catalog.services}
    members = sum(len(one.members) for one in now.assignments if not one.kept)
    return min(MAX_NODES, members + sum(spans.get(one.service, 1) for one in _lacking(now)))


def _lacking(placement: Placement) -> tuple[Unplaced, ...]:
    """Replicas without a place; those that are held back wait for something else than hardware."""
    return tuple(one for one in placement.unplaced if one.held is None)


def _reasons(placement: Placement, lacking: Unplaced, new: Iterable[str]) -> tuple[str, ...]:
    """Why not on the new nodes: of each profile what the node says with which it comes nearest."""
    told = lacking.rejections
    if lacking.like is not None:
        told = next(one.rejections for one in placement.unplaced if one.replica == lacking.like)
    names = frozenset(new)
    by_place: dict[tuple[str, NodeName], list[Rejection]] = {}
    for rejection in told:
        if rejection.node in names:
            by_place.setdefault((rejection.profile, rejection.node), []).append(rejection)
    nearest: dict[str, tuple[int, NodeName]] = {}
    for (profile, node), failing in by_place.items():
        nearest[profile] = min(nearest.get(profile, (len(failing), node)), (len(failing), node))
    texts = (
        rejection.message.removeprefix(f"{node} ")
        for profile, (_count, node) in nearest.items()
        for rejection in by_place[profile, node]
    )
    return tuple(dict.fromkeys(texts))


def _needs(search: _Search, now: Placement, bound: int) -> Iterable[Need]:
    """Each service that lacks places, with every other one cut down to what it has."""
    lacking: dict[str, int] = {}
    for one in _lacking(now):
        lacking[one.service] = lacking.get(one.service, 0) + 1
    if len(lacking) < 2:  # noqa: PLR2004 - one service alone needs what all need
        return
    for name in sorted(lacking):
        services = tuple(
            replace(service, replicas=service.replicas - lacking[service.name])
            if service.name in lacking and service.name != name
            else service
            for service in search.catalog.services
        )
        alone = search.other(replace(search.catalog, services=services))
        nodes = alone.answer(bound)
        never = len(_lacking(alone.at(bound)))
        yield Need(ServiceName(name), lacking[name], nodes, never)

# SPDX-License-Identifier: Apache-2.0
"""The inverse question: how many nodes of a kind are needed until everything has a place.

First what has no place is put on new nodes alone, which costs little and tells what no number of them helps. The number
that comes of it is where the search in the fleet begins: up or down in growing steps, then by halves. So the fleet is
placed a few times, mostly three.

More nodes need not place more, because every replica goes to the best place that is left for it. What was tried is told
with the answer, and so is whether more nodes placed as many or more all along; in small fleets, and for small answers,
every smaller number is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from llmgw.model.ids import ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement, Rejection, Unplaced
from llmgw.model.replica import Catalog
from llmgw.whatif.nodes import kind_words, with_nodes
from llmgw.whatif.spec import MAX_NODES, NodesSpec

_CHECKED = 2000
"""Smaller numbers are all tried as long as the nodes of all these placements are no more than this."""
_SLACK = 8
Judge = Callable[[Catalog, FleetSnapshot], Placement]


@dataclass(frozen=True, slots=True)
class Never:
    """A replica that has no place with the nodes of the answer either, and why not on a new one, in sentences."""

    replica: ReplicaId
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Need:
    """What one service lacks, and how many nodes of the kind its missing replicas would need for themselves alone.

    `nodes` None: none of the missing replicas fits on any number of them.
    """

    service: ServiceName
    missing: int
    nodes: int | None
    never: int = 0
    """Missing replicas that have no place on `nodes` of them, and on no other number either."""


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
    """Services that lack places, by name."""
    tried: tuple[tuple[int, int], ...] = ()
    """Numbers of nodes and how many replicas had no place with each, by number."""
    monotone: bool = True
    """Whether no number that was tried placed fewer replicas than a smaller one."""
    exact: bool = True
    """Whether every smaller number was tried."""


def smallest(catalog: Catalog, fleet: FleetSnapshot, kind: NodesSpec, judge: Judge) -> Smallest:
    """The smallest number of nodes of a kind, up to 1,024, with which everything has a place that they can give one.

    `judge` places a catalog on a fleet. Raises LlmgwError as `with_nodes` does.
    """
    words = kind_words(catalog, fleet, kind)
    search = _Search(catalog, fleet, kind, judge, fleet)
    now = search.at(0)
    missing = _by_service(now)
    held = len(now.unplaced) - sum(missing.values())
    if not missing:
        return Smallest(words, 0, 0, held, tried=search.tried)
    alone = _Alone(catalog, fleet, kind, judge)
    needs = tuple(alone.need(ServiceName(name), missing[name]) for name in sorted(missing))
    answer = _searched(search, alone, needs)
    last = search.at(answer or 0)
    new = {node.name for node in search.fleet(answer or 0).nodes} - {node.name for node in fleet.nodes}
    never = tuple(
        Never(one.replica, alone.reasons.get(one.service) or _reasons(last, one, new)) for one in _lacking(last)
    )
    counts = [count for _number, count in search.tried]
    return Smallest(
        kind=words,
        nodes=answer,
        missing=sum(missing.values()),
        held=held,
        never=never,
        needs=needs,
        tried=search.tried,
        monotone=counts == sorted(counts, reverse=True),
        exact=answer is None or {number for number, _count in search.tried} >= set(range(answer)),
    )


def _searched(search: _Search, alone: _Alone, needs: Iterable[Need]) -> int | None:
    """The answer in the fleet itself; None where nothing that is missing gets a place."""
    spared = {need.service: need.never for need in needs}
    missing = {need.service: need.missing - need.never for need in needs if need.nodes is not None}
    if not missing:
        return _by_leaving(search, sum(need.missing for need in needs))

    def short(count: int) -> int:
        """How many replicas lack a place that could have one."""
        lacking = _by_service(search.at(count))
        return sum(max(0, number - spared.get(ServiceName(name), 0)) for name, number in lacking.items())

    # Others may go to the new nodes too, and leave room where what is missing does not fit.
    bound = min(MAX_NODES, sum(alone.span(name) * count for name, count in missing.items()) + _SLACK)
    target = 0
    answer = _least(lambda count: short(count) <= target, alone.together(missing) or bound, bound)
    if answer is None:  # a spread, for one, is another in the fleet than on new nodes alone
        target = short(bound)
        if target >= short(0):
            return None
        answer = _least(lambda count: short(count) <= target, bound, bound) or bound
    checked = answer if answer * (search.size + answer) <= _CHECKED else 0
    return next((count for count in range(1, checked) if short(count) <= target), answer)


def _by_leaving(search: _Search, missing: int) -> int | None:
    """The answer where nothing that is missing fits on new nodes: others may go there and leave room. None: none do."""
    bound = min(MAX_NODES, missing + _SLACK)
    target = search.lacking(bound)
    if target >= search.lacking(0):
        return None
    answer = _least(lambda count: search.lacking(count) <= target, 1, bound) or bound
    return next((count for count in range(1, answer) if search.lacking(count) <= target), answer)


def _least(enough: Callable[[int], bool], guess: int, bound: int) -> int | None:
    """The least number from 1 to the bound that is enough, if what is enough stays so with more; None: the bound is
    not. 0 is known not to be enough.
    """
    low, high, step = 0, max(1, min(guess, bound)), 1
    while not enough(high):
        if high == bound:
            return None
        low, high, step = high, min(bound, high + step), step * 2
    step = 1
    while low == 0 and high > 1:
        lower = max(1, high - step)
        if not enough(lower):
            low = lower
        else:
            high, step = lower, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


class _Search:
    """Placements of one catalog by the number of added nodes, each computed once."""

    def __init__(
        self, catalog: Catalog, fleet: FleetSnapshot, kind: NodesSpec, judge: Judge, real: FleetSnapshot
    ) -> None:
        self._catalog = catalog
        self._fleet = fleet
        self._kind = kind
        self._judge = judge
        self._real = real
        self._placed: dict[int, Placement] = {}
        self.size = len(fleet.nodes)

    @property
    def tried(self) -> tuple[tuple[int, int], ...]:
        """How many replicas lack a place, by number of nodes."""
        return tuple((number, self.lacking(number)) for number in sorted(self._placed))

    def fleet(self, count: int) -> FleetSnapshot:
        """The fleet with so many more nodes."""
        if not count:
            return self._fleet
        return with_nodes(self._catalog, self._fleet, replace(self._kind, count=count), self._real)[0]

    def at(self, count: int) -> Placement:
        """The placement with so many more nodes."""
        if count not in self._placed:
            self._placed[count] = self._judge(self._catalog, self.fleet(count))
        return self._placed[count]

    def lacking(self, count: int) -> int:
        """How many replicas have no place with so many more nodes."""
        return len(_lacking(self.at(count)))


class _Alone:
    """New nodes and nothing else, for what has no place in the fleet."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot, kind: NodesSpec, judge: Judge) -> None:
        self._catalog = catalog
        self._real = fleet
        self._kind = kind
        self._judge = judge
        self._spans = {one.name: max(profile.nodes for profile in one.profiles) for one in catalog.services}
        self.reasons: dict[str, tuple[str, ...]] = {}
        """Why a service has no place on new nodes; only of services that have none there."""

    def span(self, service: str) -> int:
        """The most nodes that a replica of the service is on."""
        return self._spans[ServiceName(service)]

    def need(self, service: ServiceName, missing: int) -> Need:
        """How many nodes the missing replicas of a service need."""
        search, bound = self._search({service: missing}), min(MAX_NODES, missing * self.span(service))
        never = search.lacking(bound)
        if never:
            names = {node.name for node in search.fleet(bound).nodes}
            self.reasons[service] = _reasons(search.at(bound), _lacking(search.at(bound))[0], names)
        if never == missing:
            return Need(service, missing, None, never)
        return Need(service, missing, _least(lambda count: search.lacking(count) <= never, 1, bound), never)

    def together(self, missing: Mapping[ServiceName, int]) -> int | None:
        """How many nodes the missing replicas of these services need together; None: more than there may be."""
        search, bound = self._search(missing), min(MAX_NODES, sum(self.span(one) * missing[one] for one in missing))
        return _least(lambda count: not search.lacking(count), 1, bound)

    def _search(self, missing: Mapping[ServiceName, int]) -> _Search:
        services = tuple(
            replace(one, replicas=missing[one.name]) for one in self._catalog.services if one.name in missing
        )
        fabrics = tuple(replace(one, members=()) for one in self._real.fabrics)
        bare = replace(self._real, nodes=(), fabrics=fabrics, domains=())
        return _Search(replace(self._catalog, services=services), bare, self._kind, self._judge, self._real)


def _lacking(placement: Placement) -> tuple[Unplaced, ...]:
    """Replicas without a place; those that are held back wait for something else than hardware."""
    return tuple(one for one in placement.unplaced if one.held is None)


def _by_service(placement: Placement) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in _lacking(placement):
        found[one.service] = found.get(one.service, 0) + 1
    return found


def _reasons(placement: Placement, lacking: Unplaced, new: Iterable[str]) -> tuple[str, ...]:
    """Why not on the new nodes: of each profile what the node says that comes nearest to taking it."""
    told = lacking.rejections
    if lacking.like is not None:
        told = next((one.rejections for one in placement.unplaced if one.replica == lacking.like), ())
    names = frozenset(new)
    by_place: dict[str, dict[str, list[Rejection]]] = {}
    for rejection in told:
        if rejection.node in names:
            by_place.setdefault(rejection.profile, {}).setdefault(rejection.node, []).append(rejection)
    texts = []
    for places in by_place.values():
        node = min(places, key=lambda name: (len(places[name]), name))
        texts += [rejection.message.removeprefix(f"{node} ") for rejection in places[node]]
    return tuple(dict.fromkeys(texts))

# SPDX-License-Identifier: Apache-2.0
"""Which of the ready endpoints gets a request: pure policies over what the data plane counts (G4).

No policy keeps anything: `turn`, `seed` and the time are arguments, and what was learned is in the endpoints' costs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from llmgw.gateway.routing.cost import Ask, EndpointCosts, Terms

COST = "cost"
LEAST_INFLIGHT = "least-inflight"
ROUND_ROBIN = "round-robin"
SESSION = "session"
RANDOM = "random"

READS_PROMPT = frozenset({COST, SESSION})
"""Policies for which a request's prompt is worth hashing, where there are two endpoints or more."""
MANY = 48
SAMPLED = 24
"""Of more endpoints than `MANY`, so many are drawn, and as many of those that have the prompt cached."""
NEAR_SHARE = 0.1
NEAR_S = 0.02
"""Costs that differ by less than the one or the other are alike: they are not known better than that."""

_MASK = (1 << 64) - 1


class View(Protocol):
    """What a policy may know of an endpoint."""

    @property
    def in_flight(self) -> int:
        """Requests that this gateway has given to it and that are not answered."""

    @property
    def costs(self) -> EndpointCosts:
        """Its account."""


V = TypeVar("V", bound=View)


def choose(  # noqa: PLR0917 - once a request, in the one order that there is
    policy: str, ready: Sequence[V], ask: Ask, turn: int, seed: int, now: float
) -> V:
    """One of `ready`, which is not empty. An unknown policy counts as cost.

    `turn` is a number that grows by one a request and breaks ties in turn; `seed` stands in for chance. `now`: loop
    seconds.
    """
    if len(ready) == 1:
        return ready[0]
    return POLICIES.get(policy, by_cost)(ready, ask, turn, seed, now)


def explain(policy: str, ready: Sequence[V], ask: Ask, now: float) -> tuple[Terms, ...]:
    """The cost at each of `ready` by term, the cheapest first: what `choose` sees, asked before the request is charged.

    Policies that do not ask for costs have them explained all the same.
    """
    held = _held(ready, ask) if policy == SESSION and ask.session is not None else None
    terms = [
        endpoint.costs.terms(ask, now, held=None if held is None else held[place])
        for place, endpoint in enumerate(ready)
    ]
    return tuple(sorted(terms, key=lambda one: (one.total_s, one.endpoint)))


def by_cost(ready: Sequence[V], ask: Ask, _turn: int, seed: int, now: float) -> V:
    """The cheapest; of several that cost nearly the same, two are drawn, and the one with fewer in flight is taken.

    Several gateways and workers that all saw the same engine idle would else all send to it. The two are drawn by the
    first block of the prompt that is not cached, where there is one: whoever sends more of the same draws the same
    two, and when an endpoint has gone, each of its prompts finds a new home of its own.
    """
    if len(ready) > MANY:
        ready = _few(ready, ask, seed)
    costs = [endpoint.costs.seconds(ask, now) for endpoint in ready]
    most = _most(costs)
    near = [endpoint for endpoint, cost in zip(ready, costs, strict=True) if cost <= most]
    if len(near) == 1:
        return near[0]
    chain = ask.chain
    if chain:
        depth = near[0].costs.prefix.match(chain)
        if depth < len(chain):
            return _lighter(*_ranked(near, chain[depth] if depth else ask.home or chain[0]))
    return _lighter(*_drawn(near, seed))


def _few(ready: Sequence[V], ask: Ask, seed: int) -> list[V]:
    """Of many endpoints some that `seed` draws, and those that have the prompt's beginning cached: the cheapest of a
    sample is nearly as good as the cheapest of all, and what a choice costs stops growing with the fleet.
    """
    step = len(ready) // SAMPLED
    start = _mixed(_mixed(seed) + 1)  # another draw than the one among those that are left
    few = [ready[(start + place * step) % len(ready)] for place in range(SAMPLED)]
    if ask.chain:
        first = ask.chain[:1]
        holders = [endpoint for endpoint in ready if endpoint.costs.prefix.match(first) and endpoint not in few]
        deepest = sorted(holders, key=lambda one: (-one.costs.prefix.match(ask.chain), one.costs.rank))
        few += deepest[:SAMPLED]
    return few


def by_session(ready: Sequence[V], ask: Ask, turn: int, seed: int, now: float) -> V:
    """By cost, where the endpoint that has the session counts as having the prompt cached: a credit and not a pin.

    A session that no endpoint is known to have belongs to the one that its name draws, the same in every process.
    """
    if ask.session is None:
        return by_cost(ready, ask, turn, seed, now)
    held = _held(ready, ask)
    costs = [endpoint.costs.seconds(ask, now, held=holds) for endpoint, holds in zip(ready, held, strict=True)]
    most = _most(costs)
    near = [one for one in zip(ready, costs, held, strict=True) if one[1] <= most]
    with_it = [endpoint for endpoint, _cost, holds in near if holds]
    return _lighter(*_drawn(with_it or [endpoint for endpoint, _cost, _holds in near], seed))


def least_inflight(ready: Sequence[V], _ask: Ask, turn: int, _seed: int, _now: float) -> V:
    """The endpoint with the fewest requests in flight for its weight; among equals the next in turn."""
    count = len(ready)
    start = turn % count
    best = ready[start]
    fewest = _load(best)
    for step in range(1, count):
        if not fewest:
            break
        endpoint = ready[(start + step) % count]
        load = _load(endpoint)
        if load < fewest:
            best, fewest = endpoint, load
    return best


def round_robin(ready: Sequence[V], _ask: Ask, turn: int, _seed: int, _now: float) -> V:
    """Each in turn, whatever its weight."""
    return ready[turn % len(ready)]


def by_seed(ready: Sequence[V], _ask: Ask, _turn: int, seed: int, _now: float) -> V:
    """Any of them, as likely as its weight says, also when seeds differ by one."""
    if _weighted(ready):
        return _ranked(ready, seed)[0]
    return ready[_mixed(seed) % len(ready)]


POLICIES: dict[str, Callable[[Sequence[V], Ask, int, int, float], V]] = {
    COST: by_cost,
    LEAST_INFLIGHT: least_inflight,
    ROUND_ROBIN: round_robin,
    SESSION: by_session,
    RANDOM: by_seed,
}


def _most(costs: list[float]) -> float:
    """What is still as good as the lowest."""
    best = min(costs)
    return best + max(NEAR_S, NEAR_SHARE * best)


def _held(ready: Sequence[V], ask: Ask) -> list[bool]:
    """For each of `ready` whether the request's session counts as being there: at one at least."""
    assert ask.session is not None  # noqa: S101 - callers have asked
    key = hash(ask.session)
    held = [endpoint.costs.holds(key) for endpoint in ready]
    if not any(held):
        first = _ranked(ready, zlib.crc32(ask.session))[0]
        held = [endpoint is first for endpoint in ready]
    return held


def _lighter(first: V, second: V) -> V:
    """The one with fewer in flight for its weight, or `first`."""
    return second if _load(second) < _load(first) else first


def _drawn(near: list[V], seed: int) -> tuple[V, V]:
    """Two that `seed` draws, the same one twice where there is one."""
    count = len(near)
    if count == 1:
        return near[0], near[0]
    if _weighted(near):
        return _ranked(near, seed)
    mixed = _mixed(seed)
    first = mixed % count
    return near[first], near[(first + 1 + (mixed >> 32) % (count - 1)) % count]


def _ranked(ready: Sequence[V], seed: int) -> tuple[V, V]:
    """The first two by rendezvous: each has a number of its own for each seed, whoever else is there."""
    factor = _mixed(seed) | 1
    first = second = ready[0]
    highest = next_highest = -1.0
    for endpoint in ready:
        costs = endpoint.costs
        number: float = costs.rank * factor & _MASK
        if costs.share != 1.0:
            number = _MASK * (number / _MASK) ** costs.share
        if number > highest:
            second, next_highest = first, highest
            first, highest = endpoint, number
        elif number > next_highest:
            second, next_highest = endpoint, number
    return first, second


def _weighted(ready: Sequence[View]) -> bool:
    for endpoint in ready:  # noqa: SIM110 - a generator costs more than the loop it saves
        if endpoint.costs.share != 1.0:
            return True
    return False


def _load(endpoint: View) -> float:
    costs = endpoint.costs
    return (endpoint.in_flight + costs.elsewhere_requests) * costs.share


def _mixed(seed: int) -> int:
    """64 bits that differ everywhere between seeds that differ anywhere (splitmix64's finisher)."""
    mixed = seed & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)

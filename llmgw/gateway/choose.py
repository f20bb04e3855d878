# SPDX-License-Identifier: Apache-2.0
"""Which of the ready endpoints gets a request: pure policies over what the data plane counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

LEAST_INFLIGHT = "least-inflight"
ROUND_ROBIN = "round-robin"
RANDOM = "random"

_MASK = (1 << 64) - 1


class View(Protocol):
    """What a policy may know about an endpoint."""

    @property
    def in_flight(self) -> int:
        """Requests that this gateway has given to it and that are not answered."""


V = TypeVar("V", bound=View)


def choose(policy: str, ready: Sequence[V], turn: int, seed: int) -> V:
    """One of `ready`, which is not empty. An unknown policy counts as least-inflight.

    `turn` is a number that grows by one a request and breaks ties in turn; `seed` decides for `random`.
    """
    if len(ready) == 1:
        return ready[0]
    return POLICIES.get(policy, least_inflight)(ready, turn, seed)


def least_inflight(ready: Sequence[V], turn: int, _seed: int) -> V:
    """The endpoint with the fewest requests in flight; among equals the next in turn."""
    count = len(ready)
    start = turn % count
    best = ready[start]
    fewest = best.in_flight
    for step in range(1, count):
        if not fewest:
            break
        endpoint = ready[(start + step) % count]
        if endpoint.in_flight < fewest:
            best, fewest = endpoint, endpoint.in_flight
    return best


def round_robin(ready: Sequence[V], turn: int, _seed: int) -> V:
    """Each in turn."""
    return ready[turn % len(ready)]


def by_seed(ready: Sequence[V], _turn: int, seed: int) -> V:
    """Any of them, all equally likely over many seeds, also when seeds differ by one (splitmix64's finisher)."""
    mixed = seed & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return ready[(mixed ^ (mixed >> 31)) % len(ready)]


POLICIES: dict[str, Callable[[Sequence[V], int, int], V]] = {
    LEAST_INFLIGHT: least_inflight,
    ROUND_ROBIN: round_robin,
    RANDOM: by_seed,
}

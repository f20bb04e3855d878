# SPDX-License-Identifier: Apache-2.0
"""What the data plane counts: plain integers, added to on the hot path and read when somebody scrapes."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, TypeVar

K = TypeVar("K", str, int)

DURATION_BOUNDS: Final = (
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    25.0,
    50.0,
    100.0,
    250.0,
    500.0,
    1000.0,
)
FIRST_BYTE_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds in seconds; what is larger falls into +Inf."""


class Histogram:
    """Observations in buckets: `counts[i]` holds those up to `bounds[i]`, the last one all above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """One more observation."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Buckets as Prometheus wants them: upper bound as text, and how many were at most that."""
        total = 0
        buckets = []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), tuple(self.counts), strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


class ServiceCounters:
    """Totals of one service since it came into the route table; they go when it goes."""

    __slots__ = ("aborts", "duration", "failures", "first_byte", "requests", "retries")

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        """By status sent to the client; 499 where it left before one was sent."""
        self.failures: dict[str, int] = {}
        """Failed attempts at an engine, by reason."""
        self.retries = 0
        self.aborts = 0
        self.duration = Histogram(DURATION_BOUNDS)
        self.first_byte = Histogram(FIRST_BYTE_BOUNDS)


class PlaneCounters:
    """Totals of the gateway that belong to no service."""

    __slots__ = ("log_dropped", "log_lines", "refused", "reload_failures", "stale_connections")

    def __init__(self) -> None:
        self.log_lines = self.log_dropped = 0
        """Lines of the access log that were written, and those that could not be."""
        self.refused: dict[str, int] = {}
        """Requests that the gateway answered itself, by reason."""
        self.reload_failures = 0
        self.stale_connections = 0
        """Kept connections that the engine had closed just when one was used; the request went out again."""


def count(totals: dict[K, int], key: K) -> None:
    """One more of `key`."""
    totals[key] = totals.get(key, 0) + 1

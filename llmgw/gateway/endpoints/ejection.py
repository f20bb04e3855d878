# SPDX-License-Identifier: Apache-2.0
"""Which endpoints of a service are out by what requests to them showed, and what is told of it (G3, G7). Pure.

It joins what breaker.py and progress.py know of each endpoint with what probes found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from llmgw.gateway.endpoints.breaker import Breaker, Cause, outliers, taken_out
from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.progress import Progress, hung_detail


class Ejectable(Protocol):
    """What is asked of an endpoint here."""

    breaker: Breaker
    content_at: float
    ended: int
    in_flight: int
    paused: int
    silence: Progress

    @property
    def load(self) -> EngineLoad | None:
        """The engine's newest report."""

    @property
    def name(self) -> str:
        """Its id."""

    @property
    def up(self) -> bool:
        """Whether probes find it ready and nothing else keeps requests away."""


E = TypeVar("E", bound=Ejectable)


def rotation(endpoints: Sequence[E]) -> tuple[tuple[E, ...], tuple[E, ...], tuple[E, ...]]:
    """Which endpoints take requests, which of those take one as a trial, and which are out; each in the order given."""
    up = tuple(endpoint for endpoint in endpoints if endpoint.up)
    if all(endpoint.breaker.cause is None for endpoint in up):
        return up, (), ()
    names = taken_out([(endpoint.name, endpoint.breaker) for endpoint in up])
    out = tuple(endpoint for endpoint in up if endpoint.name in names)
    trials = tuple(endpoint for endpoint in out if endpoint.breaker.due)
    return tuple(endpoint for endpoint in up if endpoint not in out or endpoint in trials), trials, out


def sweep(endpoints: Sequence[E], now: float) -> bool:
    """Looks at all endpoints of one service for what time alone changes: silence, shares of failures, pauses that are
    over. Returns whether `rotation` may be another one now.
    """
    changed = False
    for endpoint in endpoints:
        changed = _find_hung(endpoint, now) or endpoint.breaker.tick(now) or changed
    for breaker, why in outliers((endpoint.breaker for endpoint in endpoints if endpoint.up), now):
        breaker.open(Cause.SHARE, why, now)
        changed = True
    return changed


def _find_hung(endpoint: Ejectable, now: float) -> bool:
    waiting = endpoint.in_flight - endpoint.paused
    silent = endpoint.silence.sweep(waiting, endpoint.ended, endpoint.content_at, endpoint.load, now)
    if endpoint.breaker.cause is Cause.HUNG:
        if endpoint.silence.spoke_at <= endpoint.breaker.opened_at:
            return False
        endpoint.breaker.close(now)
        return True
    if silent is None or not endpoint.up:
        return False
    endpoint.breaker.open(Cause.HUNG, hung_detail(silent, waiting), now)
    return True


def detail(breaker: Breaker, out: bool, now: float) -> str:
    """What is told of an endpoint whose breaker is open."""
    if not out:
        return f"{breaker.why}; it stays in rotation, because half of its service's endpoints are out already"
    if breaker.due:
        return f"{breaker.why}; the next request tries it"
    if breaker.trying:
        return f"{breaker.why}; one request tries it now"
    return f"{breaker.why}; one request tries it in {max(breaker.until - now, 0.0):.0f} s"

# SPDX-License-Identifier: Apache-2.0
"""Which service a request enters, whether it may now, and the line of those who wait for that (G5).

Everything that a request takes here it gives back by `leave`, whatever becomes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llmgw.gateway.admit import limit_refusals
from llmgw.gateway.admit.admission import Full, busy
from llmgw.gateway.wire import refusal as refusals
from llmgw.gateway.wire.refusal import Refusal

if TYPE_CHECKING:
    from llmgw.gateway.admit.auth import LiveKey
    from llmgw.gateway.exchange import Exchange
    from llmgw.gateway.records.explain import Via
    from llmgw.gateway.table import LiveRoute, Table

QUEUE_TIMEOUT_S = 30.0
"""How long a request waits for its turn where the catalog does not say."""
NO_KEY_NAME = ""
"""Under which those wait who brought no key, as none is asked for."""


class Found(NamedTuple):
    """The service that answers, the one that was `asked` for, and `via` what the one is not the other (None: it is)."""

    route: LiveRoute
    asked: LiveRoute
    via: Via | None = None


def find(table: Table, model: str, key: LiveKey | None) -> Found | Refusal:
    """The service that answers for `model` now: the one of that name, the one that a share of its requests goes to, or
    one that stands in while it has no replica. Where none of them can, the one of that name; or why there is none.
    """
    if table.bundle is None:
        return refusals.NO_BUNDLE
    route = table.names.get(model)
    if route is None or (key is not None and not key.may_use(route.spec.service)):
        return refusals.unknown_model(model)
    split = route.spec.split
    if split is not None and route.sampler.take():
        other = table.routes.get(split.service)
        if other is not None and other.ready:
            return Found(other, route, "split")
    other = None if route.ready else stand_in(table, route)
    return Found(route, route) if other is None else Found(other, route, "fallback")


def stand_in(table: Table, route: LiveRoute) -> LiveRoute | None:
    """The fallback that answers while the service has no replica that does; None: none can."""
    others = (table.routes.get(name) for name in route.spec.fallbacks)
    return next((other for other in others if other is not None and other.ready), None)


class Entry:
    """What one request holds of a service and of a key. `reserved`: tokens; `queued_at`: loop time, while it waits."""

    __slots__ = ("_inside", "_key", "_reserved", "queued_at", "route", "waited_s")

    def __init__(self, route: LiveRoute, key: LiveKey | None) -> None:
        self.route = route
        self.queued_at: float | None = None
        self.waited_s: float | None = None
        self._key = key
        self._inside = False
        self._reserved: int | None = None

    def ask(self, exchange: Exchange, prompt_tokens: int, max_tokens: int | None, now: float) -> Refusal | bool:
        """True: it is in. False: it waits, until `exchange.admitted` or `exchange.turned_away`. Else why not."""
        route, key = self.route, self._key
        if not route.ready:
            return refusals.not_ready(route.spec.served_name, route.states())
        priority, name = (0, NO_KEY_NAME) if key is None else (key.priority, key.name)
        line = route.line if route.line.max_queue or len(route.line) else None
        full = busy(route, key, line, priority=priority, key_name=name)
        if full is Full.QUEUE:
            return limit_refusals.queue_full(route.spec.served_name, route.line.wait_s(now))
        if isinstance(full, Refusal):
            return full
        if key is not None:
            tokens = key.limits.reckoned(prompt_tokens, max_tokens)
            refused = key.limits.admit(now, tokens)
            if refused is not None:
                return refused
            self._reserved = tokens
            key.in_flight += 1
        if full is None:
            self.waited_s = 0.0
            self._enter()
            return True
        self._wait(exchange, priority, name, now)
        return False

    def _wait(self, exchange: Exchange, priority: int, name: str, now: float) -> None:
        route = self.route
        self.queued_at = now
        limit_s = route.spec.admission.queue_timeout_s
        deadline = now + (QUEUE_TIMEOUT_S if limit_s is None else limit_s)
        if not route.line.offer(exchange, priority, name, now, deadline):
            other = route.line.gives_way(priority, name)
            assert other is not None  # noqa: S101 - there was room for this one
            route.line.remove(other)
            route.line.offer(exchange, priority, name, now, deadline)
            other.turned_away(limit_refusals.queue_full(route.spec.served_name, route.line.wait_s(now)))

    def taken(self, now: float) -> None:
        """Its turn has come."""
        assert self.queued_at is not None  # noqa: S101 - only those come whose turn it is who wait
        self.waited_s, self.queued_at = now - self.queued_at, None
        self._enter()

    def _enter(self) -> None:
        self._inside = True
        self.route.in_flight += 1

    def queue_s(self, now: float) -> float | None:
        """Seconds that it waited, or has waited so far. None: it was never let in, nor into the line."""
        return self.waited_s if self.queued_at is None else now - self.queued_at

    @property
    def counts_tokens(self) -> bool:
        """Whether what its answer used has to be known."""
        return self._key is not None and self._key.limits.counts_tokens

    def leave(self, exchange: Exchange, used: int | None, answer: int | None) -> bool:
        """Gives everything back. `used`: tokens in and out, None where no engine saw the request; `answer`: those out,
        where the engine counted them. Returns whether there is room for another one now.
        """
        if self.queued_at is not None:
            self.route.line.remove(exchange)
            self.queued_at = None
        key = self._key
        if key is not None and self._reserved is not None:
            key.in_flight -= 1
            if used is None:
                key.limits.give_back(self._reserved)
            else:
                key.limits.settle(self._reserved, used, answer)
            self._reserved = None
        if not self._inside:
            return False
        self._inside = False
        self.route.in_flight -= 1
        return len(self.route.line) > 0


def advance(route: LiveRoute, now: float) -> None:
    """Lets in those whose turn it is, as many as there is room for."""
    if route.advancing:  # one that is let in and fails at once makes room again: the loop below sees it
        return
    route.advancing = True
    try:
        while route.line:
            limit = route.max_concurrency
            if limit is not None and route.in_flight >= limit:
                return
            exchange = route.line.take(now)
            if exchange is None:
                return
            exchange.admitted(now)
    finally:
        route.advancing = False


def sweep(route: LiveRoute, now: float) -> None:
    """Turns away those who have waited long enough, and lets in others where there is room without anybody leaving."""
    for exchange in route.line.expired(now):
        entry = exchange.entry
        since = now if entry is None or entry.queued_at is None else entry.queued_at
        why = limit_refusals.queue_timeout(route.spec.served_name, now - since, route.line.wait_s(now))
        exchange.turned_away(why)
    advance(route, now)

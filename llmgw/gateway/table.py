# SPDX-License-Identifier: Apache-2.0
"""The live route table: what the newest bundle says, joined with what this gateway knows of each endpoint (G2).

A new bundle keeps the state of every endpoint that stays: health, requests in flight, kept connections. An endpoint
that goes gets no new request and is forgotten after its last one. All of it lives in one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from llmgw.gateway.admit.auth import Keyring
from llmgw.gateway.admit.limits import portion
from llmgw.gateway.admit.line import Line
from llmgw.gateway.counters import ServiceCounters
from llmgw.gateway.endpoints import ejection
from llmgw.gateway.endpoints.breaker import Breaker, Cause
from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.health import Health, Probe, State, after_failure, after_probe, restarted, unknown
from llmgw.gateway.endpoints.progress import Progress
from llmgw.gateway.records.explain import ROOT_OF_TWO, Sampler
from llmgw.gateway.routing.cost import EndpointCosts
from llmgw.gateway.wire.refusal import not_ready
from llmgw.gateway.wire.upstream import Pool
from llmgw.model.replica import GatewaySpec
from llmgw.model.route import Bundle, Endpoint, Route

if TYPE_CHECKING:
    from llmgw.gateway.exchange import Exchange

Secrets = Callable[[str], str | None]
"""The value of an environment variable of the gateway, or None."""

Place = tuple[str, str, int]
"""What makes an endpoint the same one in two bundles: id, address, port."""


def _place(spec: Endpoint) -> Place:
    return spec.id, spec.address, spec.port


class LiveEndpoint:
    """One endpoint as this gateway sees it.

    `last_byte`: loop time at which a request last got data from it; `content_at`: content, so no comment of a stream
    and no answer of 400 or more. `paused`: requests whose answer is not read, as their clients are too slow. `ended`:
    attempts that are over. `ejected`: out by its breaker. `costs`: its account, which has what the engine reported,
    in force until loop time `load_until`. `after_line`: what follows the request line in
    every request to it: host, and the engine's key. `good`, `bad`: how many requests it answered well and how many not,
    since this address came into the table (G7).
    """

    __slots__ = (
        "_key",
        "after_line",
        "bad",
        "breaker",
        "content_at",
        "costs",
        "ejected",
        "ended",
        "good",
        "health",
        "in_flight",
        "last_byte",
        "leaving",
        "load_until",
        "paused",
        "pool",
        "route",
        "silence",
        "spec",
        "told_ejected",
    )

    def __init__(self, spec: Endpoint, route: LiveRoute, key: str | None, now: float) -> None:
        self.spec = spec
        self.route = route
        self.health: Health = unknown(now)
        self.in_flight = self.good = self.bad = 0
        self.last_byte = self.content_at = self.load_until = 0.0
        self.paused = self.ended = 0
        self.breaker = Breaker()
        self.silence = Progress()
        self.costs = EndpointCosts(spec)
        self.leaving = self.ejected = self.told_ejected = False
        self.pool = Pool(spec.address, spec.port)
        self._key = key
        self.after_line = self._after_line()

    @property
    def load(self) -> EngineLoad | None:
        """What the engine reported last, if that still counts."""
        return self.costs.load

    @property
    def name(self) -> str:
        """Its id."""
        return self.spec.id

    @property
    def state(self) -> State:
        """What others are told: draining is the operator's word and comes before what probes found, and that before
        what requests showed.
        """
        if self.spec.draining or self.leaving:
            return State.DRAINING
        return State.EJECTED if self.ejected and self.health.state is State.READY else self.health.state

    @property
    def up(self) -> bool:
        """Whether probes find it ready and nobody keeps requests away."""
        return self.health.state is State.READY and not self.spec.draining and not self.leaving

    def detail(self, now: float) -> str | None:
        """Why it does not take requests, or why it soon may not. `now`: loop time."""
        if self.up and self.breaker.cause is not None:
            return ejection.detail(self.breaker, self.ejected, now)
        return self.health.detail

    def since(self, now: float, unix_now: float) -> float:
        """Unix time at which its state began. `now`: loop time at the same moment."""
        if self.state is State.EJECTED:
            return unix_now - now + self.breaker.opened_at
        return self.health.since

    def renew(self) -> None:
        """The engine is another process: what requests to the old one showed is void."""
        self.breaker.reset()
        self.silence.restarted()
        self.costs.restarted()

    @property
    def url(self) -> str:
        """Base URL, brackets around an IPv6 address."""
        return f"http://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port."""
        host = f"[{self.spec.address}]" if ":" in self.spec.address else self.spec.address
        return f"{host}:{self.spec.port}"

    def update(self, spec: Endpoint, route: LiveRoute, key: str | None) -> None:
        """Takes what a newer bundle says of the same address."""
        if spec.process_digest != self.spec.process_digest:
            self.health = restarted(self.health)
            self.renew()
        if spec.model != self.spec.model:
            self.health = unknown(self.health.since)
        self.spec, self.route, self.leaving = spec, route, False
        self.costs.update(spec)
        if key != self._key:
            self._key = key
            self.after_line = self._after_line()

    def _after_line(self) -> bytes:
        head = b" HTTP/1.1\r\nhost: " + self.authority.encode() + b"\r\n"
        if self._key:
            head += b"authorization: Bearer " + self._key.encode() + b"\r\n"
        return head


class LiveRoute:
    """One service: its endpoints, those of them that take requests now, and its counts. `trials`: those of `ready`
    whose breaker is open and that get the next request, to see whether they serve again. `line`: requests that wait for
    their turn. `elsewhere`: requests in flight at the other processes of this host; None: not told, and then each
    process has its part of the limit. `share`: how many this process may have while others wait for the service too.
    """

    __slots__ = (
        "_workers",
        "advancing",
        "counters",
        "elsewhere",
        "endpoints",
        "in_flight",
        "line",
        "ready",
        "sampler",
        "share",
        "spec",
        "trials",
        "turn",
    )

    def __init__(self, spec: Route) -> None:
        self.line: Line[Exchange] = Line(0)
        self.advancing = False
        self.elsewhere: int | None = None
        self.share: int | None = None
        self.sampler = Sampler(0.0, step=ROOT_OF_TWO)
        self.update(spec)
        self.endpoints: tuple[LiveEndpoint, ...] = ()
        self.ready: tuple[LiveEndpoint, ...] = ()
        self.trials: tuple[LiveEndpoint, ...] = ()
        self.in_flight = 0
        self.turn = 0
        self.counters = ServiceCounters()

    def update(self, spec: Route, workers: int = 1) -> None:
        """Takes what a newer bundle says. Limits are for each gateway host, which has so many workers."""
        self.spec = spec
        self._workers = workers
        queue = spec.admission.max_queue
        self.line.max_queue = 0 if queue is None else portion(queue, workers)
        self.sampler.share = 0.0 if spec.split is None else spec.split.share

    @property
    def max_concurrency(self) -> int | None:
        """Requests to this service that may be in flight at this process now."""
        limit = self.spec.admission.max_concurrency
        if limit is None:
            return None
        if self.elsewhere is None:
            return portion(limit, self._workers)
        left = limit - self.elsewhere
        return left if self.share is None else min(left, self.share)

    def refresh(self) -> None:
        """Finds again which endpoints take requests."""
        self.ready, self.trials, out = ejection.rotation(self.endpoints)
        for endpoint in self.endpoints:
            endpoint.ejected = endpoint in out

    def close(self) -> None:
        """The service is gone: requests that it still has end, and try nothing new; those that wait are told."""
        self.endpoints = self.ready = self.trials = ()
        for exchange in self.line.clear():
            exchange.turned_away(not_ready(self.spec.served_name, {}))

    def states(self) -> dict[str, int]:
        """How many endpoints are in each state."""
        states: dict[str, int] = {}
        for endpoint in self.endpoints:
            states[endpoint.state] = states.get(endpoint.state, 0) + 1
        return states


class Table:
    """All that requests are routed by. `workers`: processes of this host that share it, and its limits."""

    def __init__(self, secrets: Secrets, workers: int = 1) -> None:
        self.workers = workers
        self.bundle: Bundle | None = None
        self.loaded_at: float | None = None
        self.gateway = GatewaySpec()
        self.keys = Keyring()
        self.routes: dict[str, LiveRoute] = {}
        self.names: dict[str, LiveRoute] = {}
        self.endpoints: dict[str, LiveEndpoint] = {}
        self.leaving: list[LiveEndpoint] = []
        self.missing_secrets: set[str] = set()
        """Variables that routes name for engines' keys and that this process does not have."""
        self._secrets = secrets

    def swap(self, bundle: Bundle, now: float) -> None:
        """Serves by `bundle` from now on. `now`: Unix time."""
        before = {_place(endpoint.spec): endpoint for endpoint in self.everywhere()}
        self.missing_secrets = set()
        routes: dict[str, LiveRoute] = {}
        for spec in bundle.routes.routes:
            route = self.routes.get(spec.service) or LiveRoute(spec)
            route.update(spec, self.workers)
            route.endpoints = tuple(self._endpoint(one, route, before, now) for one in spec.endpoints)
            route.refresh()
            routes[spec.service] = route
        gone = [route for service, route in self.routes.items() if service not in routes]
        self.routes = routes
        self.endpoints = {endpoint.spec.id: endpoint for route in routes.values() for endpoint in route.endpoints}
        self._let_go(before.values())
        self.names = {}
        for route in routes.values():
            for name in (route.spec.served_name, *route.spec.aliases):
                self.names.setdefault(name, route)
        self.gateway = bundle.routes.gateway
        self.keys.swap(self.gateway.keys, max(1, bundle.routes.gateways), self.workers)
        self.bundle, self.loaded_at = bundle, now
        for route in gone:
            route.close()

    def _endpoint(
        self, spec: Endpoint, route: LiveRoute, before: dict[Place, LiveEndpoint], now: float
    ) -> LiveEndpoint:
        key = self._secret(spec.api_key_env)
        live = before.get(_place(spec))
        if live is None:
            return LiveEndpoint(spec, route, key, now)
        live.update(spec, route, key)
        return live

    def _secret(self, name: str | None) -> str | None:
        value = (self._secrets(name) or "").strip() if name else ""
        if name and not value:
            self.missing_secrets.add(name)
        return value or None

    def _let_go(self, before: Iterable[LiveEndpoint]) -> None:
        """Marks those that the new routes do not have; without requests they are closed at once."""
        staying = set(map(id, self.endpoints.values()))
        gone = [endpoint for endpoint in before if id(endpoint) not in staying]
        for endpoint in gone:
            endpoint.leaving = True
            if not endpoint.in_flight:
                endpoint.pool.close()
        self.leaving = [endpoint for endpoint in gone if endpoint.in_flight]

    def everywhere(self) -> list[LiveEndpoint]:
        """All endpoints, those that are leaving too."""
        return [*self.endpoints.values(), *self.leaving]

    def judge(self, endpoint: LiveEndpoint, probe: Probe, now: float) -> bool:
        """Takes a probe's outcome in; whether the state changed. `now`: Unix time."""
        gone = endpoint.health.gone
        health = after_probe(endpoint.health, probe, endpoint.spec.model, now)
        if gone and health.state is State.READY:
            endpoint.renew()
        return self._set(endpoint, health)

    def failed(self, endpoint: LiveEndpoint, reason: str, now: float) -> bool:
        """Takes a transport error in: out of rotation until the next good probe. `now`: Unix time."""
        return self._set(endpoint, after_failure(endpoint.health, reason, now))

    def dispatched(self, endpoint: LiveEndpoint, now: float) -> None:
        """One request goes to the endpoint: its trial, if one is due. `now`: loop time, as in all that follows."""
        endpoint.in_flight += 1
        if endpoint.breaker.due:
            endpoint.breaker.try_now(now)
            endpoint.route.refresh()

    def outcome(self, endpoint: LiveEndpoint, ok: bool | None, reason: str, now: float) -> None:
        """Takes the end of one attempt in, whatever it was: well, not (with the reason), or saying nothing (G7)."""
        endpoint.ended += 1
        if ok:
            endpoint.good += 1
            changed = endpoint.breaker.good(now)
        elif ok is None:
            changed = endpoint.breaker.neutral(now)
        else:
            endpoint.bad += 1
            changed = endpoint.breaker.bad(reason, now)
        if changed:
            endpoint.route.refresh()

    def progress(self, endpoint: LiveEndpoint, now: float) -> None:
        """Content came: an engine that was taken for hung is not."""
        endpoint.content_at = now
        if endpoint.breaker.cause is Cause.HUNG:
            endpoint.breaker.close(now)
            endpoint.route.refresh()

    def report(self, endpoint: LiveEndpoint, load: EngineLoad | None, until: float) -> None:
        """Takes in what the engine says of itself, in force until `until`; None: nothing is known."""
        endpoint.costs.load, endpoint.load_until = load, until

    def clear(self, endpoint: LiveEndpoint) -> None:
        """An operator says that the endpoint is well: it takes requests again (G10)."""
        endpoint.breaker.reset()
        endpoint.silence.restarted()
        endpoint.route.refresh()

    def sweep(self, now: float) -> list[LiveEndpoint]:
        """What time alone changes: reports that are too old, silence, trials that are due. To be called a few times a
        second. Returns the endpoints that were taken out or came back since the last time, for the log.
        """
        told: list[LiveEndpoint] = []
        for route in self.routes.values():
            for endpoint in route.endpoints:
                if endpoint.load is not None and now > endpoint.load_until:
                    endpoint.costs.load = None
            if ejection.sweep(route.endpoints, now):
                route.refresh()
            for endpoint in route.endpoints:
                if endpoint.ejected is not endpoint.told_ejected:
                    endpoint.told_ejected = endpoint.ejected
                    if endpoint.up:
                        told.append(endpoint)
        return told

    def released(self, endpoint: LiveEndpoint) -> None:
        """One request of the endpoint is over."""
        endpoint.in_flight -= 1
        if endpoint.leaving and not endpoint.in_flight:
            endpoint.pool.close()
            self.leaving.remove(endpoint)

    @staticmethod
    def _set(endpoint: LiveEndpoint, health: Health) -> bool:
        before, endpoint.health = endpoint.health, health
        if before.state is health.state:
            return False
        endpoint.route.refresh()
        return True

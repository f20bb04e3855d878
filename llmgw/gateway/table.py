# SPDX-License-Identifier: Apache-2.0
"""The live route table: what the newest bundle says, joined with what this gateway knows of each endpoint (G2).

A new bundle keeps the state of every endpoint that stays: health, requests in flight, kept connections. An endpoint
that goes gets no new request and is forgotten after its last one. All of it lives in one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llmgw.gateway.auth import Keyring
from llmgw.gateway.counters import ServiceCounters
from llmgw.gateway.health import UNAVAILABLE, Health, Probe, State, after_failure, after_probe, restarted, unknown
from llmgw.gateway.upstream import Pool
from llmgw.model.replica import GatewaySpec
from llmgw.model.route import Bundle, Endpoint, Route

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500

Secrets = Callable[[str], str | None]
"""The value of an environment variable of the gateway, or None."""

Place = tuple[str, str, int]
"""What makes an endpoint the same one in two bundles: id, address, port."""


def _place(spec: Endpoint) -> Place:
    return spec.id, spec.address, spec.port


class LiveEndpoint:
    """One endpoint as this gateway sees it.

    `last_byte`: loop time at which a request last got data from it. `after_line`: what follows the request line in
    every request to it: host, and the engine's key. `good`, `bad`: how many requests it answered well and how many not,
    since this address came into the table (G7).
    """

    __slots__ = (
        "_key",
        "after_line",
        "bad",
        "good",
        "health",
        "in_flight",
        "last_byte",
        "leaving",
        "pool",
        "route",
        "spec",
    )

    def __init__(self, spec: Endpoint, route: LiveRoute, key: str | None, now: float) -> None:
        self.spec = spec
        self.route = route
        self.health: Health = unknown(now)
        self.in_flight = self.good = self.bad = 0
        self.last_byte = 0.0
        self.leaving = False
        self.pool = Pool(spec.address, spec.port)
        self._key = key
        self.after_line = self._after_line()

    @property
    def state(self) -> State:
        """What others are told: draining is the operator's word and comes before what probes found."""
        return State.DRAINING if self.spec.draining or self.leaving else self.health.state

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
        if spec.model != self.spec.model:
            self.health = unknown(self.health.since)
        self.spec, self.route, self.leaving = spec, route, False
        if key != self._key:
            self._key = key
            self.after_line = self._after_line()

    def answered(self, status: int | None) -> None:
        """Counts a complete answer: 4xx are answers like any other, 429 and 503 say that there was no room (G7)."""
        if status is not None and status < SERVER_ERROR:
            self.good += status != TOO_MANY_REQUESTS
        else:
            self.bad += status != UNAVAILABLE

    def _after_line(self) -> bytes:
        head = b" HTTP/1.1\r\nhost: " + self.authority.encode() + b"\r\n"
        if self._key:
            head += b"authorization: Bearer " + self._key.encode() + b"\r\n"
        return head


class LiveRoute:
    """One service: its endpoints, those of them that take requests now, and its counts."""

    __slots__ = ("counters", "endpoints", "in_flight", "ready", "spec", "turn")

    def __init__(self, spec: Route) -> None:
        self.spec = spec
        self.endpoints: tuple[LiveEndpoint, ...] = ()
        self.ready: tuple[LiveEndpoint, ...] = ()
        self.in_flight = 0
        self.turn = 0
        self.counters = ServiceCounters()

    @property
    def max_concurrency(self) -> int | None:
        """Requests to this service that may be in flight at this gateway."""
        return self.spec.admission.max_concurrency

    def refresh(self) -> None:
        """Finds again which endpoints take requests."""
        self.ready = tuple(endpoint for endpoint in self.endpoints if endpoint.state is State.READY)

    def close(self) -> None:
        """The service is gone: requests that it still has end, and try nothing new."""
        self.endpoints = self.ready = ()

    def states(self) -> dict[str, int]:
        """How many endpoints are in each state."""
        states: dict[str, int] = {}
        for endpoint in self.endpoints:
            states[endpoint.state] = states.get(endpoint.state, 0) + 1
        return states


class Table:
    """All that requests are routed by."""

    def __init__(self, secrets: Secrets) -> None:
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
            route.spec = spec
            route.endpoints = tuple(self._endpoint(one, route, before, now) for one in spec.endpoints)
            route.refresh()
            routes[spec.service] = route
        for service in self.routes.keys() - routes.keys():
            self.routes[service].close()
        self.routes = routes
        self.endpoints = {endpoint.spec.id: endpoint for route in routes.values() for endpoint in route.endpoints}
        self._let_go(before.values())
        self.names = {}
        for route in routes.values():
            for name in (route.spec.served_name, *route.spec.aliases):
                self.names.setdefault(name, route)
        self.gateway = bundle.routes.gateway
        self.keys.swap(self.gateway.keys)
        self.bundle, self.loaded_at = bundle, now

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
        """Takes a probe's outcome in; whether the state changed."""
        return self._set(endpoint, after_probe(endpoint.health, probe, endpoint.spec.model, now))

    def failed(self, endpoint: LiveEndpoint, reason: str, now: float) -> bool:
        """Takes a failed request in: out of rotation until the next good probe."""
        return self._set(endpoint, after_failure(endpoint.health, reason, now))

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

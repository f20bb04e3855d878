# SPDX-License-Identifier: Apache-2.0
"""A gateway on a thread of the test process, and bundles published to it as `llmgw apply` does."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import uvloop

from llmgw.console.pages import add_pages
from llmgw.gateway.processes import reload
from llmgw.gateway.processes.app import Gateway, Settings
from llmgw.model.ids import EndpointId, EngineKind, NodeName, ReplicaId, ServiceName
from llmgw.model.replica import AdmissionSpec, GatewaySpec
from llmgw.model.route import BUNDLE_FORMAT, Bundle, Endpoint, Route, RouteTable
from llmgw.routes.codec import dump_bundle, routes_digest
from tests.gateway.engine import WAIT_S

T = TypeVar("T")

reload.POLL_S = 0.02  # hundreds of bundles are published here; a gateway in a process of its own keeps its pace


class Served(Protocol):
    """Where an engine of a test listens, and what it serves."""

    host: str
    port: int
    model: str


def endpoint(engine: Served, number: int = 0, service: str = "chat", node: str = "n1", **more: Any) -> Endpoint:
    replica = f"{service}/{number}"
    values: dict[str, Any] = {"model": engine.model, "address": engine.host, "port": engine.port} | more
    return Endpoint(
        id=EndpointId(f"{replica}@{node}"),
        replica=ReplicaId(replica),
        node=NodeName(node),
        engine=EngineKind("sim"),
        **values,
    )


def route(endpoints: Iterable[Endpoint], service: str = "chat", served_name: str = "m", **more: Any) -> Route:
    found = tuple(endpoints)
    admission = AdmissionSpec(max_concurrency=more.pop("max_concurrency", None))
    values: dict[str, Any] = {"aliases": (), "desired": len(found), "admission": admission} | more
    return Route(ServiceName(service), served_name, endpoints=found, **values)


def bundle(generation: int, routes: Iterable[Route], **more: Any) -> Bundle:
    gateway = more.pop("gateway", GatewaySpec(probe_interval_s=0.1))
    table = RouteTable(tuple(routes), gateway)
    return Bundle(BUNDLE_FORMAT, generation, routes_digest(table), table, written_at=1000.0, **more)


def write(path: Path, content: str | bytes) -> None:
    """Atomically, as the module llmgw.fleet.bundle writes."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    temporary.replace(path)


def eventually(check: Callable[[], T], what: str, within_s: float = WAIT_S) -> T:
    """The first true result of `check`."""
    deadline = time.monotonic() + within_s
    while True:
        result = check()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}; last seen: {result!r}"
        time.sleep(0.01)


class RunningGateway:
    """One gateway process on a thread, with an event loop of its own."""

    def __init__(self, folder: Path, first: Bundle | None = None, **settings: Any) -> None:
        self.bundle_path = folder / "bundle.json"
        self.generation = 0
        if first is not None:
            write(self.bundle_path, dump_bundle(first))
            self.generation = first.generation
        values: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "drain_timeout_s": 3.0,
        } | settings
        self._settings = Settings(self.bundle_path, **values)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=lambda: uvloop.run(self._main()), daemon=True)
        self._thread.start()
        assert self._started.wait(10), "the gateway did not start"
        if self._failure is not None:
            raise self._failure

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            self.gateway = Gateway(self._settings, add_pages)
            await self.gateway.start()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self._failure = error
            self._started.set()
            return
        self.url = self.gateway.url
        self.admin_url = self.gateway.admin_url
        self._started.set()
        await self._stopping.wait()
        await self.gateway.stop()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(15)
        assert not self._thread.is_alive(), "the gateway did not stop"

    def in_loop(self, work: Callable[[], T]) -> T:
        """The result of `work`, run where the gateway's state lives."""

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(WAIT_S)

    def publish(self, routes: Iterable[Route], *, ready: bool = True, **more: Any) -> None:
        """Publishes the next generation and waits until it is in force, and all its endpoints are ready."""
        self.generation += 1
        write(self.bundle_path, dump_bundle(bundle(self.generation, routes, **more)))
        eventually(lambda: self.get("/api/v1/status")["generation"] == self.generation, "new bundle in force")
        if ready:
            eventually(lambda: set(self.states().values()) <= {"ready", "draining"}, "all endpoints ready")

    def get(self, path: str, token: str | None = None) -> Any:
        """A document of the admin API."""
        status, _headers, body = fetch(
            self.admin_url + path, headers={"authorization": f"Bearer {token}"} if token else {}
        )
        assert status == 200, (status, body)
        return json.loads(body)

    def states(self) -> dict[str, str]:
        return {one["id"]: one["state"] for one in self.get("/api/v1/endpoints")["endpoints"]}

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics: `name{labels}` to value."""
        _status, _headers, body = fetch(self.admin_url + "/metrics")
        lines = (line.rpartition(" ") for line in body.decode().splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _space, value in lines}

    def held(self) -> dict[str, int]:
        """All that is in flight or held, of which nothing may be left when no request is."""

        def count() -> dict[str, int]:
            plane, table = self.gateway.plane, self.gateway.table
            held = {
                "exchanges": len(plane.exchanges),
                "body bytes": plane.bodies.used,
                "keys": sum(key.in_flight for key in table.keys),
                "routes": sum(one.in_flight for one in table.routes.values()),
                "endpoints": sum(one.in_flight for one in table.everywhere()),
                "leaving": len(table.leaving),
            }
            return {name: number for name, number in held.items() if number}

        return self.in_loop(count)

    def assert_nothing_held(self) -> None:
        eventually(lambda: not self.held() or None, f"nothing held, but {self.held()}")


def fetch(
    url: str, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """One request by the standard library's client on a connection of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WAIT_S)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def environment() -> dict[str, str]:
    """The environment for a gateway as a process of its own."""
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": f"{root}:{root / 'collections'}"}

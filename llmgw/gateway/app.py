# SPDX-License-Identifier: Apache-2.0
"""The gateway's process: two uvicorn servers in one event loop, from the first bundle to the last stream (G12)."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from llmgw.gateway.admin import Pages, admin_app
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.deadlines import keep_deadlines
from llmgw.gateway.guard import Guard, check_exposed
from llmgw.gateway.listen import Address, bind, parse_address, url_of
from llmgw.gateway.notify import READY, STOPPING, notify
from llmgw.gateway.prober import Prober
from llmgw.gateway.reload import BundleFile
from llmgw.gateway.server import ClientProtocol, Server
from llmgw.gateway.table import Table
from llmgw.gateway.views import Views

FIRST_PROBES_S = 2.0
CLIENT_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that they close first and never race a request against a close."""
BACKLOG = 2048
GRACE_AFTER_DRAIN_S = 5
COLLECT_AFTER = (50_000, 20, 100)
"""Garbage collection thresholds: requests leave no cycles behind, so collecting often only costs."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Settings:
    """How the process was started. Listeners that are None come from the bundle, or from the catalog's defaults."""

    bundle: Path
    listen: str | None = None
    admin_listen: str | None = None
    ready_file: Path | None = None
    drain_timeout_s: float = 120.0


class Gateway:
    """One running gateway. `start`, then `stop`; both in the event loop that made it."""

    def __init__(self, settings: Settings, pages: Pages) -> None:
        self._settings = settings
        self._pages = pages
        self.table = Table(os.environ.get)
        self.plane = DataPlane(self.table, secrets.randbits(64))
        self._prober = Prober(self.table)
        self._file = BundleFile(settings.bundle, self.table, self._swapped, self._reload_failed)
        self._servers: list[tuple[Server, asyncio.Task[None]]] = []
        self._keepers: list[asyncio.Task[None]] = []
        self.url = ""
        self.admin_url = ""

    async def start(self) -> None:
        """Reads the bundle, listens, probes, serves. Raises LlmgwError for what the operator has to mend."""
        self.plane.wake = self._prober.wake
        await self._file.look()
        listen, admin_listen = self._addresses()
        check_exposed(admin_listen, self.table)
        data_socket = bind(listen, "the gateway")
        try:
            admin_socket = bind(admin_listen, "the gateway's admin listener")
        except BaseException:
            data_socket.close()
            raise
        self._keepers = [
            asyncio.create_task(self._file.follow()),
            asyncio.create_task(keep_deadlines(self.plane)),
        ]
        await self._prober.first_round(FIRST_PROBES_S)
        gateway = self.table.gateway
        tls = (
            {"ssl_certfile": gateway.tls_certificate, "ssl_keyfile": gateway.tls_key} if gateway.tls_certificate else {}
        )
        views = Views(self.plane, self._file, version(), time.time(), self._started_with())
        await self._serve(self.plane, data_socket, tls)
        await self._serve(Guard(admin_app(views, self._pages), self.table, admin_listen), admin_socket, {})
        self.url = url_of(data_socket, "https" if tls else "http")
        self.admin_url = url_of(admin_socket)
        if self.table.keys.open:
            log.warning("no API keys are configured: every client that can connect is served")
        _tune()

    async def stop(self) -> None:
        """Takes no new connections, lets requests finish within the drain timeout, then ends."""
        self.plane.draining = True
        (data, data_task), (admin, admin_task) = self._servers
        data.should_exit = True
        late = self.plane.loop.call_later(self._settings.drain_timeout_s, self.give_up)
        await data_task
        late.cancel()
        admin.should_exit = True
        await admin_task
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._prober.stop()
        for endpoint in self.table.everywhere():
            endpoint.pool.close()

    def give_up(self) -> None:
        """Cuts what is still in flight."""
        if self.plane.exchanges:
            log.warning("requests are cut off: the drain timeout is over", requests=len(self.plane.exchanges))
        for exchange in tuple(self.plane.exchanges):
            exchange.cut_off()

    def _addresses(self) -> tuple[Address, Address]:
        settings, gateway = self._settings, self.table.gateway
        return (
            parse_address(settings.listen or gateway.listen, "the gateway's address"),
            parse_address(settings.admin_listen or gateway.admin_listen, "the admin listener's address"),
        )

    def _started_with(self) -> dict[str, object]:
        """Settings of the bundle that a running process cannot change, without those that options overrule."""
        names = ["tls_certificate", "tls_key"]
        names += ["listen"] if self._settings.listen is None else []
        names += ["admin_listen"] if self._settings.admin_listen is None else []
        return {name: getattr(self.table.gateway, name) for name in names}

    async def _serve(self, app: Callable[..., Any], listener: socket.socket, tls: dict[str, str | None]) -> None:
        config = uvicorn.Config(
            app,
            http=ClientProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            access_log=False,
            log_config=None,
            backlog=BACKLOG,
            timeout_keep_alive=CLIENT_KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(self._settings.drain_timeout_s) + GRACE_AFTER_DRAIN_S,
            **tls,  # type: ignore[arg-type]
        )
        server = Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        self._servers.append((server, task))
        while not server.started:
            await asyncio.wait([task], timeout=0.005)
            if task.done():
                task.result()

    def _swapped(self) -> None:
        self._prober.sync()

    def _reload_failed(self) -> None:
        self.plane.counters.reload_failures += 1


async def run(settings: Settings, pages: Pages) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal cuts what is left."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    gateway = Gateway(settings, pages)

    def stop() -> None:
        if stopping.is_set():
            gateway.give_up()
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await gateway.start()
    sys.stderr.write(f"gateway  {gateway.url}\nadmin    {gateway.admin_url}/admin\n")
    sys.stderr.flush()
    if settings.ready_file is not None:
        _write_ready(settings.ready_file, gateway)
    notify(READY)
    await stopping.wait()
    notify(STOPPING)
    log.info("draining", requests=len(gateway.plane.exchanges))
    await gateway.stop()


def version() -> str:
    """The version of the installed llmgw."""
    try:
        return metadata.version("llmgw")
    except metadata.PackageNotFoundError:
        return "unknown"


def _write_ready(path: Path, gateway: Gateway) -> None:
    """Whoever waits for the file never reads half of it."""
    document = {"url": gateway.url, "admin_url": gateway.admin_url, "pid": os.getpid()}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document) + "\n")
    temporary.replace(path)


def _tune() -> None:
    """As many open files as the system allows, and no garbage collection over what lives for ever."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)

# SPDX-License-Identifier: Apache-2.0
"""A gateway of one process: data and admin listener in one event loop, from the first bundle to the last stream (G12).

`control.py` is the same gateway with its clients served by workers; `run` takes the one that is asked for.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog

from llmgw.errors import LlmgwError
from llmgw.gateway.admin.admin import Pages, admin_app
from llmgw.gateway.admin.guard import Guard, check_exposed
from llmgw.gateway.admin.request_views import KeptHere, RequestViews
from llmgw.gateway.admin.views import Views
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.load_poller import LoadPoller
from llmgw.gateway.endpoints.prober import Prober
from llmgw.gateway.processes import handover
from llmgw.gateway.processes.control import Control
from llmgw.gateway.processes.data_side import DataSide
from llmgw.gateway.processes.listen import bind, url_of
from llmgw.gateway.processes.listener import Listener
from llmgw.gateway.processes.notify import READY, RELOADING, STOPPING, notify
from llmgw.gateway.processes.process import (
    Settings,
    addresses,
    started_with,
    tune,
    version,
    wanted_workers,
    write_ready,
)
from llmgw.gateway.processes.processes import OneProcess
from llmgw.gateway.processes.server import ClientProtocol

FIRST_PROBES_S = 2.0

log = structlog.get_logger()


class Gateway:
    """One running gateway. `start`, then `stop`; both in the event loop that made it."""

    def __init__(self, settings: Settings, pages: Pages) -> None:
        self._settings = settings
        self._pages = pages
        self._data = DataSide(settings.bundle, self._swapped, settings.drain_timeout_s)
        self.table = self._data.table
        self.plane = self._data.plane
        self._prober = Prober(self.table)
        self._poller = LoadPoller(self.table)
        self._admin: Listener | None = None
        self.url = ""
        self.admin_url = ""

    @property
    def requests(self) -> int:
        """Requests in flight."""
        return len(self.plane.exchanges)

    async def start(self) -> None:
        """Reads the bundle, listens, probes, serves. Raises LlmgwError for what the operator has to mend."""
        self.plane.wake = self._prober.wake
        await self._data.file.look()
        listen, admin_listen = addresses(self._settings, self.table.gateway)
        check_exposed(admin_listen, self.table)
        data_socket = bind(listen, "the gateway")
        try:
            admin_socket = bind(admin_listen, "the gateway's admin listener")
        except BaseException:
            data_socket.close()
            raise
        await self._prober.first_round(FIRST_PROBES_S)
        await self._data.serve([data_socket])
        views = Views(
            self.plane,
            self._data.file,
            version(),
            time.time(),
            started_with(self._settings, self.table.gateway),
            OneProcess(self.plane),
        )
        requests = RequestViews(KeptHere(self.plane.explanations), views.processes, self.table)
        app = Guard(admin_app(views, self._pages, requests), self.table, admin_listen)
        self._admin = Listener(app, [admin_socket], ClientProtocol, self._settings.drain_timeout_s)
        await self._admin.start()
        self.url = url_of(data_socket, "https" if self.table.gateway.tls_certificate else "http")
        self.admin_url = url_of(admin_socket)
        if self.table.keys.open:
            log.warning("no API keys are configured: every client that can connect is served")
        tune()

    async def reload(self) -> None:
        """Takes a newer certificate. Anything else that a new bundle does not bring needs a restart."""
        try:
            self._data.renew_certificate()
        except LlmgwError as error:
            self.plane.reload_refused(str(error))
            log.error("the certificate that is in use stays in use", problem=str(error))  # noqa: TRY400
        else:
            self.plane.reload_problem = None

    async def stop(self) -> None:
        """Takes no new connections, lets requests finish within the drain timeout, then ends."""
        await self._data.finish()
        if self._admin is not None:
            await self._admin.drain()
        await self._prober.stop()
        await self._poller.stop()

    def give_up(self) -> None:
        """Cuts what is still in flight."""
        self._data.cut()

    def _swapped(self) -> None:
        self._prober.sync()
        self._poller.sync()


class Running(Protocol):
    """A gateway of one process or of many."""

    url: str
    admin_url: str
    plane: DataPlane

    @property
    def requests(self) -> int:
        """Requests in flight."""

    async def start(self) -> None:
        """Begins to serve."""

    async def reload(self) -> None:
        """Takes in what the bundle does not bring."""

    async def stop(self) -> None:
        """Drains and ends."""

    def give_up(self) -> None:
        """Cuts what is in flight."""


async def run(settings: Settings, pages: Pages) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal cuts what is left. SIGHUP reloads."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    started = asyncio.Event()
    reloads: set[asyncio.Task[None]] = set()
    handed = handover.take()
    many = handed is not None or await asyncio.to_thread(wanted_workers, settings) > 1
    gateway: Running = Control(settings, pages) if many else Gateway(settings, pages)

    def stop() -> None:
        if stopping.is_set():
            gateway.give_up()
        stopping.set()

    def reload() -> None:
        if not stopping.is_set():
            reloads.add(loop.create_task(_reload(gateway, gateway.reload, started)))

    for number, follow in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        loop.add_signal_handler(number, follow)
    if handed is not None and isinstance(gateway, Control):
        handover.listen_again()
        await gateway.go_on(handed)
        reloads.add(loop.create_task(_reload(gateway, gateway.replace, started)))
    else:
        await gateway.start()
        sys.stderr.write(f"gateway  {gateway.url}\nadmin    {gateway.admin_url}/admin\n")
        sys.stderr.flush()
        notify(_ready(gateway))
    if settings.ready_file is not None:
        _tell_ready(settings.ready_file, gateway, again=handed is not None)
    started.set()
    await stopping.wait()
    notify(STOPPING)
    log.info("draining", requests=gateway.requests)
    for task in reloads:
        task.cancel()
    await asyncio.gather(*reloads, return_exceptions=True)
    await gateway.stop()


def _tell_ready(path: Path, gateway: Running, *, again: bool) -> None:
    """Writes the ready file. `again`: clients are served already, and what it says is as it was."""
    try:
        write_ready(path, gateway.url, gateway.admin_url)
    except OSError:
        if not again:
            raise
        log.exception("the ready file is not written again")


async def _reload(gateway: Running, work: Callable[[], Awaitable[None]], started: asyncio.Event) -> None:
    """One reload, or its second half in new code. The service manager is told when it begins, and when it is over."""
    await started.wait()
    notify(f"{RELOADING}\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
    log.info("reloading")
    try:
        await work()
    except Exception as error:
        gateway.plane.reload_refused(f"{type(error).__name__}: {error}")
        log.exception("the gateway is not reloaded")
    finally:
        notify(_ready(gateway))  # of the code that goes on; new code says so itself


def _ready(gateway: Running) -> str:
    """What the service manager shows, and by what the playbook knows that a reload brings new code in."""
    if not isinstance(gateway, Control):
        return READY
    return f"{READY}\nSTATUS=Clients are served by {gateway.supervisor.size} workers; a reload replaces them."


__all__ = ["Gateway", "Settings", "run"]

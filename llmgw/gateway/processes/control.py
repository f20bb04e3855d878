# SPDX-License-Identifier: Apache-2.0
"""The control process of a gateway with workers: it serves no client, but knows, probes, tells and keeps them running.

It follows the bundle, asks the engines how they are, and has the admin listener with its metrics. Workers serve on
while it is busy; what they need of it is said over their channels.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import sys
import time
from collections.abc import Sequence

import structlog

from llmgw.errors import LlmgwError
from llmgw.gateway.admin.admin import Pages, admin_app
from llmgw.gateway.admin.guard import Guard, check_exposed
from llmgw.gateway.admin.request_views import RequestViews
from llmgw.gateway.admin.views import Views
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.load_poller import LoadPoller
from llmgw.gateway.endpoints.prober import Prober
from llmgw.gateway.processes import sharing
from llmgw.gateway.processes.certificates import tls_context
from llmgw.gateway.processes.child import Ends
from llmgw.gateway.processes.handover import Handover, become, inherit, keep, try_new_code
from llmgw.gateway.processes.listen import Address, bind, bind_shared, url_of
from llmgw.gateway.processes.listener import Listener
from llmgw.gateway.processes.many import ManyProcesses, how_it_is
from llmgw.gateway.processes.process import Settings, addresses, started_with, tune, version
from llmgw.gateway.processes.reload import BundleFile
from llmgw.gateway.processes.server import ClientProtocol
from llmgw.gateway.processes.supervisor import Supervisor
from llmgw.gateway.table import Table

FIRST_PROBES_S = 2.0
LOOK_S = 0.05
GATEWAY = "the gateway"
ADMIN_DRAIN_S = 2.0
RELOADED = frozenset({"workers", "tls_certificate", "tls_key"})
"""Settings that a reload takes in, as it replaces the workers; the sockets go on whatever the bundle says."""

MOST_HASH_SEED = 1 << 32
"""Of PYTHONHASHSEED (docs.python.org, "Command line and environment")."""

log = structlog.get_logger()


class Control:
    """One gateway with workers. `start`, then `stop`; `reload` in between. All in the event loop that made it."""

    def __init__(self, settings: Settings, pages: Pages) -> None:
        self._settings = settings
        self._pages = pages
        # Workers tell each other of prompts by their hashes, which have to mean the same in all of them.
        os.environ.setdefault("PYTHONHASHSEED", str(secrets.randbelow(MOST_HASH_SEED)))
        self.table = Table(os.environ.get)
        self.plane = DataPlane(self.table, 0)
        self._prober = Prober(self.table)
        self._poller = LoadPoller(self.table)
        self._file = BundleFile(settings.bundle, self.table, self._swapped, self._reload_failed)
        self.processes = ManyProcesses(self.plane)
        self._listen: Address | None = None
        self._admin: Listener | None = None
        self._admin_socket: socket.socket | None = None
        self._started_at = time.time()
        self._keepers: list[asyncio.Task[None]] = []
        self._reloading = asyncio.Lock()
        self._started_with: dict[str, str | int | None] = {}
        self.supervisor = Supervisor(self._command, self._bind_one, self.processes.heard)
        self.url = ""
        self.admin_url = ""

    @property
    def requests(self) -> int:
        """Requests in flight."""
        return self.processes.requests

    async def start(self) -> None:
        """Reads the bundle, listens, probes, starts the workers. Raises LlmgwError for what one has to mend."""
        self.plane.wake = self._prober.wake
        await self._file.look()
        listen, admin_listen = addresses(self._settings, self.table.gateway)
        check_exposed(admin_listen, self.table)
        tls_context(self.table.gateway)  # said here, once, and not by each worker
        bound = bind_shared(listen, GATEWAY, self._size())
        try:
            admin_socket = bind(admin_listen, "the gateway's admin listener")
        except BaseException:
            _close(bound)
            raise
        await self._prober.first_round(FIRST_PROBES_S)
        self._begin(bound[0])
        try:
            await self.supervisor.start(bound)
        except BaseException:
            self.supervisor.kill()
            raise
        self._started_with = started_with(self._settings, self.table.gateway)
        await self._tell(admin_socket)
        if self.table.keys.open:
            log.warning("no API keys are configured: every client that can connect is served")

    async def go_on(self, handover: Handover) -> None:
        """Goes on where the code before was, with its workers."""
        self.plane.wake = self._prober.wake
        await self._file.look()
        self.processes.put_health(handover.endpoints)
        await self.supervisor.adopt(handover)
        self._begin(self.supervisor.bound())
        self._started_with = dict(handover.started_with)
        self._started_at = handover.started_at
        await self._tell(socket.socket(fileno=keep(handover.admin)))

    async def replace(self) -> None:
        """Replaces the workers one by one. What is wrong is logged: clients are served by those that there are."""
        try:
            await self.supervisor.replace(self._size())
        except LlmgwError as error:
            self.plane.reload_refused(str(error))
            log.error("not all workers are replaced: those that there are go on", problem=str(error))  # noqa: TRY400
            return
        now = started_with(self._settings, self.table.gateway)
        self._started_with.update({name: value for name, value in now.items() if name in RELOADED})
        self.plane.reload_problem = None
        log.info("all workers are replaced", workers=self.supervisor.size)

    def _begin(self, bound: socket.socket) -> None:
        """From here on workers are looked after. `bound`: one of their sockets."""
        host, port = bound.getsockname()[:2]
        self._listen = Address(host, port)
        self.url = url_of(bound, "https" if self.table.gateway.tls_certificate else "http")
        self.processes.supervisor = self.supervisor
        self._keepers = [asyncio.create_task(self._file.follow()), asyncio.create_task(self._keep_looking())]

    async def _tell(self, bound: socket.socket) -> None:
        """Serves the admin API at the socket."""
        self.processes.look(time.monotonic())
        views = Views(self.plane, self._file, version(), self._started_at, self._started_with, self.processes, RELOADED)
        requests = RequestViews(self.processes, self.processes, self.table)
        host, port = bound.getsockname()[:2]
        app = Guard(admin_app(views, self._pages, requests), self.table, Address(host, port))
        self._admin_socket = bound
        self._admin = Listener(app, [bound], ClientProtocol, self._settings.drain_timeout_s)
        await self._admin.start()
        self.admin_url = url_of(bound)
        tune()

    async def reload(self) -> None:
        """Becomes the code that is installed now, which then replaces the workers one by one; so it does not return,
        unless something is wrong: that is logged, and everything stays as it is.
        """
        async with self._reloading:
            try:
                await self._check_bundle()
                await try_new_code()
                tls_context(self.table.gateway)
            except LlmgwError as error:
                self.plane.reload_refused(str(error))
                log.error("not reloaded: everything goes on as it is", problem=str(error))  # noqa: TRY400
                return
            assert self._admin is not None  # noqa: S101 - started
            assert self._admin_socket is not None  # noqa: S101 - started
            admin = inherit(self._admin_socket.fileno())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._admin.drain(), ADMIN_DRAIN_S)
            slots, children, retired = await self.supervisor.hand_over()
            try:
                become(
                    Handover(
                        slots=slots,
                        children=children,
                        admin=admin,
                        retired=retired,
                        restarts=self.supervisor.restarts,
                        endpoints=[how_it_is(endpoint) for endpoint in self.table.endpoints.values()],
                        started_with=self._started_with,
                        started_at=self._started_at,
                    )
                )
            except OSError as error:
                self.plane.reload_refused(f"the new code cannot be run: {error}")
                log.exception("the new code cannot be run: everything goes on as it is")
                self.supervisor.go_on()
                await self._tell(socket.socket(fileno=admin))

    async def stop(self) -> None:
        """Takes no new connections, lets requests finish within the drain timeout, then ends."""
        self.plane.draining = True
        late = self.plane.loop.call_later(self._settings.drain_timeout_s, self.give_up)
        await self.supervisor.drain()
        late.cancel()
        if self._admin is not None:
            await self._admin.drain()
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._prober.stop()
        await self._poller.stop()

    def give_up(self) -> None:
        """Cuts what is still in flight."""
        self.supervisor.cut()

    # --- inside ---

    async def _check_bundle(self) -> None:
        """Raises LlmgwError `bundle-not-in-force`: new code would read the file, and not have what is in force here."""
        await self._file.look()
        if self.table.bundle is not None and self._file.problem is not None:
            raise LlmgwError(
                "bundle-not-in-force",
                f"what is served by is not in the bundle's file any more: {self._file.problem}",
                fix="publish a bundle by llmgw apply, and reload again",
            )

    def _size(self) -> int:
        return self._settings.workers or self.table.gateway.workers

    def _command(self, ends: Ends, number: int) -> Sequence[str]:
        """A new interpreter, so that a worker runs the code that is installed now."""
        return [
            sys.executable,
            "-m",
            "llmgw.cli.gateway_worker",
            f"--number={number}",
            f"--bundle={self._settings.bundle}",
            f"--listeners={','.join(map(str, ends.listeners))}",
            f"--channel={ends.channel}",
            f"--cells={ends.cells}",
            f"--drain-timeout={self._settings.drain_timeout_s}",
            f"--workers={self.supervisor.size}",
        ]

    def _bind_one(self) -> socket.socket:
        assert self._listen is not None  # noqa: S101 - started
        return bind(self._listen, GATEWAY, shared=True)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self.processes.look(time.monotonic())
            except Exception:  # one bundle's trouble must not leave workers without a word
                log.exception("looking after the workers goes on")

    def _swapped(self) -> None:
        self._prober.sync()
        self._poller.sync()
        self.supervisor.forget(lambda numbers: sharing.known(numbers, self.table))

    def _reload_failed(self) -> None:
        self.plane.counters.reload_failures += 1


def _close(sockets: Sequence[socket.socket]) -> None:
    for one in sockets:
        one.close()

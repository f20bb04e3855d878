# SPDX-License-Identifier: Apache-2.0
"""The side of a process that serves clients: its data plane, and all that keeps one going, from start to end."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.deadlines import keep_deadlines
from llmgw.gateway.processes.certificates import renew, tls_context
from llmgw.gateway.processes.listener import Listener
from llmgw.gateway.processes.open_files import raise_limit
from llmgw.gateway.processes.reload import BundleFile
from llmgw.gateway.records.record_keeping import RecordKeeping
from llmgw.gateway.table import Table
from llmgw.gateway.wire.client import ClientConnection

log = structlog.get_logger()


class DataSide:
    """One process's data plane. `serve`, then `finish`; `retire` may come in between. It lives in one event loop.

    `workers`: processes of this host among which limits are divided.
    """

    def __init__(self, bundle: Path, on_swap: Callable[[], None], drain_timeout_s: float, workers: int = 1) -> None:
        self.table = Table(os.environ.get, workers)
        self.plane = DataPlane(self.table, secrets.randbits(64))
        self.records = RecordKeeping(self.plane)
        self.file = BundleFile(bundle, self.table, self._swapped, self._reload_failed)
        self._on_swap = on_swap
        self._drain_timeout_s = drain_timeout_s
        self._listener: Listener | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._tls: ssl.SSLContext | None = None

    async def serve(self, bound: Sequence[socket.socket]) -> None:
        """Takes clients at these sockets. The bundle has been looked at. Raises LlmgwError for unusable TLS files."""
        self._tls = tls_context(self.table.gateway)
        self.plane.most_requests = raise_limit()
        self._listener = Listener(self.plane, bound, ClientConnection, self._drain_timeout_s, self._tls)
        self.records.start()
        await self._listener.start()
        self._keepers = [asyncio.create_task(self.file.follow()), asyncio.create_task(keep_deadlines(self.plane))]

    def renew_certificate(self) -> None:
        """Lets new connections see the certificate that is in the files now. Raises LlmgwError `tls-unusable`."""
        if self._tls is not None and self.table.gateway.tls_certificate is not None:
            renew(self._tls, self.table.gateway)
            log.info("new connections get the certificate that is in the file now")

    async def retire(self, most_s: float) -> None:
        """Takes no new connections, and ends each that there is with its next answer: a client that is asking just now
        would else be cut. Returns when the last one is gone, or the time is over.
        """
        if self._listener is not None:
            self.plane.retiring = True
            self._listener.refuse_new()
            await self._listener.wait_for_clients_to_leave(most_s)

    async def finish(self) -> None:
        """Takes nothing new, lets requests finish within the drain timeout, then ends."""
        self.plane.draining = True
        if self._listener is not None:
            late = self.plane.loop.call_later(self._drain_timeout_s, self.cut)
            await self._listener.drain()
            late.cancel()
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for endpoint in self.table.everywhere():
            endpoint.pool.close()
        await self.records.close()

    def cut(self) -> None:
        """Cuts what is still in flight."""
        if self.plane.exchanges:
            log.warning("requests are cut off: the drain timeout is over", requests=len(self.plane.exchanges))
        for exchange in tuple(self.plane.exchanges):
            exchange.cut_off()

    def _swapped(self) -> None:
        self.records.follow()
        self._on_swap()

    def _reload_failed(self) -> None:
        self.plane.counters.reload_failures += 1

# SPDX-License-Identifier: Apache-2.0
"""One listener in this process's event loop: uvicorn's Server with our settings, from its first client to its last."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import uvicorn

from llmgw.gateway.processes.server import Server

CLIENT_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that they close first and never race a request against a close."""
BACKLOG = 2048
GRACE_AFTER_DRAIN_S = 5
LOOK_S = 0.05


class Listener:
    """Serves `app` over connections of the class `protocol`. `start`, then `drain`; `retire` may come in between."""

    def __init__(
        self,
        app: Callable[..., Any],
        bound: Sequence[socket.socket],
        protocol: type[asyncio.Protocol],
        drain_timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._bound = list(bound)
        config = uvicorn.Config(
            app,
            http=protocol,
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
            timeout_graceful_shutdown=int(drain_timeout_s) + GRACE_AFTER_DRAIN_S,
            ssl_context_factory=None if tls is None else (lambda _config, _default: tls),
        )
        self._server = Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def clients(self) -> int:
        """How many connections there are."""
        return len(self._server.server_state.connections)

    async def start(self) -> None:
        """Returns when connections are taken."""
        self._task = asyncio.create_task(self._server.serve(sockets=self._bound))
        while not self._server.started:
            await asyncio.wait([self._task], timeout=0.005)
            if self._task.done():
                self._task.result()

    def refuse_new(self) -> None:
        """Takes no new connections; those in the system's queue stay there for whoever else holds the socket."""
        for server in self._server.servers:
            server.close()

    async def wait_for_clients_to_leave(self, most_s: float) -> None:
        """Until there is no connection any more, or the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + most_s
        while self.clients and loop.time() < end:  # noqa: ASYNC110 - uvicorn's set tells nobody
            await asyncio.sleep(LOOK_S)

    async def drain(self) -> None:
        """Takes no new connections, lets idle ones go, and returns when the last answer is sent."""
        if self._task is not None:
            self._server.should_exit = True
            await self._task

# SPDX-License-Identifier: Apache-2.0
"""The one place that knows uvicorn's inside: its HTTP protocol with gaps closed, and the way to a client's connection.

Written against uvicorn 0.54; tests/gateway holds it to what is said here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from llmgw.gateway.asgi import Send
from llmgw.gateway.refusal import UNREADABLE

MOST_SENT_AHEAD = 64
"""Requests that one connection may send before the first is answered."""


class ClientProtocol(HttpToolsProtocol):
    """A client's connection.

    uvicorn tells a lost connection to the request that came last. With requests sent ahead, another one runs: it is
    told here. And a request that is no HTTP gets an answer in OpenAI's error shape.
    """

    _running: RequestResponseCycle | None = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the running request that its client has left."""
        super().connection_lost(exc)
        self._let_go()

    def on_headers_complete(self) -> None:
        """Begins the request, or queues it, up to a bound."""
        super().on_headers_complete()
        if len(self.pipeline) > MOST_SENT_AHEAD:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP request, unless another answer has begun, and closes."""
        del msg
        running = self._let_go()
        if running is None or not running.response_started:
            body = UNREADABLE.body()
            lines = b"".join(b"%b: %b\r\n" % header for header in UNREADABLE.headers(body))
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + lines + b"\r\n" + body)
        self.transport.close()

    def _let_go(self) -> RequestResponseCycle | None:
        """Tells the running request, if there is one, that nobody waits for its answer."""
        running, self._running = self._running, None
        if running is None or running.response_complete:
            return None
        running.disconnected = True
        running.message_event.set()
        return running


class Server(uvicorn.Server):
    """Leaves signals to the process: it has two servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


def client_transport(send: Send) -> asyncio.Transport:
    """The client's connection behind uvicorn's `send`, by which an answer is cut off."""
    transport: asyncio.Transport = send.__self__.transport  # type: ignore[attr-defined]
    return transport

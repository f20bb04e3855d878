# SPDX-License-Identifier: Apache-2.0
"""The one place that knows uvicorn's inside: its server, and its HTTP protocol with gaps closed for the admin listener.

Written against uvicorn 0.54; tests/gateway holds it to what is said here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from llmgw.gateway.wire.answer import refused
from llmgw.gateway.wire.client import HEAD_DEADLINE_S, MOST_HEAD_BYTES, MOST_SENT_AHEAD
from llmgw.gateway.wire.refusal import HEAD_TOO_LARGE, UNREADABLE, Refusal


class ClientProtocol(HttpToolsProtocol):
    """A client's connection.

    uvicorn tells a lost connection to the request that came last. With requests sent ahead, another one runs: it is
    told here. It also holds heads of any size and waits for them for ever: here they have a limit and a deadline. And a
    request that is no HTTP gets an answer in OpenAI's error shape.
    """

    _running: RequestResponseCycle | None = None
    _in_head = False
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Parses, and holds a head that is not whole yet to its limits."""
        began_before = self._in_head
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        self._await_head()
        if began_before:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self._refuse(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the running request that its client has left."""
        super().connection_lost(exc)
        self._head_came()
        self._let_go()

    def on_headers_complete(self) -> None:
        """Begins the request, or queues it, up to a bound."""
        self._head_came()
        super().on_headers_complete()
        if len(self.pipeline) > MOST_SENT_AHEAD:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP request, unless another answer has begun, and closes."""
        del msg
        self._refuse(UNREADABLE)

    def _refuse(self, why: Refusal) -> None:
        running = self._let_go()
        if running is None or not running.response_started:
            self.transport.write(refused(why).bytes(close=True))
        self.transport.close()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_DEADLINE_S, self._head_is_late)

    def _head_came(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        """Lets a client go that sends no request, unless it is still being answered an earlier one."""
        self._head_timer = None
        if self._running is not None and not self._running.response_complete:
            self._await_head()
        else:
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

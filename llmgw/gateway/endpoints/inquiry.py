# SPDX-License-Identifier: Apache-2.0
"""One question at a time to an engine, over a kept connection that is not one of those for requests.

So that a question neither waits for a request nor takes its connection, and an engine that dies is noticed as the
connection closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from llmgw.gateway.wire.upstream import Connection

if TYPE_CHECKING:
    from llmgw.gateway.table import LiveEndpoint
    from llmgw.gateway.wire.raw import RawHeaders

MOST_BYTES = 1024 * 1024
"""An answer larger than this is none."""
SHORTEST_PAUSE_S = 0.2


class UnreachableError(OSError):
    """The host did not answer in time."""


class Inquiry:
    """The asking side of one endpoint. `on_gone` is called when the engine has closed the kept connection."""

    def __init__(self, endpoint: LiveEndpoint, on_gone: Callable[[], None] | None = None) -> None:
        self._endpoint = endpoint
        self._on_gone = on_gone
        self._connection: Connection | None = None
        self._answered_at = 0.0

    @property
    def connected(self) -> bool:
        """Whether the engine that answered last is still at the other end."""
        return self._connection is not None and self._connection.usable

    async def get(
        self, path: str, accept: bytes, connect_timeout_s: float, answer_timeout_s: float
    ) -> tuple[int, bytes]:
        """Status and body. Raises UnreachableError when there is no connection in time, TimeoutError when connected but
        unanswered, OSError otherwise.
        """
        kept, self._connection = self._connection, None
        if kept is not None and kept.usable:
            try:
                return await self._answer(kept, path, accept, answer_timeout_s)
            except TimeoutError:
                raise
            except OSError:
                pass  # closed by the engine between two questions: says nothing yet
        return await self._answer(await self._connect(connect_timeout_s), path, accept, answer_timeout_s)

    async def _connect(self, timeout_s: float) -> Connection:
        loop = asyncio.get_running_loop()
        spec = self._endpoint.spec
        try:
            async with asyncio.timeout(timeout_s):
                _transport, connection = await loop.create_connection(lambda: Connection(self), spec.address, spec.port)
        except TimeoutError as error:
            raise UnreachableError(f"no connection within {timeout_s:g} s") from error
        return connection

    async def _answer(self, connection: Connection, path: str, accept: bytes, timeout_s: float) -> tuple[int, bytes]:
        call = _Call()
        head = b"GET %b%baccept: %b\r\n\r\n" % (path.encode(), self._endpoint.after_line, accept)
        connection.start(call, head, b"")
        try:
            async with asyncio.timeout(timeout_s):
                return await call.answer
        except BaseException:
            connection.abort()
            raise

    def on_idle(self, connection: Connection) -> None:
        """Keeps the connection for the next question."""
        self._connection = connection
        self._answered_at = asyncio.get_running_loop().time()

    def on_idle_lost(self, connection: Connection) -> None:
        """The engine closed it, so it may have died: tell soon; but not at once, as some close after every answer."""
        if connection is self._connection:
            self._connection = None
            if self._on_gone is not None:
                loop = asyncio.get_running_loop()
                loop.call_at(max(loop.time(), self._answered_at + SHORTEST_PAUSE_S), self._on_gone)

    def close(self) -> None:
        """Closes the kept connection."""
        if self._connection is not None:
            self._connection.close()


class _Call:
    """Receives one answer whole."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._body = bytearray()

    def on_head(self, status: int, _headers: RawHeaders) -> None:
        """Keeps the status."""
        self._status = status

    def on_body(self, data: bytes, complete: bool) -> bool:
        """Collects the body, up to a bound."""
        if not self.answer.done():
            self._body += data
            if len(self._body) > MOST_BYTES:
                self.answer.set_exception(ConnectionError(f"the answer is larger than {MOST_BYTES} bytes"))
            elif complete:
                self.answer.set_result((self._status, bytes(self._body)))
        return False

    def on_chunk(self, data: bytes, start: int) -> bool:
        """Collects a chunk."""
        return self.on_body(data[start:-2], complete=False)

    def on_lost(self, reason: str, answered: bool, reused: bool) -> None:  # noqa: ARG002 - the receiver's interface
        """The question has no answer."""
        if not self.answer.done():
            self.answer.set_exception(ConnectionError(reason.replace("_", " ")))

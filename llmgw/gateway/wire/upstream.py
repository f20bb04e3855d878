# SPDX-License-Identifier: Apache-2.0
"""The leg to an engine: one HTTP/1.1 connection as an asyncio.Protocol, and the pool of idle ones of an endpoint.

No task, no request object: the receiver of an answer is called as its bytes come.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import httptools
import structlog

from llmgw.gateway.wire.raw import RawHeaders

IDLE_LIMIT_S = 4.0
"""Engines close idle connections after 5 s (uvicorn, llama.cpp): the gateway closes first, to meet few closed ones."""
JOIN_LIMIT = 64 * 1024
"""Bodies up to here travel in one write with their head; larger ones are not copied for that."""
FIRST_FINAL_STATUS = 200
LAST_STATUS = 599
MOST_FRAMING = 128 * 1024
"""Bytes of an answer that are not its body: heads, interim ones too, chunk sizes, extensions and trailers; beside some
for each byte of the body.
"""
FRAMING_PER_BYTE = 16
MOST_SIZE_DIGITS = 3
SIZES = {b"%x" % size: size for size in range(1, 1 << 4 * MOST_SIZE_DIGITS)}
"""Sizes of chunks below 4 KiB as engines write them. Whatever is written otherwise is the parser's matter."""
FRAMING = frozenset({b"content-length", b"transfer-encoding"})

log = structlog.get_logger()


class Receiver(Protocol):
    """Who gets an engine's answer."""

    def on_head(self, status: int, headers: RawHeaders) -> None:
        """Status and headers; names in lower case."""

    def on_body(self, data: bytes, complete: bool) -> bool:
        """More of the body, and whether it is the end. Returns whether to stop reading until `resume`."""

    def on_chunk(self, data: bytes, start: int) -> bool:
        """One whole chunk of the body in its framing, `data[start:-2]` without it. Returns as `on_body` does."""

    def on_lost(self, reason: str, answered: bool, reused: bool) -> None:
        """The connection broke before the end. `answered`: some of an answer had come; `reused`: it was a kept one."""


class Owner(Protocol):
    """Who keeps a connection while nobody uses it."""

    def on_idle(self, connection: Connection) -> None:
        """An answer is complete and the connection may carry another request."""

    def on_idle_lost(self, connection: Connection) -> None:
        """An idle connection is gone."""


class Connection(asyncio.Protocol):
    """One connection to an engine; carries one request at a time."""

    __slots__ = (
        "_between",
        "_chunk_over",
        "_complete",
        "_extra",
        "_framing",
        "_head",
        "_headers",
        "_informational",
        "_keep",
        "_odd",
        "_owner",
        "_parser",
        "_pieces",
        "_receiver",
        "_reused",
        "_seen",
        "_status",
        "_transport",
        "idle_since",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._receiver: Receiver | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._reused = False
        self._pieces: list[bytes] = []
        self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._seen = self._head = self._complete = self._between = self._chunk_over = False
        self._keep = self._extra = self._informational = self._odd = False
        self._status = self._framing = 0
        self._headers: RawHeaders = []

    @property
    def usable(self) -> bool:
        """Whether it is open as far as this side knows."""
        return not self._transport.is_closing()

    # --- what its user calls ---

    def start(self, receiver: Receiver, head: bytes, body: bytes) -> None:
        """Sends a request, whose answer goes to `receiver`. `head` ends with the empty line."""
        self._reset()
        self._receiver = receiver
        if len(body) > JOIN_LIMIT:
            self._transport.writelines((head, body))
        else:
            self._transport.write(head + body)

    def resume(self) -> None:
        """Goes on reading after `on_body` returned True."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Drops the connection at once; the receiver hears no more. An engine sees its client leave."""
        self._receiver = None
        self._transport.abort()

    def close(self) -> None:
        """Closes an idle connection."""
        self._transport.close()

    # --- what the transport calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parses, and hands on what one read brought in at most two calls: head, body."""
        receiver = self._receiver
        if receiver is None:
            self._transport.abort()  # an engine that was asked nothing has nothing to say
            return
        if self._between and self._relay(receiver, data):
            return
        self._seen = True
        self._framing += len(data)
        had_head = self._head
        fault = self._feed(data)
        if fault is not None:
            self._break(fault)
            return
        if self._framing > MOST_FRAMING and not self._complete:
            self._break("bad_response")
            return
        if self._head and not had_head:
            if not FIRST_FINAL_STATUS <= self._status <= LAST_STATUS:
                self._break("bad_response")
                return
            receiver.on_head(self._status, self._headers)
        if self._receiver is not receiver:
            return
        self._between = self._chunk_over and data.endswith(b"\r\n")
        if self._complete:
            self._finish(receiver)
        elif (
            (self._pieces or not had_head)
            and self._head
            and receiver.on_body(self._taken(), complete=False)
            and self._receiver is receiver
        ):
            self._transport.pause_reading()

    def _feed(self, data: bytes) -> str | None:
        """Parses; returns what is wrong."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            log.exception("an answer could not be read in the gateway")
            return "gateway_bug"
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return "bad_response"
        return "bad_response" if self._odd else None

    def _relay(self, receiver: Receiver, data: bytes) -> bool:
        """Passes on a read that is one whole chunk, as nearly all of a stream are. Returns whether it was one: the
        parser knows nothing of it then, and stands between two chunks as before.
        """
        start = data.find(b"\r\n", 1, MOST_SIZE_DIGITS + 2) + 2
        size = SIZES.get(data[: start - 2]) if start > 2 else None  # noqa: PLR2004 - found
        if not size or len(data) != start + size + 2 or not data.endswith(b"\r\n"):
            return False
        if receiver.on_chunk(data, start) and self._receiver is receiver:
            self._transport.pause_reading()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the receiver; the end of a body without declared length is a good end."""
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            self._owner.on_idle_lost(self)
        elif self._head and exc is None and not any(name in FRAMING for name, _value in self._headers):
            receiver.on_body(b"", complete=True)
        else:
            receiver.on_lost("connection_lost", answered=self._seen, reused=self._reused)

    def _finish(self, receiver: Receiver) -> None:
        self._receiver = None
        body = self._taken()
        clean = self._keep and not self._extra and not self._transport.get_write_buffer_size()
        if clean and not self._transport.is_closing():
            self._reused = True
            self._owner.on_idle(self)
        else:
            self._transport.close()
        receiver.on_body(body, complete=True)

    def _break(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        self._transport.abort()
        if receiver is not None:
            receiver.on_lost(reason, answered=True, reused=self._reused)

    def _taken(self) -> bytes:
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces.pop()
        body = b"".join(pieces)
        pieces.clear()
        return body

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        """A second answer to one request is a fault of the engine."""
        if self._complete:
            self._extra = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header; trailers are dropped."""
        if not self._head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The status; a 1xx and its headers are no answer yet."""
        if self._complete:
            return
        status = self._parser.get_status_code()
        if status < FIRST_FINAL_STATUS:
            self._informational = True
            self._headers = []
            return
        self._status = status
        self._head = True

    def on_body(self, data: bytes) -> None:
        """Collects what one read brings. A 1xx has no body, though the parser reads one where some are said to."""
        if self._informational:
            self._odd = True
        elif not self._complete:
            self._framing = max(0, self._framing - len(data) * (1 + FRAMING_PER_BYTE))
            self._pieces.append(data)

    def on_chunk_header(self) -> None:
        """A chunk begins."""
        self._chunk_over = False
        self._odd = self._odd or self._informational

    def on_chunk_complete(self) -> None:
        """A chunk is over. If its line end is the last thing that was read, the next read begins with a chunk's size:
        a size whose line end has come would have begun a chunk.
        """
        self._chunk_over = True

    def on_message_complete(self) -> None:
        """The end of an answer, or of a 1xx before it."""
        if self._informational:
            self._informational = False
        else:
            self._complete = True
            self._keep = self._parser.should_keep_alive()


class Pool:
    """Idle connections to one endpoint; the one used last is taken first, so that the others age and are closed."""

    __slots__ = ("_closed", "_idle", "host", "port")

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._idle: list[Connection] = []
        self._closed = False

    def take(self) -> Connection | None:
        """A kept connection that looks open, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def connect(self, timeout_s: float) -> Connection:
        """A new connection. Raises OSError or TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_s):
            _transport, connection = await loop.create_connection(lambda: Connection(self), self.host, self.port)
        return connection

    def on_idle(self, connection: Connection) -> None:
        """Keeps it for the next request."""
        if self._closed:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def on_idle_lost(self, connection: Connection) -> None:
        """Forgets it."""
        if connection in self._idle:
            self._idle.remove(connection)

    def expire(self, before: float) -> None:
        """Closes connections idle since before that loop time."""
        while self._idle and self._idle[0].idle_since < before:
            self._idle.pop(0).close()

    def close(self) -> None:
        """Closes idle connections now and busy ones as they become idle."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def __len__(self) -> int:
        return len(self._idle)

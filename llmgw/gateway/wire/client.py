# SPDX-License-Identifier: Apache-2.0
"""The leg to a client: one HTTP/1.1 connection as an asyncio.Protocol that uvicorn's Server serves (G1, G8, G12).

It parses requests, keeps their order, holds heads to their limits, and writes answers straight to the transport: no
task and no message objects stand between an engine's bytes and a client's socket. What a request means is the plane's
matter.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Final

import httptools
import structlog

from llmgw.gateway.wire import refusal as refusals
from llmgw.gateway.wire.answer import Answer, refused
from llmgw.gateway.wire.headers import read_request
from llmgw.gateway.wire.refusal import HEAD_TOO_LARGE, UNREADABLE, Refusal

if TYPE_CHECKING:
    from llmgw.gateway.dataplane import DataPlane
    from llmgw.gateway.exchange import Exchange

MOST_SENT_AHEAD = 64
"""Requests that one connection may send before the first is answered."""
MOST_HEAD_BYTES = 64 * 1024
"""Bytes of a request's head: its target and its headers."""
HEAD_DEADLINE_S = 30.0
"""Seconds that a client may take for a request's head, and for its first one to begin."""
KEEP_ALIVE_S = 75.0
"""Longer than clients keep idle connections, so that they close first and never race a request against a close."""
LEAVE_S = 10.0
"""Seconds that the last bytes may take to leave before a connection is cut."""
UNREAD_S = 30.0
"""Seconds that the rest of a body may take whose request is answered already."""
MOST_UNREAD = 64 * 1024 * 1024
"""Bytes of such a rest."""
MOST_FRAMING = 64 * 1024
"""Bytes of chunk sizes, extensions and trailers that a body may have, beside some for each byte of it."""
FRAMING_PER_BYTE = 16

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

log = structlog.get_logger()


class ClientConnection(asyncio.Protocol):
    """A client's connection. `deadline`: loop time at which `expire` is due while no request of it runs.

    `blocked`: the client takes what it is sent too slowly; whoever writes stops until `Exchange.on_free`.
    """

    __slots__ = (
        "_ahead",
        "_body_of",
        "_closing",
        "_connections",
        "_current",
        "_framing",
        "_head_begins",
        "_head_bytes",
        "_headers",
        "_held",
        "_in_body",
        "_in_head",
        "_large",
        "_lost",
        "_parser",
        "_target",
        "_unread",
        "blocked",
        "deadline",
        "loop",
        "plane",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: Any = None,  # noqa: ARG002 - uvicorn's way to make a protocol
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.plane: DataPlane = config.loaded_app
        self.loop = self.plane.loop
        self._connections: set[Any] = server_state.connections
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # it is not looked at: the answer closes
        self._ahead: deque[Exchange | Answer] = deque()
        self._current: Exchange | Answer | None = None
        self._body_of: Exchange | None = None
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._framing = self._unread = 0
        self._held = self._head_begins = self._in_head = self._in_body = self._closing = self._lost = self._large = (
            False
        )
        self.blocked = False
        self.deadline = inf

    # --- what the transport calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Waits for the first request."""
        self.transport = transport  # type: ignore[assignment]
        self._connections.add(self)
        self.plane.clients.add(self)
        self.deadline = self.loop.time() + HEAD_DEADLINE_S

    def data_received(self, data: bytes) -> None:
        """Parses, and holds a head that is not whole yet to its limits."""
        if self._closing and self._current is None:
            return
        in_head_before = self._in_head
        if self._in_body:
            self._framing += len(data)
        self._head_begins = False
        self._large = in_head_before or len(data) > MOST_HEAD_BYTES
        why = self._feed(data)
        if why is not None:
            self._refuse(why)
        elif self._in_body:
            if self._framing > MOST_FRAMING:
                self._refuse(refusals.BAD_CHUNKS)
        elif self._in_head:
            if in_head_before and not self._head_begins:
                self._head_bytes += len(data)
                if self._head_bytes > MOST_HEAD_BYTES:
                    self._refuse(HEAD_TOO_LARGE)
            elif self._current is None:
                self.deadline = self.loop.time() + HEAD_DEADLINE_S

    def _feed(self, data: bytes) -> Refusal | None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._closing = True  # the upgrade is not taken: nothing that follows is a request
        except (
            httptools.HttpParserCallbackError
        ):  # a bug must cost this connection alone, and is in the log with its place
            log.exception("a request failed in the gateway")
            return refusals.BUG
        except httptools.HttpParserError:
            return UNREADABLE
        return None

    def pause_writing(self) -> None:
        """The client is slow."""
        self.blocked = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.blocked = False
        if self._held:
            self._held = False
            self.transport.resume_reading()
            self._go_on()
        elif self._current is not None and not isinstance(self._current, Answer):
            self._current.on_free()

    def connection_lost(self, exc: Exception | None) -> None:
        """Everything that was asked over this connection ends."""
        del exc
        self._lost = True
        self._connections.discard(self)
        self.plane.clients.discard(self)
        running, self._current, self._body_of = self._current, None, None
        for one in (running, *self._ahead):
            if one is not None and not isinstance(one, Answer):
                one.client_left()
        self._ahead.clear()

    def shutdown(self) -> None:
        """The server ends: what runs is answered, nothing more is taken. uvicorn calls this."""
        self._closing = True
        if self._current is None:
            self.deadline = self.loop.time() + LEAVE_S
            self.transport.close()

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = self._head_begins = True
        self._head_bytes = 0
        self._target = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        """Some of the request's target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; trailers are dropped."""
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """A request: begun, or kept until those before it are answered."""
        self._in_head = False
        self._in_body = True
        self._framing = self._unread = 0
        if self._closing:
            self._body_of = None
            return
        self.deadline = inf
        parser = self._parser
        head = read_request(self._headers)
        head.method = parser.get_method()
        head.target = self._target
        head.old_http = parser.get_http_version() != "1.1"
        head.keep = parser.should_keep_alive() and not head.old_http and not parser.should_upgrade()
        if not head.keep or self.plane.retiring:
            self._closing = True
        if self._large and _size(self._target, self._headers) > MOST_HEAD_BYTES:
            head.refusal = HEAD_TOO_LARGE
        turn = self.plane.take(self, head)
        self._body_of = None if isinstance(turn, Answer) else turn
        if isinstance(turn, Answer) and (turn.close or head.expects_continue):
            self._closing = True
        if self._current is None and not self._held:
            self._current = turn
            self._begin(turn)
            return
        self._ahead.append(turn)
        if len(self._ahead) > MOST_SENT_AHEAD:  # reading goes on below that, or nobody would see the client leave
            self.transport.abort()

    def on_body(self, data: bytes) -> None:
        """Some of a request's body; of one that is answered already it goes nowhere."""
        self._framing = max(0, self._framing - len(data) * (1 + FRAMING_PER_BYTE))
        if self._body_of is not None:
            self._body_of.on_piece(data)
            return
        self._unread += len(data)
        if self._unread > MOST_UNREAD:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """The end of a request."""
        self._in_body = False
        body_of, self._body_of = self._body_of, None
        if body_of is not None:
            body_of.on_whole()
        elif self._current is None and not self._closing and not self._lost:
            self.deadline = self.loop.time() + KEEP_ALIVE_S

    # --- what an exchange calls ---

    def ask_for_body(self) -> None:
        """Lets a client send the body that it waits with."""
        self.transport.write(CONTINUE)

    @property
    def closing(self) -> bool:
        """Whether the connection ends with the answer that is written next."""
        return (self._closing or self.plane.retiring) and not self._ahead

    def finished(self, exchange: Exchange | Answer, *, close: bool = False) -> None:
        """The running request is answered: on with the next one, or to waiting for it."""
        if exchange is not self._current:
            return
        self._current = None
        unread = self._body_of is exchange
        if unread:
            self._body_of = None
        if self._lost:
            return
        if close or (self._closing and not self._ahead):
            self._leave()
            return
        self.deadline = self.loop.time() + (UNREAD_S if unread else KEEP_ALIVE_S)
        if self.blocked:  # a client that reads no answers is not read from
            self._held = True
            self.transport.pause_reading()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """On with the next request, if one has come."""
        if self._ahead:
            following = self._ahead.popleft()
            self._current = following
            self.deadline = inf
            self.loop.call_soon(self._begin_next, following)

    def expire(self) -> None:
        """Its deadline has passed: no request came, or none that is whole; or the client does not take its answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # --- inside ---

    def _begin_next(self, turn: Exchange | Answer) -> None:
        if turn is not self._current:
            return
        try:
            self._begin(turn)
        except Exception:  # see data_received
            log.exception("a request failed in the gateway")
            self._refuse(refusals.BUG)

    def _begin(self, turn: Exchange | Answer) -> None:
        if isinstance(turn, Answer):
            self.transport.write(turn.bytes(close=self.closing))
            self.finished(turn, close=turn.close)
        else:
            turn.begin()

    def _refuse(self, why: Refusal) -> None:
        """Answers what is no request, unless another answer has begun, and closes."""
        running, self._current, self._body_of = self._current, None, None
        begun = False
        if running is not None and not isinstance(running, Answer):
            begun = running.status is not None
            running.client_left()
        if not begun:
            self.transport.write(refused(why).bytes(close=True))
        self._leave()

    def _leave(self) -> None:
        """Closes as soon as what is written has left. What was sent ahead is not answered."""
        self._closing = True
        for one in self._ahead:
            if not isinstance(one, Answer):
                one.client_left()
        self._ahead.clear()
        self.deadline = self.loop.time() + LEAVE_S
        self.transport.close()


def _size(target: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    """Bytes of a head, but for what separates its parts."""
    return len(target) + sum(len(name) + len(value) for name, value in headers)

# SPDX-License-Identifier: Apache-2.0
"""One model request from its first byte to the last of its answer: read, admit, attempt, relay, account (G1, G5, G6).

It makes no task of its own, but for a new connection: everything happens in callbacks of the client's connection, of
the engine's, and of the sweep that keeps deadlines. Whatever ends the request, `_close` runs once and gives back all
that was taken.
"""

from __future__ import annotations

import asyncio
import errno
from math import inf
from typing import TYPE_CHECKING

import structlog

from llmgw.gateway import answer, body
from llmgw.gateway import refusal as refusals
from llmgw.gateway.admission import busy
from llmgw.gateway.asgi import RawHeaders
from llmgw.gateway.body import Asked
from llmgw.gateway.choose import choose
from llmgw.gateway.counters import count
from llmgw.gateway.headers import response_headers
from llmgw.gateway.refusal import Refusal

if TYPE_CHECKING:
    from llmgw.gateway.auth import LiveKey
    from llmgw.gateway.client import ClientConnection
    from llmgw.gateway.dataplane import DataPlane
    from llmgw.gateway.headers import RequestHead
    from llmgw.gateway.paths import Kind
    from llmgw.gateway.table import LiveEndpoint, LiveRoute
    from llmgw.gateway.upstream import Connection

BODY_PAUSE_S = 30.0
"""How long a client may pause within its body."""
FLUSH_S = 10.0
"""How long a cut answer's last bytes may take to leave."""
MOST_ATTEMPTS = 3
TRIED_ELSEWHERE = frozenset({429, 502, 503, 504})
"""Answers that say that this engine cannot now: another one is asked before the client hears of it."""
NO_BODY = frozenset({204, 304})
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL})
"""Connect errors that are this host's own, and say nothing about the engine."""
CLIENT_LEFT = 499
"""Status that the metrics give to a request whose client left before there was one (nginx's)."""
LAST_CHUNK = b"0\r\n\r\n"

log = structlog.get_logger()


class Exchange:
    """One request; also the receiver of its engine's answer. `deadline`: loop time at which `expire` is due."""

    __slots__ = (
        "_asked",
        "_chunked",
        "_client",
        "_closed",
        "_connecting",
        "_endpoint",
        "_first_byte_at",
        "_head",
        "_held",
        "_key",
        "_kind",
        "_line",
        "_loop",
        "_pieces",
        "_plane",
        "_refused",
        "_route",
        "_stale",
        "_started",
        "_started_at",
        "_status",
        "_stream",
        "_top",
        "_tried",
        "_upstream",
        "_was_cut",
        "_whole",
        "deadline",
    )

    def __init__(
        self,
        plane: DataPlane,
        client: ClientConnection,
        head: RequestHead,
        *,
        kind: Kind,
        line: bytes,
        key: LiveKey | None,
    ) -> None:
        self._plane = plane
        self._client = client
        self._head = head
        self._kind = kind
        self._line = line
        self._key = key
        self._loop = plane.loop
        self._pieces: list[bytes] = []
        self._asked: Asked | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._endpoint: LiveEndpoint | None = None
        self._route: LiveRoute | None = None
        self._upstream: Connection | None = None
        self._refused: Refusal | None = None
        self._tried: tuple[LiveEndpoint, ...] = ()
        self._stream = self._stale = self._whole = self._started = False
        self._closed = self._chunked = self._was_cut = False
        self._held = 0
        self._status: int | None = None
        self._top: bytes | None = None
        self._first_byte_at: float | None = None
        self._started_at = self._loop.time()
        self.deadline = self._started_at + BODY_PAUSE_S
        plane.exchanges.add(self)

    @property
    def answering(self) -> bool:
        """Whether some of an answer has gone to the client."""
        return self._status is not None and self._top is None

    # --- the request (called by the client's connection) ---

    def on_piece(self, data: bytes) -> None:
        """Some of the body. What was refused is not kept."""
        if self._refused is not None or self._closed:
            return
        limit = self._plane.table.gateway.max_body_bytes
        if self._held + len(data) > limit:
            self._refuse(refusals.too_large(limit))
        elif not self._plane.bodies.take(len(data)):
            self._refuse(refusals.BODIES_BUSY)
        else:
            self._held += len(data)
            self._pieces.append(data)
            if self.deadline is not inf:
                self.deadline = self._loop.time() + BODY_PAUSE_S

    def on_whole(self) -> None:
        """The body has come to its end."""
        self._whole = True
        if self._started and not self._closed:
            self._open()

    def begin(self) -> None:
        """All requests before it are answered: its turn has come."""
        self._started = True
        if self._refused is not None:
            self._fail(self._refused)
        elif self._whole:
            self._open()
        else:
            self.deadline = self._loop.time() + BODY_PAUSE_S
            if self._head.expects_continue:
                self._client.ask_for_body()

    def client_left(self) -> None:
        """Nobody waits for the answer any more: the engine is told at once (G6)."""
        if not self._closed:
            self._close(left=not self._was_cut)

    def on_free(self) -> None:
        """The slow client has caught up."""
        self.deadline = self._loop.time() + self._plane.table.gateway.idle_timeout_s
        if self._upstream is not None:
            self._upstream.resume()

    def _refuse(self, refused: Refusal) -> None:
        self._refused = refused
        self._pieces.clear()
        self._release_body()
        if self._started:
            self._fail(refused)

    def _open(self) -> None:
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        asked = body.read_body(data)
        if isinstance(asked, Refusal):
            self._fail(asked)
            return
        route = self._admit(asked)
        if isinstance(route, Refusal):
            self._fail(route)
        else:
            self._attempt(route, route.ready)

    def _admit(self, asked: Asked) -> LiveRoute | Refusal:
        """The service that the request enters, in flight from here on; or why it may not."""
        plane = self._plane
        if plane.table.bundle is None:
            return refusals.NO_BUNDLE
        route = plane.table.names.get(asked.model)
        if route is None or (self._key is not None and not self._key.may_use(route.spec.service)):
            return refusals.unknown_model(asked.model)
        if not route.ready:
            count(route.counters.requests, refusals.SERVICE_UNAVAILABLE)
            return refusals.not_ready(asked.model, route.states())
        refused = busy(route, self._key)
        if refused is not None:
            count(route.counters.requests, refused.status)
            return refused
        route.in_flight += 1
        if self._key is not None:
            self._key.in_flight += 1
        self._route = route
        self._asked = asked
        self._stream = asked.stream
        plane.retries.earn()
        return route

    # --- attempts ---

    def _attempt(self, route: LiveRoute, ready: tuple[LiveEndpoint, ...]) -> None:
        """Gives the request to one of `ready`, of which there is at least one."""
        route.turn += 1
        endpoint = choose(route.spec.policy, ready, route.turn, self._plane.seed + route.turn)
        endpoint.in_flight += 1
        self._endpoint = endpoint
        self._dispatch(endpoint, endpoint.pool.take())

    def _dispatch(self, endpoint: LiveEndpoint, connection: Connection | None) -> None:
        """Sends the request over `connection`, or over a new one."""
        if connection is None:
            self.deadline = inf
            self._connecting = self._loop.create_task(self._connect(endpoint))
        else:
            self._start(endpoint, connection)

    async def _connect(self, endpoint: LiveEndpoint) -> None:
        try:
            connection = await endpoint.pool.connect(self._plane.table.gateway.connect_timeout_s)
        except OSError as error:
            self._connecting = None
            if error.errno in OUT_OF_RESOURCES:
                log.error("no connection to an engine can be opened", error=str(error))  # noqa: TRY400 - place is known
                self._drop_upstream("gateway_resources")
                self._fail(refusals.OUT_OF_RESOURCES)
            else:
                self._attempt_failed("connect_timeout" if isinstance(error, TimeoutError) else "connect_failed")
        except Exception:  # a bug must cost this request alone, and is in the log with its place
            log.exception("a request failed in the gateway", request=self._kind.line.decode())
            self._connecting = None
            self._drop_upstream(None)
            self._fail(refusals.BUG)
        else:
            self._connecting = None
            self._start(endpoint, connection)

    def _start(self, endpoint: LiveEndpoint, connection: Connection) -> None:
        asked = self._asked
        assert asked is not None  # noqa: S101 - kept until an answer begins
        data = asked.data if endpoint.spec.model == asked.model else asked.with_model(endpoint.spec.model)
        head = b"%b%b%bcontent-length: %d\r\n\r\n" % (self._line, endpoint.after_line, self._head.forward, len(data))
        self._upstream = connection
        self.deadline = self._loop.time() + self._plane.table.gateway.first_byte_timeout_s
        connection.start(self, head, data)

    def _others(self) -> tuple[LiveEndpoint, ...]:
        """Where the request may go next: nothing that it has tried, and other nodes before those that failed it."""
        route = self._route
        assert route is not None  # noqa: S101 - admitted
        if len(self._tried) >= MOST_ATTEMPTS:
            return ()
        others = tuple(other for other in route.ready if other not in self._tried)
        nodes = {one.spec.node for one in self._tried}
        return tuple(other for other in others if other.spec.node not in nodes) or others

    def _attempt_failed(self, reason: str) -> None:
        """No byte of an answer came: another endpoint may be tried, within the budget."""
        route = self._route
        assert route is not None  # noqa: S101 - admitted
        self._tried = (*self._tried, self._endpoint_failed(reason))
        others = self._others()
        if others and self._plane.retries.spend():
            route.counters.retries += 1
            self._attempt(route, others)
        else:
            self._fail(refusals.upstream_failed(reason, len(self._tried)))

    def _endpoint_failed(self, reason: str) -> LiveEndpoint:
        """Ends the attempt with a mark against its endpoint."""
        endpoint = self._endpoint
        assert endpoint is not None  # noqa: S101 - an attempt runs
        count(endpoint.route.counters.failures, reason)
        endpoint.bad += 1
        self._release_endpoint()
        self._plane.endpoint_failed(endpoint, reason)
        return endpoint

    def _elsewhere(self, status: int) -> bool:
        """Whether another engine is asked because this one says that it cannot now."""
        endpoint, route = self._endpoint, self._route
        if endpoint is None or route is None:
            return False
        before, self._tried = self._tried, (*self._tried, endpoint)
        others = self._others()
        if not others or not self._plane.retries.spend():
            self._tried = before
            return False
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        endpoint.answered(status)
        count(route.counters.failures, f"status_{status}")
        self._release_endpoint()
        route.counters.retries += 1
        self._attempt(route, others)
        return True

    # --- the answer (called by the engine's connection) ---

    def on_head(self, status: int, headers: RawHeaders) -> None:
        """The answer begins: from here on it is this engine's or none. It leaves with what comes of its body."""
        if status in TRIED_ELSEWHERE and self._elsewhere(status):
            return
        self._status = status
        self._asked = None
        self._release_body()
        kept = response_headers(headers)
        self._chunked = status not in NO_BODY and not any(name == b"content-length" for name, _value in kept)
        after = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        if self._client.closing:
            after += answer.CLOSE
        self._top = answer.head(status, kept, after)

    def on_body(self, data: bytes, complete: bool) -> bool:
        """Passes bytes on as they come. Returns whether the client is too slow to take more."""
        now = self._loop.time()
        endpoint = self._endpoint
        if endpoint is not None:
            endpoint.last_byte = now
            if complete:
                endpoint.answered(self._status)
        if self._chunked:
            if data:
                data = b"%x\r\n%b\r\n" % (len(data), data)
            if complete:
                data += LAST_CHUNK
        if self._first_byte_at is None and data:
            self._first_byte_at = now
        if self._top is not None:
            data, self._top = self._top + data, None
        if data:
            self._client.transport.write(data)
        if complete:
            self._upstream = None
            self._end()
            return False
        self.deadline = now + self._plane.table.gateway.idle_timeout_s
        return self._client.blocked

    def on_lost(self, reason: str, answered: bool, reused: bool) -> None:
        """The engine's connection broke."""
        self._upstream = None
        endpoint = self._endpoint
        if self._status is not None:
            self._endpoint_failed("cut")
            self._cut()
        elif answered:
            self._endpoint_failed(reason)
            self._fail(refusals.upstream_failed(reason, len(self._tried) + 1))
        elif reused and not self._stale and endpoint is not None:
            # The engine closed a kept connection just as it was used: it never read the request.
            self._stale = True
            self._plane.counters.stale_connections += 1
            self._dispatch(endpoint, None)
        else:
            self._attempt_failed(reason)

    # --- ends ---

    def expire(self) -> None:
        """The deadline has passed: for a body, a first byte, the next byte, or a client that reads."""
        self.deadline = self._loop.time() + FLUSH_S
        if self._client.blocked or self._was_cut:
            self._drop_upstream(None)
            self._client.transport.abort()
        elif self._status is not None:
            self._drop_upstream("idle_timeout", late=True)
            self._cut()
        elif self._upstream is not None:
            self._drop_upstream("first_byte_timeout", late=True)
            self._fail(refusals.FIRST_BYTE_TIMEOUT)
        elif self._started:
            self._fail(refusals.BODY_TIMEOUT)
        else:
            self._refuse(refusals.BODY_TIMEOUT)

    def cut_off(self) -> None:
        """The gateway ends: nothing is waited for any more."""
        self._drop_upstream(None)
        self._client.transport.abort()

    def _drop_upstream(self, reason: str | None, *, late: bool = False) -> None:
        """Leaves the engine, which is not unhealthy by this alone. `late`: its answer was not there in time."""
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        if self._endpoint is not None:
            if reason is not None:
                count(self._endpoint.route.counters.failures, reason)
            self._endpoint.bad += late
            self._release_endpoint()

    def _fail(self, refused: Refusal) -> None:
        """The gateway's own answer, or a cut where another one has begun."""
        if self.answering:
            self._cut()
            return
        self._top = None
        self._status = refused.status
        count(self._plane.counters.refused, refused.code)
        whole = answer.refused(refused, self._kind.errors)
        close = refused.close or (self._head.expects_continue and not self._whole)
        self._client.transport.write(whole.bytes(close=close or self._client.closing))
        self._end(close=close)

    def _cut(self) -> None:
        """Ends the answer so that the client sees it is not whole: the connection closes before the end of the body."""
        self.deadline = self._loop.time() + FLUSH_S
        self._was_cut = True
        if self._top is not None:
            self._client.transport.write(self._top)
            self._top = None
        self._client.transport.close()

    def _end(self, *, close: bool = False) -> None:
        """The answer is written."""
        self._close(left=False)
        self._client.finished(self, close=close)

    def _release_endpoint(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            self._plane.table.released(endpoint)

    def _release_body(self) -> None:
        self._plane.bodies.give(self._held)
        self._held = 0

    def _close(self, *, left: bool) -> None:
        """Gives back what is still held, and counts the request."""
        self._closed = True
        self._pieces = []
        self._plane.exchanges.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        self._release_endpoint()
        self._release_body()
        route, self._route = self._route, None
        if route is None:
            return
        route.in_flight -= 1
        if self._key is not None:
            self._key.in_flight -= 1
        counters = route.counters
        count(counters.requests, self._status or CLIENT_LEFT)
        counters.aborts += left
        counters.duration.add(self._loop.time() - self._started_at)
        if self._stream and self._first_byte_at is not None:
            counters.first_byte.add(self._first_byte_at - self._started_at)

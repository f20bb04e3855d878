# SPDX-License-Identifier: Apache-2.0
"""One model request from its first byte to the last of its answer: read, admit, attempt, relay, account (G1, G5, G6).

It runs in the task that the server made for the request and makes none of its own, but for a new connection. That task
waits for the client to leave; the answer passes by in callbacks of the engine's connection. Whatever ends the request,
`_close` runs once and gives back all that was taken.
"""

from __future__ import annotations

import asyncio
import errno
from math import inf
from typing import TYPE_CHECKING

import structlog

from llmgw.gateway import refusal as refusals
from llmgw.gateway.admission import busy
from llmgw.gateway.asgi import RawHeaders, Receive, Send
from llmgw.gateway.body import Asked, read_body
from llmgw.gateway.choose import choose
from llmgw.gateway.counters import count
from llmgw.gateway.headers import response_headers
from llmgw.gateway.outbox import Outbox
from llmgw.gateway.refusal import Refusal
from llmgw.gateway.server import client_transport

if TYPE_CHECKING:
    from llmgw.gateway.auth import LiveKey
    from llmgw.gateway.dataplane import DataPlane
    from llmgw.gateway.table import LiveEndpoint, LiveRoute
    from llmgw.gateway.upstream import Connection

BODY_PAUSE_S = 30.0
"""How long a client may pause within its body."""
FLUSH_S = 10.0
"""How long a cut answer's last bytes may take to leave."""
MOST_ATTEMPTS = 3
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL})
"""Connect errors that are this host's own, and say nothing about the engine."""
CLIENT_LEFT = 499
"""Status that the metrics give to a request whose client left before there was one (nginx's)."""

log = structlog.get_logger()


class Exchange:
    """One request; also the receiver of its engine's answer. `deadline`: loop time at which `expire` is due."""

    __slots__ = (
        "_asked",
        "_connecting",
        "_ended",
        "_endpoint",
        "_first_byte_at",
        "_forward",
        "_held",
        "_key",
        "_line",
        "_loop",
        "_outbox",
        "_plane",
        "_route",
        "_send",
        "_stale",
        "_started_at",
        "_status",
        "_stream",
        "_tried",
        "_upstream",
        "deadline",
    )

    def __init__(self, plane: DataPlane, line: bytes, forward: bytes, key: LiveKey | None, send: Send) -> None:
        self._plane = plane
        self._line = line
        self._forward = forward
        self._key = key
        self._send = send
        self._loop = plane.loop
        self._outbox = Outbox(send, self._on_free, self._on_broken)
        self._asked: Asked | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._endpoint: LiveEndpoint | None = None
        self._route: LiveRoute | None = None
        self._upstream: Connection | None = None
        self._tried: tuple[LiveEndpoint, ...] = ()
        self._stream = self._stale = self._ended = False
        self._held = 0
        self._status: int | None = None
        self._first_byte_at: float | None = None
        self._started_at = self._loop.time()
        self.deadline = self._started_at + BODY_PAUSE_S

    async def run(self, receive: Receive) -> None:
        """Until the answer is sent, or the client has left."""
        self._plane.exchanges.add(self)
        try:
            await self._open(receive)
            while not self._done:
                if (await receive())["type"] == "http.disconnect":
                    break
        except Exception:  # a bug must cost this request alone, and is in the log with its place
            log.exception("request failed in the gateway", request=self._shown)
            self._fail(refusals.BUG)
        finally:
            self._close()

    @property
    def _done(self) -> bool:
        return self._ended and not self._outbox.blocked

    @property
    def _shown(self) -> str:
        """Method and path for the log; a query may hold what is nobody's business."""
        return self._line.partition(b"?")[0].decode()

    # --- the request ---

    async def _open(self, receive: Receive) -> None:
        data = await self._read(receive)
        if data is None:
            return
        asked = read_body(data) if isinstance(data, bytes) else data
        if isinstance(asked, Refusal):
            self._fail(asked)
            return
        route = self._admit(asked)
        if isinstance(route, Refusal):
            self._fail(route)
        else:
            self._attempt(route, route.ready)

    async def _read(self, receive: Receive) -> bytes | Refusal | None:
        """The body, or why it is not taken; None when the client left first."""
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        data: bytes = message["body"]
        limit = self._plane.table.gateway.max_body_bytes
        refused = self._hold(len(data), limit)
        if refused is not None or not message["more_body"]:
            return refused or data
        pieces = [data]
        while message["more_body"]:
            self.deadline = self._loop.time() + BODY_PAUSE_S
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            refused = self._hold(len(message["body"]), limit)
            if refused is not None:
                return refused
            pieces.append(message["body"])
        return b"".join(pieces)

    def _hold(self, size: int, limit: int) -> Refusal | None:
        if self._held + size > limit:
            return refusals.too_large(limit)
        if not self._plane.bodies.take(size):
            return refusals.BODIES_BUSY
        self._held += size
        return None

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
        self.deadline = inf
        if connection is None:
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
        else:
            self._connecting = None
            self._start(endpoint, connection)

    def _start(self, endpoint: LiveEndpoint, connection: Connection) -> None:
        asked = self._asked
        assert asked is not None  # noqa: S101 - kept until an answer begins
        data = asked.data if endpoint.spec.model == asked.model else asked.with_model(endpoint.spec.model)
        head = b"%b%b%bcontent-length: %d\r\n\r\n" % (self._line, endpoint.after_line, self._forward, len(data))
        self._upstream = connection
        self.deadline = self._loop.time() + self._plane.table.gateway.first_byte_timeout_s
        connection.start(self, head, data)

    def _attempt_failed(self, reason: str) -> None:
        """No byte of an answer came: another endpoint may be tried, within the budget."""
        route = self._route
        assert route is not None  # noqa: S101 - admitted
        endpoint = self._endpoint_failed(reason)
        self._tried = (*self._tried, endpoint)
        others = tuple(other for other in route.ready if other not in self._tried)
        if others and len(self._tried) < MOST_ATTEMPTS and self._plane.retries.spend():
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

    # --- the answer (called by the engine's connection) ---

    def on_head(self, status: int, headers: RawHeaders) -> None:
        """The answer begins: from here on it is this engine's or none."""
        self._status = status
        self._asked = None
        self._release_body()
        self._outbox.put({"type": "http.response.start", "status": status, "headers": response_headers(headers)})

    def on_body(self, data: bytes, complete: bool) -> bool:
        """Passes bytes on as they come. Returns whether the client is too slow to take more."""
        now = self._loop.time()
        if self._first_byte_at is None:
            self._first_byte_at = now
        endpoint = self._endpoint
        if endpoint is not None:
            endpoint.last_byte = now
            if complete:
                endpoint.answered(self._status)
        self.deadline = now + self._plane.table.gateway.idle_timeout_s
        if complete:
            self._upstream = None
            self._release_endpoint()
            self._ended = True
        self._outbox.put({"type": "http.response.body", "body": data, "more_body": not complete})
        return self._outbox.blocked

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

    def expire(self, now: float) -> None:
        """The deadline has passed: for a body, a first byte, the next byte, or a client that reads."""
        self.deadline = now + FLUSH_S
        if self._outbox.blocked or self._outbox.broken:
            self._drop_upstream(None)
            client_transport(self._send).abort()
        elif self._status is not None:
            self._drop_upstream("idle_timeout", late=True)
            self._cut()
        elif self._upstream is not None:
            self._drop_upstream("first_byte_timeout", late=True)
            self._fail(refusals.FIRST_BYTE_TIMEOUT)
        else:
            self._fail(refusals.BODY_TIMEOUT)

    def cut_off(self) -> None:
        """The gateway ends: nothing is waited for any more."""
        self._drop_upstream(None)
        client_transport(self._send).abort()

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
        if self._status is not None:
            self._cut()
            return
        self._status = refused.status
        self.deadline = self._loop.time() + FLUSH_S
        count(self._plane.counters.refused, refused.code)
        body = refused.body()
        self._ended = True
        self._outbox.put({"type": "http.response.start", "status": refused.status, "headers": refused.headers(body)})
        self._outbox.put({"type": "http.response.body", "body": body, "more_body": False})

    def _cut(self) -> None:
        """Ends the answer so that the client sees it is not whole: the connection closes before the end of the body."""
        self.deadline = self._loop.time() + FLUSH_S
        self._outbox.close()
        client_transport(self._send).close()

    def _on_free(self) -> None:
        """The slow client has caught up."""
        self.deadline = self._loop.time() + self._plane.table.gateway.idle_timeout_s
        if self._upstream is not None:
            self._upstream.resume()

    def _on_broken(self, error: Exception) -> None:
        log.error("an answer cannot be sent", request=self._shown, error=str(error))
        self._drop_upstream("unsendable")
        self._cut()

    def _release_endpoint(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            self._plane.table.released(endpoint)

    def _release_body(self) -> None:
        self._plane.bodies.give(self._held)
        self._held = 0

    def _close(self) -> None:
        """Gives back what is still held, and counts the request."""
        self._plane.exchanges.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        self._release_endpoint()
        self._release_body()
        left = not self._done and not self._outbox.broken
        self._outbox.close()
        route = self._route
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

# SPDX-License-Identifier: Apache-2.0
"""One try of one request at one endpoint: its connection, the answer that passes, the endpoint's account (G1, G6).

The account is taken from as the attempt is made, and given back exactly once, by `end`. Whatever it finds it tells its
exchange, which decides what becomes of the request.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import structlog

from llmgw.gateway.counters import count
from llmgw.gateway.endpoints.breaker import verdict
from llmgw.gateway.wire import answer
from llmgw.gateway.wire.headers import relayed
from llmgw.gateway.wire.stream import Tail

if TYPE_CHECKING:
    from llmgw.gateway.admit.usage import Usage
    from llmgw.gateway.exchange import Exchange
    from llmgw.gateway.routing.cost import Ask
    from llmgw.gateway.table import LiveEndpoint, Table
    from llmgw.gateway.wire.raw import RawHeaders
    from llmgw.gateway.wire.upstream import Connection

NO_BODY = frozenset({204, 304})
CLIENT_ERROR = 400
"""Answers from here on do not show that the engine computes."""
OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL})
"""Connect errors that are this host's own, and say nothing about the engine."""
CHUNKED = b"transfer-encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"

log = structlog.get_logger()


class Attempt:
    """In flight at `endpoint` from its making until `end`. `tail`: of the answer's body, once it has a head."""

    __slots__ = (
        "_charge",
        "_chunked",
        "_connecting",
        "_connection",
        "_exchange",
        "_over",
        "_paused",
        "_serves",
        "_stale",
        "_table",
        "_top",
        "endpoint",
        "tail",
    )

    def __init__(self, exchange: Exchange, table: Table, endpoint: LiveEndpoint, ask: Ask, now: float) -> None:
        self.endpoint = endpoint
        self.tail: Tail | None = None
        self._exchange = exchange
        self._table = table
        self._connecting: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._chunked = self._over = self._paused = self._serves = self._stale = False
        self._top: bytes | None = None
        table.dispatched(endpoint, now)
        self._charge = endpoint.costs.charge(ask, now)

    # --- the request goes out ---

    def begin(self) -> None:
        """Sends the request over a kept connection, or over a new one."""
        connection = self.endpoint.pool.take()
        if connection is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            self._send(connection)

    async def _connect(self) -> None:
        try:
            connection = await self.endpoint.pool.connect(self._table.gateway.connect_timeout_s)
        except OSError as error:
            self._connecting = None
            if error.errno in OUT_OF_RESOURCES:
                log.error("no connection to an engine can be opened", error=str(error))  # noqa: TRY400 - place is known
                self._exchange.out_of_resources()
            else:
                self._exchange.unanswered("connect_timeout" if isinstance(error, TimeoutError) else "connect_failed")
        except Exception:  # a bug must cost this request alone, and is in the log with its place
            log.exception("a request failed in the gateway", request=self._exchange.request_id)
            self._connecting = None
            self._exchange.broken()
        else:
            self._connecting = None
            self._send(connection)

    def _send(self, connection: Connection) -> None:
        exchange, endpoint = self._exchange, self.endpoint
        asked = exchange.asked
        assert asked is not None  # noqa: S101 - kept until an answer begins
        data = asked.data if endpoint.spec.model == asked.model else asked.with_model(endpoint.spec.model)
        head = b"%b%b%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (
            exchange.line,
            endpoint.after_line,
            exchange.head.forward,
            exchange.request_id.encode(),
            len(data),
        )
        self._connection = connection
        exchange.within(self._table.gateway.first_byte_timeout_s)
        connection.start(self, head, data)

    # --- the answer (called by the engine's connection) ---

    def on_head(self, status: int, headers: RawHeaders) -> None:
        """The answer begins. Its head leaves with what comes of its body."""
        exchange = self._exchange
        if not exchange.accepts(status):
            return
        pieces, sized = relayed(headers)
        self._chunked = not sized and status not in NO_BODY
        self._top = answer.relayed_head(
            status,
            pieces,
            b"x-request-id: %b\r\n" % exchange.request_id.encode(),
            CHUNKED if self._chunked else b"",
            answer.CLOSE if exchange.closes else b"",
        )
        self._serves = status < CLIENT_ERROR
        self.tail = Tail()

    def on_body(self, data: bytes, complete: bool) -> bool:
        """Passes bytes on as they come. Returns whether the client is too slow to take more."""
        exchange = self._exchange
        now = exchange.loop.time()
        if data:
            self._note(data, 0, now)
            if self._chunked:
                data = b"%x\r\n%b\r\n" % (len(data), data)
        if complete and self._chunked:
            data += LAST_CHUNK
        if self._top is not None:
            data, self._top = self._top + data, None
        if data:
            exchange.client.transport.write(data)
        if complete:
            self._connection = None
            exchange.answered(now)
            return False
        return self._go_on(now)

    def on_chunk(self, data: bytes, start: int) -> bool:
        """Passes a whole chunk on in its own framing."""
        if not self._chunked:
            return self.on_body(data[start:-2], complete=False)
        exchange = self._exchange
        now = exchange.loop.time()
        self._note(data, start, now)
        exchange.client.transport.write(data)
        return self._go_on(now)

    def _note(self, data: bytes, start: int, now: float) -> None:
        """Some of the body has come."""
        tail, endpoint, exchange = self.tail, self.endpoint, self._exchange
        assert tail is not None  # noqa: S101 - an answer has begun
        endpoint.last_byte = now
        if exchange.first_byte_at is None:
            exchange.first_byte_at = now
            if self._serves:  # a refusal says nothing of how fast prompts are read
                endpoint.costs.first_byte(self._charge, now)
        if tail.add(data, start) and self._serves:
            self._table.progress(endpoint, now)

    def _go_on(self, now: float) -> bool:
        """More is to come. Returns whether the client is too slow to take it."""
        exchange = self._exchange
        deadline = now + self._table.gateway.idle_timeout_s
        exchange.deadline = min(exchange.last, deadline)
        if exchange.client.blocked and not self._paused:
            self._paused = True
            self.endpoint.paused += 1
        return self._paused

    def on_lost(self, reason: str, answered: bool, reused: bool) -> None:
        """The engine's connection broke."""
        self._connection = None
        if self.tail is not None:
            self._exchange.broke_off()
        elif answered:
            self._exchange.unanswered(reason, again=False)
        elif reused and not self._stale:
            # The engine closed a kept connection just as it was used: it never read the request.
            self._stale = True
            self._exchange.stale()
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            self._exchange.unanswered(reason)

    def resume(self) -> None:
        """The slow client has caught up."""
        self._unpause()
        if self._connection is not None:
            self._connection.resume()

    # --- it ends ---

    def flush(self) -> None:
        """Sends the head if it still waits for some of its body: the answer is cut, and its client sees of what."""
        if self._top is not None:
            self._exchange.client.transport.write(self._top)
            self._top = None

    def drop(self) -> None:
        """Leaves the engine at once. It sees its client leave."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    def complete(self, status: int, usage: Usage | None, now: float) -> str | None:
        """The answer is whole. Returns what is to be said against it: None where it is one like any other."""
        tail = self.tail
        ok = verdict(status)
        reason = f"status_{status}"
        if tail is not None and tail.error:
            ok, reason = False, "error_event"
        self.end(ok, reason, now, None if usage is None else usage.completion)
        if ok is False:
            count(self.endpoint.route.counters.failures, reason)
            return reason
        return None

    def end(self, ok: bool | None, reason: str, now: float, tokens: int | None = None) -> None:
        """It is over: well, not, or without saying anything of the engine. `tokens`: of the answer, where the engine
        counted them. Only the first call counts.
        """
        if self._over:
            return
        self._over = True
        self._unpause()
        endpoint, table, tail = self.endpoint, self._table, self.tail
        endpoint.costs.done(self._charge, now, tail.size if tail is not None and self._serves else 0, tokens)
        if ok is False:
            endpoint.costs.failed(now)
        table.outcome(endpoint, ok, reason, now)
        table.released(endpoint)

    def _unpause(self) -> None:
        if self._paused:
            self._paused = False
            self.endpoint.paused -= 1

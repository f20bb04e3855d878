# SPDX-License-Identifier: Apache-2.0
"""One model request from its first byte to the last of its answer: read, admit, attempt, account (G1, G5, G6).

It makes no task of its own: everything happens in callbacks of the client's connection, of its attempts, and of the
sweep that keeps deadlines. Whatever ends the request, `_close` runs once and gives back all that was taken.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from llmgw.gateway.admit import entrance
from llmgw.gateway.admit.entrance import Entry
from llmgw.gateway.attempt import Attempt
from llmgw.gateway.counters import count
from llmgw.gateway.endpoints.breaker import verdict
from llmgw.gateway.records.ending import account
from llmgw.gateway.routing.retry import TRIED_ELSEWHERE, others
from llmgw.gateway.wire import answer
from llmgw.gateway.wire import refusal as refusals
from llmgw.gateway.wire.reading import Reading, ask_for
from llmgw.gateway.wire.refusal import Refusal
from llmgw.gateway.wire.stream import spent

if TYPE_CHECKING:
    from llmgw.gateway.admit.auth import LiveKey
    from llmgw.gateway.admit.usage import Usage
    from llmgw.gateway.dataplane import DataPlane
    from llmgw.gateway.records.explain import Explained
    from llmgw.gateway.routing.cost import Ask
    from llmgw.gateway.table import LiveEndpoint, LiveRoute
    from llmgw.gateway.wire.body import Asked
    from llmgw.gateway.wire.client import ClientConnection
    from llmgw.gateway.wire.headers import RequestHead
    from llmgw.gateway.wire.multipart import Form
    from llmgw.gateway.wire.paths import Kind
    from llmgw.gateway.wire.stream import Tail

BODY_PAUSE_S = 30.0
"""How long a client may pause within its body."""
FLUSH_S = 10.0
"""How long a cut answer's last bytes may take to leave."""


class Exchange:
    """One request. `deadline`: loop time at which `expire` is due; `last`: when the whole of it must be over.

    `status`: of the answer, once it has begun; `closes`: the connection ends with it. `reason`: why it is refused, or
    why the last attempt failed. `route`: the service that answers. `answered_by`: where the last attempt went.
    """

    __slots__ = (
        "_attempt",
        "_closed",
        "_plane",
        "_reading",
        "_tried",
        "_was_cut",
        "answered_by",
        "ask",
        "asked",
        "attempts",
        "client",
        "closes",
        "deadline",
        "entry",
        "explained",
        "first_byte_at",
        "head",
        "key",
        "kind",
        "last",
        "line",
        "loop",
        "reason",
        "request_id",
        "route",
        "started_at",
        "status",
        "tail",
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
        self.client = client
        self.loop = plane.loop
        self.head = head
        self.kind = kind
        self.line = line
        self.key = key
        self.request_id = plane.ids.take(head.request_id)
        self.asked: Asked | Form | None = None
        self.ask: Ask | None = None
        self.route: LiveRoute | None = None
        self.entry: Entry | None = None
        self.attempts = 0
        self.answered_by: LiveEndpoint | None = None
        self.explained: Explained | None = None
        self.status: int | None = None
        self.reason: str | None = None
        self.tail: Tail | None = None
        self.first_byte_at: float | None = None
        self._attempt: Attempt | None = None
        self._tried: tuple[LiveEndpoint, ...] = ()
        self._closed = self._was_cut = self.closes = False
        gateway = plane.table.gateway
        self.started_at = now = self.loop.time()
        self.last = inf if gateway.total_timeout_s is None else now + gateway.total_timeout_s
        self.deadline = self.last if head.expects_continue else min(now + BODY_PAUSE_S, self.last)
        self._reading = Reading(plane.bodies, gateway.max_body_bytes)
        plane.exchanges.add(self)

    @property
    def bytes_in(self) -> int:
        """Bytes of the request's body, as far as it was read."""
        return self._reading.size

    def within(self, seconds: float) -> None:
        """Something has to happen by then."""
        self.deadline = min(self.loop.time() + seconds, self.last)

    # --- the request (called by the client's connection) ---

    def on_piece(self, data: bytes) -> None:
        """Some of the body. What was refused is not kept."""
        reading = self._reading
        if self._closed or reading.refused is not None:
            return
        first = not reading.size
        why = reading.take(data)
        if why is not None:
            self._refuse(why)
        elif not first:
            self.within(BODY_PAUSE_S)

    def on_whole(self) -> None:
        """The body has come to its end."""
        self._reading.whole = True
        self.deadline = self.last
        if self._reading.begun and not self._closed:
            self._open()

    def begin(self) -> None:
        """All requests before it are answered: its turn has come."""
        reading = self._reading
        reading.begun = True
        if reading.refused is not None:
            self._fail(reading.refused)
        elif reading.whole:
            self._open()
        elif self.head.expects_continue:
            self.within(BODY_PAUSE_S)
            self.client.ask_for_body()

    def client_left(self) -> None:
        """Nobody waits for the answer any more: the engine is told at once (G6)."""
        if not self._closed:
            self._close(left=not self._was_cut)

    def on_free(self) -> None:
        """The slow client has caught up."""
        self.within(self._plane.table.gateway.idle_timeout_s)
        if self._attempt is not None:
            self._attempt.resume()

    def _refuse(self, why: Refusal) -> None:
        """The body is not waited for any longer: told at once, or as its turn comes."""
        self._reading.refuse(why)
        if self._reading.begun:
            self._fail(why)

    # --- admission ---

    def _open(self) -> None:
        asked = self._reading.read(self.kind, self.head.content_type)
        if isinstance(asked, Refusal):
            self._fail(asked)
            return
        self.asked = asked
        found = entrance.find(self._plane.table, asked.model, self.key)
        if isinstance(found, Refusal):
            self._fail(found)
            return
        self.route = route = found.route
        now = self.loop.time()
        self._plane.sample(self, found, now)
        self.ask = ask_for(asked, self.kind, route, self.head.session)
        self.entry = Entry(route, self.key)
        entered = self.entry.ask(self, self.ask.tokens, self.ask.max_tokens, now)
        if entered is True:
            self.admitted(now)
        elif isinstance(entered, Refusal):
            count(route.counters.requests, entered.status)
            self.entry = None
            self._fail(entered)

    def admitted(self, now: float) -> None:
        """It is in: at once, or by its turn in the line."""
        entry, route = self.entry, self.route
        assert entry is not None and route is not None  # noqa: S101, PT018 - both were found before
        if entry.queued_at is not None:
            entry.taken(now)
        self._plane.retries.earn()
        if route.ready:
            self._try(route, route.trials[:1] or route.ready, now)
        else:
            self._fail(refusals.not_ready(route.spec.served_name, route.states()))

    def turned_away(self, why: Refusal) -> None:
        """It waited in vain. Whoever calls this has taken it out of the line."""
        self._fail(why)

    # --- attempts ---

    def _try(self, route: LiveRoute, ready: tuple[LiveEndpoint, ...], now: float) -> None:
        """Gives the request to one of `ready`, of which there is at least one."""
        assert self.ask is not None  # noqa: S101 - made before
        endpoint = self._plane.choose(self, route, ready, self.ask, now)
        self.attempts += 1
        self.answered_by = endpoint
        self.deadline = self.last
        self._attempt = Attempt(self, self._plane.table, endpoint, self.ask, now)
        self._attempt.begin()

    def _again(self, route: LiveRoute, left: tuple[LiveEndpoint, ...]) -> None:
        route.counters.retries += 1
        self._try(route, left, self.loop.time())

    # --- what an attempt tells ---

    def accepts(self, status: int) -> bool:
        """Whether the answer with that status is the client's: from here on it is this engine's or none. Else another
        engine is asked, because this one says that it cannot now.
        """
        attempt, entry = self._attempt, self.entry
        if status in TRIED_ELSEWHERE and attempt is not None and entry is not None:
            tried = (*self._tried, attempt.endpoint)
            left = others(entry.route.ready, tried)
            if left and self._plane.retries.spend():
                self._tried = tried
                self._leave(f"status_{status}", verdict(status))
                self._again(entry.route, left)
                return False
        self.status = status
        self.closes = self.client.closing
        self._release_body()
        return True

    def unanswered(self, reason: str, *, again: bool = True) -> None:
        """The attempt failed before its answer began. `again`: the engine has not begun one that could not be read."""
        self._tried = (*self._tried, self._failed(reason))
        entry = self.entry
        left = others(entry.route.ready, self._tried) if again and entry is not None else ()
        if left and entry is not None and self._plane.retries.spend():
            self._again(entry.route, left)
        else:
            self._fail(refusals.upstream_failed(reason, len(self._tried)))

    def broke_off(self) -> None:
        """The engine's connection broke within its answer."""
        self._failed("cut")
        self._cut()

    def answered(self, now: float) -> None:
        """The engine's answer is whole, and written."""
        attempt, self._attempt = self._attempt, None
        assert attempt is not None and self.status is not None  # noqa: S101, PT018 - it has a head
        self.tail = tail = attempt.tail
        usage = tail.usage() if tail is not None and self._wants_usage else None
        self.reason = attempt.complete(self.status, usage, now)
        self._end(usage)

    def stale(self) -> None:
        """The engine had closed the kept connection; the attempt opens another one."""
        self._plane.counters.stale_connections += 1
        self.deadline = self.last

    def out_of_resources(self) -> None:
        """This host cannot open a connection."""
        self._leave("gateway_resources", None)
        self._fail(refusals.OUT_OF_RESOURCES)

    def broken(self) -> None:
        """A bug of the gateway, which costs this request alone."""
        self._leave(None, None)
        self._fail(refusals.BUG)

    @property
    def _wants_usage(self) -> bool:
        """Whether anybody asks what the engine counted."""
        entry = self.entry
        return self.explained is not None or self._plane.wants_usage or (entry is not None and entry.counts_tokens)

    def _failed(self, reason: str) -> LiveEndpoint:
        """Ends the attempt with a mark against its endpoint, whose connection broke."""
        attempt, self._attempt = self._attempt, None
        assert attempt is not None  # noqa: S101 - an attempt runs
        self.reason = reason
        self.tail = attempt.tail
        attempt.flush()
        count(attempt.endpoint.route.counters.failures, reason)
        attempt.end(ok=False, reason=reason, now=self.loop.time())
        self._plane.endpoint_failed(attempt.endpoint, reason)
        return attempt.endpoint

    def _leave(self, reason: str | None, ok: bool | None) -> None:
        """Leaves the engine, of which `ok` says what that shows."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        attempt.drop()
        attempt.flush()
        self.tail = attempt.tail
        if reason is not None:
            self.reason = reason
            count(attempt.endpoint.route.counters.failures, reason)
        attempt.end(ok=ok, reason=reason or "left", now=self.loop.time())

    # --- ends ---

    def expire(self) -> None:
        """The deadline has passed: for a body, a first byte, the next byte, the whole, or a client that reads."""
        over = self.loop.time() >= self.last
        self.deadline = self.loop.time() + FLUSH_S
        self.last = inf
        if self._was_cut or (self.client.blocked and not over):
            self.cut_off()
        elif self.status is not None:
            self._leave("total_timeout" if over else "idle_timeout", None if over else False)
            self._cut()
        elif self._attempt is not None:
            self._leave("total_timeout" if over else "first_byte_timeout", None if over else False)
            self._fail(refusals.TOTAL_TIMEOUT if over else refusals.FIRST_BYTE_TIMEOUT)
        elif self.entry is not None:
            self._fail(refusals.TOTAL_TIMEOUT)
        elif self._reading.refused is None:
            self._refuse(refusals.BODY_TIMEOUT)

    def cut_off(self) -> None:
        """Nothing is waited for any more."""
        self._leave(None, None)
        self.client.transport.abort()

    def _fail(self, refused: Refusal) -> None:
        """The gateway's own answer, or a cut where another one has begun."""
        if self.status is not None:
            self._cut()
            return
        self.status = refused.status
        self.reason = refused.code
        count(self._plane.counters.refused, refused.code)
        whole = answer.refused(refused, self.kind.errors, self.request_id.encode())
        unread = self.head.expects_continue and not self._reading.whole
        self.closes = refused.close or unread or self.client.closing
        self.client.transport.write(whole.bytes(close=self.closes))
        self._end()

    def _cut(self) -> None:
        """Ends the answer so that the client sees it is not whole: the connection closes before the end of the body."""
        self.deadline = self.loop.time() + FLUSH_S
        self._was_cut = True
        self.client.transport.close()

    def _end(self, usage: Usage | None = None) -> None:
        """The answer is written."""
        self._close(left=False, usage=usage)
        self.client.finished(self, close=self.closes)

    def _release_body(self) -> None:
        """Lets go what only a further attempt would need."""
        self._reading.release()
        if self.asked is not None:
            self.asked.forget()
        if self.ask is not None:
            self.ask.chain = ()

    def _close(self, *, left: bool, usage: Usage | None = None) -> None:
        """Gives back what is still held, and counts the request."""
        self._closed = True
        self.deadline = inf
        self._plane.exchanges.discard(self)
        self._leave(None, None)
        self._release_body()
        now = self.loop.time()
        self._plane.ended(self, now, left=left, cut=self._was_cut, usage=usage)
        entry, self.entry = self.entry, None
        if entry is not None:
            account(self, entry.route.counters, now, left=left)
            if entry.leave(self, *spent(self, usage)):
                entrance.advance(entry.route, now)

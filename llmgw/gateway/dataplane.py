# SPDX-License-Identifier: Apache-2.0
"""What all requests of one process share, and how each begins: the paths, and the key.

No framework and no middleware stand between a client and its engine: the client's connection asks `take` what becomes
of a request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httptools
import structlog

from llmgw.gateway.admit.admission import ByteBudget, RetryBudget
from llmgw.gateway.admit.auth import LiveKey
from llmgw.gateway.counters import PlaneCounters, count
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.own_answers import answer_itself
from llmgw.gateway.records.ending import record_of
from llmgw.gateway.records.explain import Explanations, Sampler
from llmgw.gateway.records.record import RequestRecord
from llmgw.gateway.routing.choose import choose, explain
from llmgw.gateway.table import LiveEndpoint, LiveRoute, Table
from llmgw.gateway.wire import refusal as refusals
from llmgw.gateway.wire.answer import Answer, refused
from llmgw.gateway.wire.headers import RequestHead
from llmgw.gateway.wire.paths import PATHS, Kind
from llmgw.gateway.wire.refusal import Refusal
from llmgw.gateway.wire.request_id import REQUEST_ID, RequestIds

if TYPE_CHECKING:
    from llmgw.gateway.admit.entrance import Found
    from llmgw.gateway.admit.usage import Usage
    from llmgw.gateway.routing.cost import Ask
    from llmgw.gateway.wire.client import ClientConnection

BODY_BYTES_IN_FLIGHT = 512 * 1024 * 1024
"""Request bodies held at once, over all requests; each is let go as its answer begins."""
POST_METHODS = "POST, OPTIONS"

log = structlog.get_logger()


class DataPlane:
    """The data plane of one process. It lives in the event loop that made it."""

    def __init__(self, table: Table, seed: int, *, body_bytes: int = BODY_BYTES_IN_FLIGHT) -> None:
        self.loop = asyncio.get_running_loop()
        self.table = table
        self.seed = seed
        self.bodies = ByteBudget(body_bytes)
        self.retries = RetryBudget()
        self.counters = PlaneCounters()
        self.clients: set[ClientConnection] = set()
        self.exchanges: set[Exchange] = set()
        self.ids = RequestIds()
        self.sampler = Sampler(0.0, seed)
        self.explanations = Explanations()
        self.on_end: Callable[[RequestRecord], None] | None = None
        """Gets the record of each request that is over; the access log puts itself here."""
        self.draining = False
        self.reload_problem: str | None = None
        """Why the last reload was refused; None: it was not."""
        self.retiring = False
        """Whether another process takes the new connections: those here end with their next answer."""
        self.most_requests: int | None = None
        """Requests that the limit on open files has room for; None: not looked at."""
        self.wake: Callable[[LiveEndpoint], None] = lambda _endpoint: None
        """Asks for a probe now; the prober puts itself here."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Nothing: uvicorn wants an application; its connections are ClientConnections, which ask `take`."""

    def reload_refused(self, problem: str) -> None:
        """Told until a reload goes well; what it has not replaced goes on. `problem` may have several lines."""
        self.reload_problem = "; ".join(line.strip() for line in problem.splitlines())
        self.counters.reload_failures += 1

    # --- a request begins ---

    def take(self, client: ClientConnection, head: RequestHead) -> Exchange | Answer:
        """What becomes of a request whose head is read: an exchange that awaits its body, or the answer."""
        path, query = _split(head.target)
        kind = PATHS.get(path)
        if kind is None:
            found = answer_itself(self, head, path)
            if isinstance(found, Refusal):
                return self._refused(found, head)
            found.head_only = head.method == b"HEAD"
            return self._named(found, head)
        if head.method == b"OPTIONS":
            return self._named(Answer(204, [(b"allow", POST_METHODS.encode())]), head)
        entered = self._enter(head)
        if isinstance(entered, Refusal):
            return self._refused(entered, head, kind)
        line = kind.line + b"?" + query if query else kind.line
        return Exchange(self, client, head, kind=kind, line=line, key=entered)

    def key_of(self, head: RequestHead) -> LiveKey | Refusal | None:
        """The client's key (None: no keys are asked for), or why there is none."""
        return None if self.table.keys.open else self.table.keys.find(head.authorization, head.api_key)

    def _enter(self, head: RequestHead) -> LiveKey | Refusal | None:
        """The key of a model request, or why its body is not even read."""
        if head.method != b"POST":
            return refusals.method_not_allowed(head.method.decode("ascii", "replace"), POST_METHODS)
        key = self.key_of(head)
        if isinstance(key, Refusal):
            return key
        if head.refusal is not None:
            return head.refusal
        if head.old_http:
            return refusals.OLD_HTTP
        limit = self.table.gateway.max_body_bytes
        if head.content_length is not None and head.content_length > limit:
            return refusals.too_large(limit)
        if self.most_requests is not None and len(self.exchanges) >= self.most_requests:
            return refusals.OUT_OF_RESOURCES
        return key

    def _named(self, answer: Answer, head: RequestHead) -> Answer:
        """The answer with its request's id."""
        answer.headers.append((REQUEST_ID, self.ids.take(head.request_id).encode()))
        return answer

    def _refused(self, why: Refusal, head: RequestHead, kind: Kind | None = None) -> Answer:
        """The answer, and the record of it, to a request whose body is not read."""
        count(self.counters.refused, why.code)
        request_id = self.ids.take(head.request_id)
        answer = refused(why, "openai" if kind is None else kind.errors, request_id.encode())
        answer.head_only = head.method == b"HEAD"
        if kind is not None and self.on_end is not None:
            method, _, path = kind.line.decode().partition(" ")
            self.on_end(
                RequestRecord(request_id, time.time(), method, path, status=why.status, reason=why.code, end="refused")
            )
        return answer

    # --- while it runs ---

    def sample(self, exchange: Exchange, found: Found, now: float) -> None:
        """Has it kept why the request goes where it goes, if it is one of the sample or asks for that."""
        asked = exchange.head.explain
        if self.sampler.take() or asked:
            at, service = time.time() - (now - exchange.started_at), found.asked.spec.service
            exchange.explained = self.explanations.begin(exchange.request_id, at, service, asked=asked, via=found.via)

    def choose(
        self, exchange: Exchange, route: LiveRoute, ready: tuple[LiveEndpoint, ...], ask: Ask, now: float
    ) -> LiveEndpoint:
        """The endpoint of `ready` that the service's policy takes; for requests of the sample with its reasons kept."""
        route.turn += 1
        policy = route.spec.policy
        explained = exchange.explained
        terms = () if explained is None else explain(policy, ready, ask, now)
        chosen = ready[0] if len(ready) == 1 else choose(policy, ready, ask, route.turn, self.seed + route.turn, now)
        if explained is not None:
            others = (one for one in route.endpoints if one not in ready)
            left_out = ((one.spec.id, "tried" if one in route.ready else one.state.value) for one in others)
            after_s = now - exchange.started_at
            explained.chose(chosen.spec.id, terms, left_out, service=route.spec.service, policy=policy, after_s=after_s)
        return chosen

    def endpoint_failed(self, endpoint: LiveEndpoint, reason: str) -> None:
        """A request to it ended in a transport error."""
        if self.table.failed(endpoint, reason, time.time()):
            log.warning("endpoint out of rotation", endpoint=endpoint.spec.id, reason=reason)
            self.wake(endpoint)

    # --- it ends ---

    @property
    def wants_usage(self) -> bool:
        """Whether anybody asks for the tokens of every request."""
        return self.on_end is not None

    def ended(self, exchange: Exchange, now: float, *, left: bool, cut: bool, usage: Usage | None) -> None:
        """A request is over: what is to be told of it is told."""
        explained = exchange.explained
        if self.on_end is None and explained is None:
            return
        record = record_of(exchange, now, left=left, cut=cut, usage=usage)
        if explained is not None:
            explained.ended(record)
        if self.on_end is not None:
            self.on_end(record)


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target; of one in absolute form too (RFC 9112, 3.2.2). What is neither has no path
    that anything is served at.
    """
    if target[:1] == b"/":
        path, _, query = target.partition(b"?")
        return path, query
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        return b"", b""
    return url.path or b"", url.query or b""

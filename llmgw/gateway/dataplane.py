# SPDX-License-Identifier: Apache-2.0
"""The data listener's application: raw ASGI, no framework and no middleware between a client and its engine.

It knows the paths, asks for the key, and answers itself what no engine needs to: the list of models, the health
question, and refusals before the body is read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import structlog

from llmgw.gateway import refusal as refusals
from llmgw.gateway.admission import ByteBudget, RetryBudget
from llmgw.gateway.asgi import RawHeaders, Receive, Scope, Send
from llmgw.gateway.auth import LiveKey
from llmgw.gateway.counters import PlaneCounters, count
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.headers import RequestHead, read_request
from llmgw.gateway.refusal import Refusal
from llmgw.gateway.table import LiveEndpoint, LiveRoute, Table

BODY_BYTES_IN_FLIGHT = 512 * 1024 * 1024
"""Request bodies held at once, over all requests; each is let go as its answer begins."""

PASSED_ON = {
    b"/v1/chat/completions": b"POST /v1/chat/completions",
    b"/v1/completions": b"POST /v1/completions",
    b"/v1/embeddings": b"POST /v1/embeddings",
}
"""Paths that engines answer, and the request line's start. Only these exact paths: nothing is normalised (G8)."""
MODELS = "/v1/models"
READ_METHODS = "GET, HEAD, OPTIONS"
POST_METHODS = "POST, OPTIONS"
JSON = (b"content-type", b"application/json")

log = structlog.get_logger()


class DataPlane:
    """The ASGI application, and what all requests share."""

    def __init__(self, table: Table, seed: int, *, body_bytes: int = BODY_BYTES_IN_FLIGHT) -> None:
        self.loop = asyncio.get_running_loop()
        self.table = table
        self.seed = seed
        self.bodies = ByteBudget(body_bytes)
        self.retries = RetryBudget()
        self.counters = PlaneCounters()
        self.exchanges: set[Exchange] = set()
        self.draining = False
        self.wake: Callable[[LiveEndpoint], None] = lambda _endpoint: None
        """Asks for a probe now; the prober puts itself here."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        line = PASSED_ON.get(scope["raw_path"])
        if line is None:
            await self._answer_itself(scope, send)
            return
        if scope["method"] == "OPTIONS":
            await _answer(send, 204, [(b"allow", POST_METHODS.encode())], b"")
            return
        head = read_request(scope["headers"])
        entered = self._enter(scope, head)
        if isinstance(entered, Refusal):
            await self._refuse(send, entered, scope)
            return
        if scope["query_string"]:
            line += b"?" + scope["query_string"]
        await Exchange(self, line, head.forward, entered, send).run(receive)

    def endpoint_failed(self, endpoint: LiveEndpoint, reason: str) -> None:
        """A request to it ended in a transport error."""
        if self.table.failed(endpoint, reason, time.time()):
            log.warning("endpoint out of rotation", endpoint=endpoint.spec.id, reason=reason)
            self.wake(endpoint)

    def _enter(self, scope: Scope, head: RequestHead) -> LiveKey | Refusal | None:
        """The key of a model request (None: no keys are asked for), or why its body is not even read."""
        if scope["method"] != "POST":
            return refusals.method_not_allowed(scope["method"], POST_METHODS)
        key = self._key(head)
        if isinstance(key, Refusal):
            return key
        if head.refusal is not None:
            return head.refusal
        if scope["http_version"] != "1.1":
            return refusals.OLD_HTTP
        limit = self.table.gateway.max_body_bytes
        if head.content_length is not None and head.content_length > limit:
            return refusals.too_large(limit)
        return key

    def _key(self, head: RequestHead) -> LiveKey | Refusal | None:
        return None if self.table.keys.open else self.table.keys.find(head.authorization)

    async def _answer_itself(self, scope: Scope, send: Send) -> None:
        path: str = scope["path"]
        method: str = scope["method"]
        if path == "/healthz":
            known, key = True, None
        else:
            known = path == MODELS or path.startswith(MODELS + "/")
            found = self._key(read_request(scope["headers"])) if known else None
            if isinstance(found, Refusal) and method != "OPTIONS":
                await self._refuse(send, found, scope)
                return
            key = None if isinstance(found, Refusal) else found
        if not known:
            await self._refuse(send, refusals.NOT_FOUND, scope)
        elif method == "OPTIONS":
            await _answer(send, 204, [(b"allow", READ_METHODS.encode())], b"")
        elif method not in {"GET", "HEAD"}:
            await self._refuse(send, refusals.method_not_allowed(method, READ_METHODS), scope)
        elif path == "/healthz":
            await self._health(send)
        elif path == MODELS:
            await self._models(send, key)
        else:
            await self._model(send, key, path[len(MODELS) + 1 :], scope)

    async def _health(self, send: Send) -> None:
        """200 while new requests are welcome. Having no routes is no fault of this process."""
        bundle = self.table.bundle
        document = {
            "status": "draining" if self.draining else "ok",
            "generation": None if bundle is None else bundle.generation,
        }
        await _answer_json(send, 503 if self.draining else 200, document)

    async def _models(self, send: Send, key: LiveKey | None) -> None:
        names = sorted(
            name
            for name, route in self.table.names.items()
            if route.ready and (key is None or key.may_use(route.spec.service))
        )
        await _answer_json(send, 200, {"object": "list", "data": [self._card(name) for name in names]})

    async def _model(self, send: Send, key: LiveKey | None, name: str, scope: Scope) -> None:
        route: LiveRoute | None = self.table.names.get(name)
        if route is None or (key is not None and not key.may_use(route.spec.service)):
            await self._refuse(send, refusals.unknown_model(name), scope)
        elif not route.ready:
            await self._refuse(send, refusals.not_ready(name, route.states()), scope)
        else:
            await _answer_json(send, 200, self._card(name))

    def _card(self, name: str) -> dict[str, object]:
        bundle = self.table.bundle
        created = 0 if bundle is None or bundle.written_at is None else int(bundle.written_at)
        return {"id": name, "object": "model", "created": created, "owned_by": "llmgw"}

    async def _refuse(self, send: Send, refused: Refusal, scope: Scope) -> None:
        """Answers without the body having been read; a client that waits for leave to send it is let go."""
        count(self.counters.refused, refused.code)
        body = refused.body()
        headers = refused.headers(body)
        if not refused.close and any(name == b"expect" for name, _value in scope["headers"]):
            headers.append((b"connection", b"close"))
        await _answer(send, refused.status, headers, body)


async def _answer_json(send: Send, status: int, document: object) -> None:
    body = json.dumps(document).encode()
    await _answer(send, status, [JSON, (b"content-length", b"%d" % len(body))], body)


async def _answer(send: Send, status: int, headers: RawHeaders, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})

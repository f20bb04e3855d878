# SPDX-License-Identifier: Apache-2.0
"""What all requests of one process share, and how each begins: the paths, the key, and what no engine needs to answer.

No framework and no middleware stand between a client and its engine. The gateway answers by itself the list of models,
the health question, and refusals before the body is read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools
import structlog

from llmgw.gateway import refusal as refusals
from llmgw.gateway.admission import ByteBudget, RetryBudget
from llmgw.gateway.answer import JSON, Answer, refused
from llmgw.gateway.auth import LiveKey
from llmgw.gateway.counters import PlaneCounters, count
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.headers import RequestHead
from llmgw.gateway.paths import PATHS, Kind
from llmgw.gateway.refusal import Refusal
from llmgw.gateway.table import LiveEndpoint, LiveRoute, Table

if TYPE_CHECKING:
    from llmgw.gateway.client import ClientConnection

BODY_BYTES_IN_FLIGHT = 512 * 1024 * 1024
"""Request bodies held at once, over all requests; each is let go as its answer begins."""

MODELS = "/v1/models"
READ_METHODS = "GET, HEAD, OPTIONS"
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
        self.draining = False
        self.wake: Callable[[LiveEndpoint], None] = lambda _endpoint: None
        """Asks for a probe now; the prober puts itself here."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Nothing: uvicorn wants an application; its connections are ClientConnections, which ask `take`."""

    def take(self, client: ClientConnection, head: RequestHead) -> Exchange | Answer:
        """What becomes of a request whose head is read: an exchange that awaits its body, or the answer."""
        path, query = _split(head.target)
        kind = PATHS.get(path)
        if kind is None:
            return self._answer_itself(head, path)
        if head.method == b"OPTIONS":
            return Answer(204, [(b"allow", POST_METHODS.encode())])
        entered = self._enter(head)
        if isinstance(entered, Refusal):
            return self._refused(entered, kind)
        line = kind.line + b"?" + query if query else kind.line
        return Exchange(self, client, head, kind=kind, line=line, key=entered)

    def endpoint_failed(self, endpoint: LiveEndpoint, reason: str) -> None:
        """A request to it ended in a transport error."""
        if self.table.failed(endpoint, reason, time.time()):
            log.warning("endpoint out of rotation", endpoint=endpoint.spec.id, reason=reason)
            self.wake(endpoint)

    def _enter(self, head: RequestHead) -> LiveKey | Refusal | None:
        """The key of a model request (None: no keys are asked for), or why its body is not even read."""
        if head.method != b"POST":
            return refusals.method_not_allowed(_text(head.method), POST_METHODS)
        key = self._key(head)
        if isinstance(key, Refusal):
            return key
        if head.refusal is not None:
            return head.refusal
        if head.old_http:
            return refusals.OLD_HTTP
        limit = self.table.gateway.max_body_bytes
        if head.content_length is not None and head.content_length > limit:
            return refusals.too_large(limit)
        return key

    def _key(self, head: RequestHead) -> LiveKey | Refusal | None:
        return None if self.table.keys.open else self.table.keys.find(head.authorization)

    def _answer_itself(self, head: RequestHead, raw_path: bytes) -> Answer:
        """Everything that is no model request."""
        path = unquote(_text(raw_path))
        is_models = path == MODELS or path.startswith(MODELS + "/")
        if head.method == b"OPTIONS" and (is_models or path == "/healthz"):
            return Answer(204, [(b"allow", READ_METHODS.encode())])
        key = self._key(head) if is_models else None
        if isinstance(key, Refusal):
            return self._refused(key)
        if not is_models and path != "/healthz":
            return self._refused(head.refusal or refusals.NOT_FOUND)
        if head.method not in {b"GET", b"HEAD"}:
            return self._refused(refusals.method_not_allowed(_text(head.method), READ_METHODS))
        if not is_models:
            found: Answer | Refusal = self._health()
        else:
            found = self._models(key) if path == MODELS else self._model(key, path[len(MODELS) + 1 :])
        answered = self._refused(found) if isinstance(found, Refusal) else found
        answered.head_only = head.method == b"HEAD"
        return answered

    def _health(self) -> Answer:
        """200 while new requests are welcome. Having no routes is no fault of this process."""
        bundle = self.table.bundle
        document = {
            "status": "draining" if self.draining else "ok",
            "generation": None if bundle is None else bundle.generation,
        }
        return _json(503 if self.draining else 200, document)

    def _models(self, key: LiveKey | None) -> Answer:
        names = sorted(
            name
            for name, route in self.table.names.items()
            if route.ready and (key is None or key.may_use(route.spec.service))
        )
        return _json(200, {"object": "list", "data": [self._card(name) for name in names]})

    def _model(self, key: LiveKey | None, name: str) -> Answer | Refusal:
        route: LiveRoute | None = self.table.names.get(name)
        if route is None or (key is not None and not key.may_use(route.spec.service)):
            return refusals.unknown_model(name)
        if not route.ready:
            return refusals.not_ready(name, route.states())
        return _json(200, self._card(name))

    def _card(self, name: str) -> dict[str, object]:
        bundle = self.table.bundle
        created = 0 if bundle is None or bundle.written_at is None else int(bundle.written_at)
        return {"id": name, "object": "model", "created": created, "owned_by": "llmgw"}

    def _refused(self, why: Refusal, kind: Kind | None = None) -> Answer:
        count(self.counters.refused, why.code)
        return refused(why, "openai" if kind is None else kind.errors)


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


def _text(name: bytes) -> str:
    return name.decode("ascii", "replace")


def _json(status: int, document: object) -> Answer:
    body = json.dumps(document).encode()
    return Answer(status, [JSON, (b"content-length", b"%d" % len(body))], body)

# SPDX-License-Identifier: Apache-2.0
"""What the gateway answers by itself on the data listener: the list of models, the health question, 404 and 405."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import unquote

from llmgw.gateway.admit.auth import LiveKey
from llmgw.gateway.admit.entrance import stand_in
from llmgw.gateway.wire import refusal as refusals
from llmgw.gateway.wire.answer import JSON, Answer
from llmgw.gateway.wire.refusal import Refusal

if TYPE_CHECKING:
    from llmgw.gateway.dataplane import DataPlane
    from llmgw.gateway.table import LiveRoute, Table
    from llmgw.gateway.wire.headers import RequestHead

HEALTH = "/healthz"
MODELS = "/v1/models"
READ_METHODS = "GET, HEAD, OPTIONS"


def answer_itself(plane: DataPlane, head: RequestHead, raw_path: bytes) -> Answer | Refusal:
    """The answer to everything that is no model request."""
    path = unquote(raw_path.decode("ascii", "replace"))
    is_models = path == MODELS or path.startswith(MODELS + "/")
    if head.method == b"OPTIONS" and (is_models or path == HEALTH):
        return Answer(204, [(b"allow", READ_METHODS.encode())])
    key = plane.key_of(head) if is_models else None
    if isinstance(key, Refusal):
        return key
    if not is_models and path != HEALTH:
        return head.refusal or refusals.NOT_FOUND
    if head.method not in {b"GET", b"HEAD"}:
        return refusals.method_not_allowed(head.method.decode("ascii", "replace"), READ_METHODS)
    if not is_models:
        return _health(plane)
    return _models(plane.table, key) if path == MODELS else _model(plane.table, key, path[len(MODELS) + 1 :])


def _health(plane: DataPlane) -> Answer:
    """200 while new requests are welcome. Having no routes is no fault of this process."""
    bundle = plane.table.bundle
    document = {
        "status": "draining" if plane.draining else "ok",
        "generation": None if bundle is None else bundle.generation,
    }
    return _json(503 if plane.draining else 200, document)


def _models(table: Table, key: LiveKey | None) -> Answer:
    """What can be served, for this key."""
    names = sorted(
        name
        for name, route in table.names.items()
        if _serves(table, route) and (key is None or key.may_use(route.spec.service))
    )
    return _json(200, {"object": "list", "data": [_card(table, name) for name in names]})


def _model(table: Table, key: LiveKey | None, name: str) -> Answer | Refusal:
    route: LiveRoute | None = table.names.get(name)
    if route is None or (key is not None and not key.may_use(route.spec.service)):
        return refusals.unknown_model(name)
    if not _serves(table, route):
        return refusals.not_ready(name, route.states())
    return _json(200, _card(table, name))


def _serves(table: Table, route: LiveRoute) -> bool:
    """Whether a request for it is answered now, be it by a fallback."""
    return bool(route.ready) or stand_in(table, route) is not None


def _card(table: Table, name: str) -> dict[str, object]:
    bundle = table.bundle
    created = 0 if bundle is None or bundle.written_at is None else int(bundle.written_at)
    return {"id": name, "object": "model", "created": created, "owned_by": "llmgw"}


def _json(status: int, document: object) -> Answer:
    body = json.dumps(document).encode()
    return Answer(status, [JSON, (b"content-length", b"%d" % len(body))], body)

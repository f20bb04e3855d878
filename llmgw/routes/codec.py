# SPDX-License-Identifier: Apache-2.0
"""The bundle as JSON: encoding, validated decoding, and the digest of its routes (R11, Q6)."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from llmgw.errors import LlmgwError
from llmgw.model.route import BUNDLE_FORMAT, Bundle, RouteTable
from llmgw.nodekit import unitfile

_BUNDLE = TypeAdapter(Bundle)
_ROUTES = TypeAdapter(RouteTable)


def routes_digest(routes: RouteTable) -> str:
    """The digest by which gateways and planner tell whether routes changed. The class of an endpoint's devices is told
    along and left out: it is unknown while a node's cards cannot be read, and nobody is routed by it.
    """
    document = _ROUTES.dump_python(routes, mode="json")
    for route in document["routes"]:
        for endpoint in route["endpoints"]:
            del endpoint["device_class"]
    return unitfile.digest(document)


def dump_bundle(bundle: Bundle) -> str:
    """The bundle as compact JSON text with a trailing newline."""
    return _BUNDLE.dump_json(bundle).decode() + "\n"


def dump_halves(bundle: Bundle) -> tuple[str, str]:
    """The bundle as two JSON objects: what its routes are, and what the bundles of one plan have in common (fleet and
    plan). The keys of both together are the bundle.
    """
    common = {"fleet", "plan"}
    return _BUNDLE.dump_json(bundle, exclude=common).decode(), _BUNDLE.dump_json(bundle, include=common).decode()


def load_bundle(data: bytes, path: str = "bundle.json") -> Bundle:
    """The bundle in `data`.

    Raises LlmgwError: `bundle-broken` when it is not whole or not of this shape, `bundle-format` when a newer llmgw
    wrote it.
    """
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise LlmgwError("bundle-broken", f"the bundle is not whole JSON: {error}", where=path, fix=_FIX) from error
    version = document.get("format_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > BUNDLE_FORMAT:
        raise LlmgwError(
            "bundle-format",
            f"the bundle has format {version}, this llmgw reads up to {BUNDLE_FORMAT}",
            where=path,
            fix="upgrade llmgw on the gateway host to the version that the controller runs",
        )
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError) as error:  # JSON can write halves of characters; nothing can send them
        raise LlmgwError("bundle-broken", f"the bundle holds what is no text: {error}", where=path, fix=_FIX) from error
    try:
        return _BUNDLE.validate_python(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the top"
        raise LlmgwError(
            "bundle-broken", f"the bundle is wrong at {place}: {first['msg']}", where=path, fix=_FIX
        ) from error


_FIX = "run `llmgw apply` again: it writes the bundle anew; until then the gateway serves by the last good one"

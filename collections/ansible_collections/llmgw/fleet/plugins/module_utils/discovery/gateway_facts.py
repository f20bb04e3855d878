# SPDX-License-Identifier: BSD-2-Clause
"""What a gateway host holds and sees (R11, P9): its published bundle, and the endpoints' states by its gateway.

Private to llmgw. Of the bundle only what identifies it and the endpoints of its routes become facts: where a node's
units cannot be read, its routes stay as they were published.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
    EndpointHealth,
    Finding,
    GatewayFacts,
    PublishedBundle,
    PublishedEndpoint,
)

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Response

_BUNDLE_LIMIT = 256 * 1024 * 1024
_ENDPOINTS = "/api/v1/endpoints"
_ANSWER_S = 2.0
_OK = 200


class GatewayError(Exception):
    """A document is not what it should be; the message says why."""


def read_gateway(
    host: Host, bundle_path: str | None, admin_url: str | None, token_file: str | None
) -> tuple[GatewayFacts, tuple[Finding, ...]]:
    """The facts of a gateway host. What was not asked for stays unknown; what did not answer is a finding too."""
    findings: list[Finding] = []
    published = None
    if bundle_path is not None:
        try:
            published = _bundle_at(host, bundle_path)
        except GatewayError as error:
            published = PublishedBundle(bundle_path)
            findings.append(
                _finding("bundle-unreadable", f"{bundle_path}: {error}", "Run llmgw apply: it publishes anew.")
            )
    if admin_url is None:
        return GatewayFacts(bundle=published), tuple(findings)
    headers = _authorization(host, token_file)
    if token_file is not None and not headers:
        findings.append(_finding("gateway-token-missing", f"{token_file} cannot be read", "Run discovery as root."))
    answer = host.fetch(admin_url.rstrip("/") + _ENDPOINTS, _ANSWER_S, headers)
    if answer.status is None:
        message = f"the gateway at {admin_url} does not answer: {answer.error}"
        remedy = "See systemctl status llmgw-gateway there; playbook llmgw.fleet.gateway installs and starts it."
        findings.append(_finding("gateway-unreachable", message, remedy))
        return GatewayFacts(reachable=False, bundle=published), tuple(findings)
    try:
        generation, health = endpoints(answer)
    except GatewayError as error:
        message = f"the gateway at {admin_url} does not tell its endpoints: {error}"
        remedy = (
            "With status 401, let llmgw_gateway_admin_token_file in the inventory name the file on this host that holds"
            " the gateway's admin token; else check the gateway's version."
        )
        findings.append(_finding("gateway-refuses", message, remedy))
        return GatewayFacts(reachable=True, bundle=published), tuple(findings)
    return GatewayFacts(True, generation, health, published), tuple(findings)  # noqa: FBT003


def _bundle_at(host: Host, path: str) -> PublishedBundle | None:
    text = host.read(path, _BUNDLE_LIMIT)
    if text is not None:
        return bundle(path, text)
    if host.exists(path):
        raise GatewayError("it is there and cannot be read")
    return None


def bundle(path: str, text: bytes) -> PublishedBundle:
    """What identifies the bundle in its JSON text. Raises GatewayError."""
    document = _document(text)
    return PublishedBundle(
        path=path,
        generation=_whole(document.get("generation")),
        routes_digest=_text(document.get("routes_digest")),
        written_at=_number(document.get("written_at")),
        endpoints=published_endpoints(document),
    )


def published_endpoints(document: dict[str, Any]) -> tuple[PublishedEndpoint, ...] | None:
    """What the routes of a bundle lead to, sorted by id; None when any of it cannot be told."""
    try:
        found = [
            _published(one, route["service"]) for route in document["routes"]["routes"] for one in route["endpoints"]
        ]
    except (KeyError, TypeError):
        return None
    if any(one is None for one in found):
        return None
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.id))


def _published(entry: dict[str, Any], service: object) -> PublishedEndpoint | None:
    name, address, port = _text(entry["id"]), _text(entry["address"]), _whole(entry["port"])
    if name is None or address is None or port is None or not isinstance(service, str):
        return None
    draining = entry.get("draining")
    return PublishedEndpoint(
        id=name,
        service=service,
        address=address,
        port=port,
        engine=_text(entry.get("engine")),
        model=_text(entry.get("model")),
        draining=draining if isinstance(draining, bool) else None,
        health_path=_text(entry.get("health_path")),
        models_path=_text(entry.get("models_path")),
        process_digest=_text(entry.get("process_digest")),
        api_key_env=_text(entry.get("api_key_env")),
        device_class=_text(entry.get("device_class")),
        devices=_whole(entry.get("devices")),
        max_model_len=_whole(entry.get("max_model_len")),
    )


def endpoints(answer: Response) -> tuple[int | None, tuple[EndpointHealth, ...]]:
    """Generation and endpoint states in an answer of /api/v1/endpoints; entries without an id are passed over.

    Raises GatewayError.
    """
    if answer.status != _OK:
        raise GatewayError(f"HTTP status {answer.status}")
    document = _document(answer.body)
    entries = document.get("endpoints")
    if not isinstance(entries, list):
        raise GatewayError("it has no list of endpoints")
    health = [
        EndpointHealth(
            endpoint=entry["id"],
            state=_text(entry.get("state")),
            in_flight=_whole(entry.get("in_flight")),
            since=_number(entry.get("since")),
            detail=_text(entry.get("detail")),
        )
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("id"), str)
    ]
    return _whole(document.get("generation")), tuple(health)


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GatewayError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise GatewayError("not a JSON object")
    return document


def _authorization(host: Host, token_file: str | None) -> dict[str, str]:
    token = (host.read(token_file) or b"").decode("ascii", "replace").strip() if token_file else ""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _finding(code: str, message: str, remedy: str) -> Finding:
    return Finding(code=code, severity="warn", message=message, remedy=remedy)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

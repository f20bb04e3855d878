# SPDX-License-Identifier: Apache-2.0
"""Who may use the admin listener (G8): whoever holds the token, or, where none is set, this machine alone.

A pure ASGI wrapper. It judges by the connection's path and headers before anything else runs.
"""

from __future__ import annotations

import base64
import binascii
import json

from starlette.types import ASGIApp, Receive, Scope, Send

from llmgw.errors import LlmgwError
from llmgw.gateway.admin.admin_models import ErrorDetail, ErrorDocument
from llmgw.gateway.admit.auth import bearer, is_secret
from llmgw.gateway.processes.listen import Address
from llmgw.gateway.table import Table

OPEN_PATHS = frozenset({"/healthz"})
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
BASIC = b"basic "


class Guard:
    """Lets requests through to `app`, or answers 401 or 403."""

    def __init__(self, app: ASGIApp, table: Table, address: Address) -> None:
        self._app = app
        self._table = table
        self._local = address.is_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        refused = self._judge(scope) if scope["type"] == "http" and scope["path"] not in OPEN_PATHS else None
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, detail = refused
        body = json.dumps(ErrorDocument(error=detail).model_dump()).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if status == 401:  # noqa: PLR2004
            headers.append((b"www-authenticate", b'Basic realm="llmgw", charset="UTF-8"'))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _judge(self, scope: Scope) -> tuple[int, ErrorDetail] | None:
        digest = self._table.gateway.admin_token_sha256
        if digest is not None:
            secret = _secret(_values(scope, b"authorization"))
            if secret is not None and is_secret(secret, digest):
                return None
            return 401, ErrorDetail(
                code="admin-token",
                message="This needs the admin token.",
                fix="send `Authorization: Bearer TOKEN`; a browser takes it as the password, with any user name",
            )
        if not self._local:
            return 403, ErrorDetail(code="admin-open", message=NO_TOKEN, fix=NO_TOKEN_FIX)
        hosts = _values(scope, b"host")
        if len(hosts) == 1 and _name(hosts[0]) in LOCAL_NAMES:
            return None
        return 403, ErrorDetail(
            code="admin-host",
            message="Without an admin token, this listener answers to localhost and 127.0.0.1 only.",
            fix="use such a URL, or set gateway.admin_token_sha256 in the catalog",
        )


NO_TOKEN = "the admin listener can be reached from other machines and no admin token is set"  # noqa: S105 - a sentence
NO_TOKEN_FIX = "set gateway.admin_token_sha256 in the catalog, or let the admin listener be 127.0.0.1:8081"  # noqa: S105


def check_exposed(address: Address, table: Table) -> None:
    """Raises LlmgwError `admin-open` where the admin listener would be open to other machines without a token."""
    if not address.is_loopback and table.gateway.admin_token_sha256 is None:
        raise LlmgwError("admin-open", NO_TOKEN, where=f"admin listener {address}", fix=NO_TOKEN_FIX)


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _name(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    name, _colon, port = text.rpartition(":")
    return name if name and port.isdigit() else text


def _secret(authorizations: list[bytes]) -> bytes | None:
    """The token of a Bearer or Basic header; None where there is not exactly one."""
    if len(authorizations) != 1:
        return None
    header = authorizations[0]
    if header[: len(BASIC)].lower() != BASIC:
        return bearer(header)
    try:
        pair = base64.b64decode(header[len(BASIC) :].strip(), validate=True)
    except binascii.Error:
        return None
    _user, _colon, password = pair.partition(b":")
    return password or None

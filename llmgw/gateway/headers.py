# SPDX-License-Identifier: Apache-2.0
"""Which headers cross the gateway (G8): everything but what belongs to one hop, to the gateway, or to nobody else."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.gateway.asgi import RawHeaders
from llmgw.gateway.refusal import ENCODED_BODY, TRANSFER_CODING, Refusal

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110, 7.6.1, and two names of older practice."""

READ_HERE = frozenset({b"content-length", b"content-encoding", b"authorization", b"transfer-encoding"})
KEPT_FROM_ENGINES = HOP_BY_HOP | READ_HERE | {b"host", b"expect", b"cookie", b"x-api-key", b"api-key"}
"""The gateway writes its own host, framing and authorization; a client's credentials end here."""

INTERNAL = b"x-llmgw-"
_HARMLESS = frozenset({b"keep-alive", b"close", b""})
_NONE: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class RequestHead:
    """A client's headers, read once. `forward` is the block for the engine, each line ended."""

    forward: bytes
    authorization: bytes | None = None
    """None: absent. Two such headers are joined with a comma, which no key matches."""
    content_length: int | None = None
    refusal: Refusal | None = None


def read_request(headers: RawHeaders) -> RequestHead:
    """What the gateway must know of a request's headers, and those that the engine gets, duplicates kept in order."""
    head = RequestHead(b"")
    lines: list[bytes] = []
    of_this_hop = _NONE
    for name, value in headers:
        if name in KEPT_FROM_ENGINES:
            if name == b"connection":
                of_this_hop |= _tokens(value)
            elif name in READ_HERE:
                _read(head, name, value)
        elif not name.startswith(INTERNAL):
            lines += (name, b": ", value, b"\r\n")
    if of_this_hop:
        kept = [(name, value) for name, value in headers if name not in of_this_hop and name != b"connection"]
        head.forward = read_request(kept).forward
    else:
        head.forward = b"".join(lines)
    return head


def _read(head: RequestHead, name: bytes, value: bytes) -> None:
    """Takes one of the gateway's own headers in."""
    if name == b"content-length":
        head.content_length = int(value) if value.isdigit() else None
    elif name == b"authorization":
        head.authorization = value if head.authorization is None else head.authorization + b"," + value
    elif name == b"content-encoding":
        if value.strip().lower() not in {b"", b"identity"}:
            head.refusal = ENCODED_BODY
    elif value.strip().lower() != b"chunked":
        head.refusal = TRANSFER_CODING


def _tokens(connection: bytes) -> frozenset[bytes]:
    """Header names that a Connection header declares to be of this hop only."""
    if connection in _HARMLESS:
        return _NONE
    return frozenset(token.strip().lower() for token in connection.split(b",")) - _HARMLESS


def response_headers(headers: RawHeaders) -> RawHeaders:
    """An engine's headers without those of its hop; names in lower case, duplicates kept in order."""
    dropped = HOP_BY_HOP
    for name, value in headers:
        if name == b"connection":
            dropped |= _tokens(value)
    return [(name, value) for name, value in headers if name not in dropped]

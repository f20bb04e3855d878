# SPDX-License-Identifier: Apache-2.0
"""Which headers cross the gateway (G8): everything but what belongs to one hop, to the gateway, or to nobody else."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.gateway.wire.raw import RawHeaders
from llmgw.gateway.wire.refusal import ENCODED_BODY, NO_WEBSOCKETS, TRANSFER_CODING, Refusal

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

READ_HERE = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"expect",
        b"transfer-encoding",
        b"upgrade",
        b"x-api-key",
        b"x-request-id",
    }
)
KEPT_FROM_ENGINES = HOP_BY_HOP | READ_HERE | {b"host", b"cookie", b"api-key", b"http2-settings"}
"""The gateway writes its own host, framing, request id and authorization; a client's credentials end here."""
KEPT_FROM_CLIENTS = HOP_BY_HOP | {b"x-request-id"}
"""The gateway says its own framing, and under which name it knows the request."""
READ_AND_PASSED_ON = frozenset({b"content-type", b"traceparent", b"x-session-id"})

INTERNAL = b"x-llmgw-"
EXPLAIN = b"x-llmgw-explain"
_KNOWN = KEPT_FROM_ENGINES | READ_AND_PASSED_ON
_HARMLESS = frozenset({b"keep-alive", b"close", b""})
_NONE: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class RequestHead:
    """A request's head, read once. `forward` is the block for the engine, each line ended."""

    forward: bytes
    method: bytes = b"POST"
    target: bytes = b"/"
    keep: bool = True
    """Whether the client's connection goes on after this request."""
    old_http: bool = False
    """Whether it is not HTTP/1.1."""
    authorization: bytes | None = None
    """None: absent. Two such headers are joined with a comma, which no key matches."""
    api_key: bytes | None = None
    """`x-api-key`, as Anthropic's clients send it; two are joined as well."""
    content_length: int | None = None
    content_type: bytes = b""
    request_id: bytes | None = None
    session: bytes | None = None
    traceparent: bytes | None = None
    """Two are joined with a comma, which makes none."""
    expects_continue: bool = False
    explain: bool = False
    refusal: Refusal | None = None


def read_request(headers: RawHeaders) -> RequestHead:
    """What the gateway must know of a request's headers, and those that the engine gets, duplicates kept in order."""
    head = RequestHead(b"")
    lines: list[bytes] = []
    of_this_hop = _NONE
    for name, value in headers:
        if name in _KNOWN:
            if name == b"connection":
                of_this_hop |= _tokens(value)
            elif name in READ_HERE:
                _read(head, name, value)
            elif name in READ_AND_PASSED_ON:
                _note(head, name, value)
                lines += (name, b": ", value, b"\r\n")
        elif not name.startswith(INTERNAL):
            lines += (name, b": ", value, b"\r\n")
        elif name == EXPLAIN:
            head.explain = True
    if of_this_hop:
        kept = [(name, value) for name, value in headers if name not in of_this_hop and name != b"connection"]
        head.forward = read_request(kept).forward
    else:
        head.forward = b"".join(lines)
    return head


def _note(head: RequestHead, name: bytes, value: bytes) -> None:
    """Takes a header in that the engine gets too."""
    if name == b"content-type":
        head.content_type = value if not head.content_type else head.content_type + b"," + value
    elif name == b"traceparent":
        head.traceparent = value if head.traceparent is None else head.traceparent + b"," + value
    else:
        head.session = value


def _read(head: RequestHead, name: bytes, value: bytes) -> None:  # noqa: C901 - one branch a header
    """Takes one of the gateway's own headers in."""
    if name == b"content-length":
        head.content_length = int(value) if value.isdigit() else None
    elif name == b"authorization":
        head.authorization = value if head.authorization is None else head.authorization + b"," + value
    elif name == b"x-api-key":
        head.api_key = value if head.api_key is None else head.api_key + b"," + value
    elif name == b"x-request-id":
        head.request_id = value if head.request_id is None else head.request_id + b"," + value
    elif name == b"expect":
        head.expects_continue = value.lower() == b"100-continue"
    elif name == b"upgrade":
        if value.strip().lower() == b"websocket":
            head.refusal = NO_WEBSOCKETS
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


def relayed(headers: RawHeaders) -> tuple[list[bytes], bool]:
    """An engine's headers without those of its hop, as pieces of lines, duplicates kept in order; and whether one of
    them tells the body's length. Names are in lower case.
    """
    pieces: list[bytes] = []
    sized = False
    dropped = KEPT_FROM_CLIENTS
    for name, value in headers:
        if name in dropped:
            if name == b"connection" and value not in _HARMLESS and _tokens(value) - dropped:
                of_this_hop = {name}.union(*(_tokens(said) for one, said in headers if one == name))
                return relayed([header for header in headers if header[0] not in of_this_hop])
        elif not name.startswith(INTERNAL):
            if name == b"content-length":
                sized = True
            pieces += (name, b": ", value, b"\r\n")
    return pieces, sized

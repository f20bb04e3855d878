# SPDX-License-Identifier: Apache-2.0
"""Answers as the bytes of HTTP/1.1: the gateway's own, whole, and the heads of those that engines give."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from llmgw.gateway.wire import anthropic_errors
from llmgw.gateway.wire.raw import RawHeaders
from llmgw.gateway.wire.refusal import Refusal

JSON: Final = (b"content-type", b"application/json")
CLOSE: Final = b"connection: close\r\n"


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


_LINES: Final = tuple(_status_line(status) for status in range(1000))


def relayed_head(status: int, pieces: list[bytes], *after: bytes) -> bytes:
    """The head of an engine's answer, of whose headers `pieces` are, and `after` more of them, each line ended."""
    return b"".join((_LINES[status], *pieces, *after, b"\r\n"))


def head(status: int, headers: RawHeaders, after: bytes) -> bytes:
    """An answer's head. `after`: further header lines, each ended."""
    lines = [_LINES[status]]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    lines += (after, b"\r\n")
    return b"".join(lines)


@dataclass(slots=True)
class Answer:
    """An answer that the gateway gives by itself. `head_only`: to a HEAD request, whose answer has no body."""

    status: int
    headers: RawHeaders
    body: bytes = b""
    close: bool = False
    head_only: bool = False

    def bytes(self, *, close: bool) -> bytes:
        """The whole of it. `close`: the connection ends with it."""
        after = CLOSE if close or self.close else b""
        return head(self.status, self.headers, after) + (b"" if self.head_only else self.body)


def refused(refusal: Refusal, errors: str = "openai", request_id: bytes | None = None) -> Answer:
    """The answer that says why a request is not passed on, in the error shape of the client's API."""
    body = refusal.body() if errors == "openai" else anthropic_errors.error_body(refusal)
    headers = refusal.headers(body)
    if request_id is not None:
        headers.append((b"x-request-id", request_id))
    return Answer(refusal.status, headers, body, close=refusal.close)

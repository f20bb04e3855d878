# SPDX-License-Identifier: Apache-2.0
"""What a request is called: the client's own name for it where that is one, else one of the gateway's.

And what trace it belongs to, after W3C Trace Context, "traceparent Header". The gateway is what that document calls a
pass-through service: it makes no spans, so `traceparent` and `tracestate` go to the engine as they came, whatever they
hold ("Pass-through services should not analyze the version", "Versioning of traceparent"), and it adds none of its own.
Only for its own record it reads the trace id, and for that a traceparent that is not valid counts as none ("vendors
MUST ignore the traceparent").
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from llmgw.gateway.wire.raw import RawHeaders

REQUEST_ID: Final = b"x-request-id"
TRACEPARENT: Final = b"traceparent"
PREFIX_BYTES: Final = 8

_taken = re.compile(rb"[A-Za-z0-9._:-]{1,128}").fullmatch
_FIELDS: Final = rb"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_current_version = re.compile(rb"00" + _FIELDS).fullmatch
_later_version = re.compile(rb"(?!00|ff)[0-9a-f]{2}" + _FIELDS + rb"(-.*)?", re.DOTALL).fullmatch
_TRACE_ID: Final = slice(3, 35)


class RequestIds:
    """The request ids of one process. Each process makes its own: the prefix is what keeps their ids apart.

    The prefix is random, so that ids of two gateways, two workers or two starts never meet; the number after it says
    the order. An id is a name and no secret: nobody is let in by one.
    """

    __slots__ = ("_made", "_prefix")

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(PREFIX_BYTES)
        self._made = 0

    def take(self, value: bytes | None) -> str:
        """The client's `x-request-id` where it is 1 to 128 characters of `A-Za-z0-9._:-`, else a new id."""
        if value is not None and _taken(value):
            return value.decode()
        self._made += 1
        return f"{self._prefix}-{self._made:x}"

    def of(self, headers: RawHeaders) -> tuple[str, str | None]:
        """The request's id, and the id of its trace. Names in `headers` are in lower case.

        A header that is there twice says nothing: which of the two is meant cannot be known.
        """
        return self.take(_only(headers, REQUEST_ID)), trace_id(_only(headers, TRACEPARENT))


def trace_id(traceparent: bytes | None) -> str | None:
    """The trace id, 32 hexadecimal digits, or None where there is no valid traceparent.

    Version 00 is exactly four fields; a later one may have more after a dash; ff is no version. Neither the trace id
    nor the parent id may be all zeros, and digits are in lower case.
    """
    if traceparent is None or not (_current_version(traceparent) or _later_version(traceparent)):
        return None
    return traceparent[_TRACE_ID].decode()


def _only(headers: RawHeaders, name: bytes) -> bytes | None:
    values = [value for key, value in headers if key == name]
    return values[0] if len(values) == 1 else None

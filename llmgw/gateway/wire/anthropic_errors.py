# SPDX-License-Identifier: Apache-2.0
"""The gateway's refusals in the shape that clients of Anthropic's API read."""

from __future__ import annotations

import json
from typing import Final

from llmgw.gateway.wire.refusal import Refusal

_KINDS: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Anthropic's error types by status. 503 is theirs too: it is what a client waits and tries again for."""


def error_body(refusal: Refusal) -> bytes:
    """Anthropic's error document, as UTF-8. The stable code is in `x-llmgw-reason`: the shape has no place for it."""
    kind = _KINDS.get(refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error")  # noqa: PLR2004
    return json.dumps({"type": "error", "error": {"type": kind, "message": refusal.message}}).encode()

# SPDX-License-Identifier: Apache-2.0
"""What the gateway answers when it does not pass a request on: OpenAI's error shape, and why, for people and for SDKs.

404 was never served here; 503 will be, so it carries Retry-After; 429 is served and busy; 502 and 504 are the engine's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from llmgw.gateway.wire.raw import RawHeaders

SHOWN_NAME = 120
"""Characters of a client's model name that a message repeats."""
SERVICE_UNAVAILABLE = 503

LOADING_RETRY_S = 5
BUSY_RETRY_S = 1


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of the gateway's own. `code` is stable: `error.code`, the metric's label and `x-llmgw-reason`."""

    status: int
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    allow: str | None = None
    close: bool = False
    """Whether the connection ends with this answer: its request was not read to the end."""

    def body(self) -> bytes:
        """OpenAI's error document, as UTF-8."""
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")  # noqa: PLR2004
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()

    def headers(self, body: bytes) -> RawHeaders:
        """Headers for `body`."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"x-llmgw-reason", self.code.encode()),
        ]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        if self.allow is not None:
            headers.append((b"allow", self.allow.encode()))
        if self.status == 401:  # noqa: PLR2004
            headers.append((b"www-authenticate", b"Bearer"))
        return headers


def bad_body(message: str, param: str | None = None) -> Refusal:
    """The body cannot be read, or the engine could read it differently (G8)."""
    return Refusal(400, "invalid_body", message, param)


def unknown_model(name: str) -> Refusal:
    """No route has this name, or the key may not use it: OpenAI does not tell the two apart."""
    shown = name if len(name) <= SHOWN_NAME else name[:SHOWN_NAME] + "..."
    return Refusal(
        404, "model_not_found", f"The model `{shown}` does not exist or you do not have access to it.", "model"
    )


def not_ready(name: str, states: dict[str, int]) -> Refusal:
    """The model is served here, but no replica answers now. `states` counts its endpoints by state."""
    if any(states.get(state) for state in ("starting", "loading")):
        why, code = "it is loading", "model_loading"
    elif states:
        why, code = "none of its replicas answers", "no_replica_ready"
    else:
        why, code = "no replica of it is placed", "no_replica_placed"
    seen = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    text = f"The model `{name}` cannot answer now: {why}{f' ({seen})' if seen else ''}. Try again later."
    return Refusal(SERVICE_UNAVAILABLE, code, text, "model", retry_after_s=LOADING_RETRY_S)


def upstream_failed(reason: str, tried: int) -> Refusal:
    """Every attempt ended before an answer began."""
    text = f"The model did not answer: {reason.replace('_', ' ')} (attempts: {tried})."
    return Refusal(502, "upstream_failed", text, retry_after_s=BUSY_RETRY_S)


def too_large(limit: int) -> Refusal:
    """The body passes the gateway's cap."""
    return Refusal(413, "body_too_large", f"The request body is larger than this gateway's limit of {limit} bytes.")


def method_not_allowed(method: str, allow: str) -> Refusal:
    """The path exists, the method does not."""
    return Refusal(405, "method_not_allowed", f"{method} is not allowed here; allowed: {allow}.", allow=allow)


NO_BUNDLE = Refusal(
    503,
    "no_routes",
    "This gateway has no routes yet: it serves once `llmgw apply` has published a bundle to it.",
    retry_after_s=LOADING_RETRY_S,
)
UNREADABLE = Refusal(400, "invalid_request", "This is not a valid HTTP/1.1 request.", close=True)
BAD_CHUNKS = Refusal(400, "invalid_chunks", "The request body's chunks are mostly not body.", close=True)
TOTAL_TIMEOUT = Refusal(504, "total_timeout", "The request took longer than this gateway lets one take.", close=True)
HEAD_TOO_LARGE = Refusal(431, "headers_too_large", "The request's headers are too large.", close=True)
NO_WEBSOCKETS = Refusal(
    400, "no_websockets", "This gateway does not serve websockets: use HTTP with `stream`.", close=True
)
NOT_FOUND = Refusal(404, "not_found", "This gateway does not serve this path.")
NO_KEY = Refusal(
    401,
    "missing_api_key",
    "You did not provide an API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`.",
)
WRONG_KEY = Refusal(401, "invalid_api_key", "The API key is not known to this gateway.")
KEY_BUSY = Refusal(
    429,
    "key_concurrency",
    "Too many requests of this API key are in flight; wait for one to finish.",
    retry_after_s=BUSY_RETRY_S,
)
SERVICE_BUSY = Refusal(
    429,
    "service_concurrency",
    "Too many requests to this model are in flight at this gateway; wait for one to finish.",
    retry_after_s=BUSY_RETRY_S,
)
BODIES_BUSY = Refusal(
    503,
    "body_budget",
    "This gateway holds as many bytes of request bodies as it may; try again.",
    retry_after_s=BUSY_RETRY_S,
)
OUT_OF_RESOURCES = Refusal(
    503,
    "gateway_resources",
    "This gateway cannot open more connections; try again.",
    retry_after_s=BUSY_RETRY_S,
)
BODY_TIMEOUT = Refusal(408, "body_timeout", "The request body did not arrive in time.", close=True)
FIRST_BYTE_TIMEOUT = Refusal(504, "first_byte_timeout", "The model did not begin to answer in time.")
ENCODED_BODY = Refusal(
    415,
    "content_encoding",
    "Compressed request bodies are not accepted: send the body without Content-Encoding.",
)
TRANSFER_CODING = Refusal(501, "transfer_encoding", "The only transfer coding accepted is `chunked`.", close=True)
OLD_HTTP = Refusal(505, "http_version", "Model requests need HTTP/1.1 (nginx: proxy_http_version 1.1).", close=True)
BUG = Refusal(500, "internal_error", "The gateway failed on this request; its log says why.", close=True)

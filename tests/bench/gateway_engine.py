# SPDX-License-Identifier: Apache-2.0
"""An engine that costs as little as Python allows: fixed answers, once a request is whole.

    gateway_engine.py PORT CHUNKS GAP_S

Every POST is answered with CHUNKS server-sent events, one every GAP_S seconds; with 0 chunks by one small answer. A
body is counted, not kept: its size costs nothing but reading. What it asks for is not looked at either: routers write
it anew, each in its own way.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

TEXT = b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]'
EVENT = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",' + TEXT + b"}\n\n"
LAST = b"data: [DONE]\n\n"
ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":'
    b'"assistant","content":"Hello there, how can I help you today with this?"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":20,"completion_tokens":12,"total_tokens":32}}'
)
MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}]}'
METRICS = (
    b'vllm:num_requests_running{model_name="m"} 0\nvllm:num_requests_waiting{model_name="m"} 0\n'
    b'vllm:kv_cache_usage_perc{model_name="m"} 0\n'
)
LAST_CHUNK = b"0\r\n\r\n"


def whole(body: bytes, kind: bytes = b"application/json") -> bytes:
    """An answer with its length."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAMED, ENDED, UNARY = chunk(EVENT), chunk(LAST) + LAST_CHUNK, whole(ANSWER)
PAGES = {b"/v1/models": whole(MODELS), b"/metrics": whole(METRICS, b"text/plain")}
OTHER_PAGE = whole(b"{}")


class Engine(asyncio.Protocol):
    """One connection. Requests come one at a time; their bodies have a length or are chunked."""

    def __init__(self, chunks: int, gap_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks, self._gap_s = chunks, gap_s
        self._head = b""
        self._missing: int | None = None
        """Bytes of the body that are still to come; None: the last chunk ends it."""
        self._tail = b""
        self._sent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answers once the body is there."""
        if not self._head:
            self._tail += data
            head, end, data = self._tail.partition(b"\r\n\r\n")
            if not end:
                return
            self._head, self._tail = head, b""
            lowered = head.lower()
            _, named, rest = lowered.partition(b"content-length:")
            chunked = b"transfer-encoding:" in lowered
            self._missing = None if chunked else int(rest.partition(b"\r\n")[0]) if named else 0
        self._tail = (self._tail + data[-len(LAST_CHUNK) :])[-len(LAST_CHUNK) :]
        if self._missing is not None:
            self._missing -= len(data)
        if self._missing is None and not self._tail.endswith(LAST_CHUNK):
            return
        if self._missing is None or self._missing <= 0:
            self._answer()

    def _answer(self) -> None:
        method, path = self._head.split(b" ", 2)[:2]
        self._head = self._tail = b""
        if method == b"GET":
            self._transport.write(PAGES.get(path, OTHER_PAGE))
        elif self._chunks:
            self._transport.write(HEAD)
            self._sent = 0
            self._loop.call_later(self._gap_s, self._next)
        else:
            self._transport.write(UNARY)

    def _next(self) -> None:
        if self._transport.is_closing():
            return
        self._sent += 1
        if self._sent > self._chunks:
            self._transport.write(ENDED)
        else:
            self._transport.write(STREAMED)
            self._loop.call_later(self._gap_s, self._next)


async def main() -> None:
    """Serves until killed."""
    port, chunks, gap_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Engine(chunks, gap_s), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())

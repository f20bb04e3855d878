# SPDX-License-Identifier: Apache-2.0
"""The fastest engine that Python can be: fixed answers, written as soon as a request is whole.

    gateway_engine.py PORT

A body with `"stream": true` is answered with CHUNKS server-sent events, one every GAP_S; any other with one small
answer.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

CHUNKS = 100
GAP_S = 0.01
TEXT = b'"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]'
EVENT = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",' + TEXT + b"}\n\n"
LAST = b"data: [DONE]\n\n"
ANSWER = b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[' + b" " * 240 + b"]}"
MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}]}'


def whole(body: bytes) -> bytes:
    """An answer with its length."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAMED, UNARY, LISTED = chunk(EVENT), whole(ANSWER), whole(MODELS)


class Engine(asyncio.Protocol):
    """One connection. Requests come one at a time, with a content-length."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._sent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answers once the body is there."""
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        _, _, rest = head.lower().partition(b"content-length:")
        if rest and len(body) < int(rest.partition(b"\r\n")[0]):
            return
        self._buffer = b""
        if head.startswith(b"GET"):
            self._transport.write(LISTED)
        elif b'"stream": true' in body:
            self._transport.write(HEAD)
            self._sent = 0
            self._loop.call_later(GAP_S, self._next)
        else:
            self._transport.write(UNARY)

    def _next(self) -> None:
        if self._transport.is_closing():
            return
        self._sent += 1
        if self._sent > CHUNKS:
            self._transport.write(chunk(LAST) + b"0\r\n\r\n")
        else:
            self._transport.write(STREAMED)
            self._loop.call_later(GAP_S, self._next)


async def main() -> None:
    """Serves until killed."""
    server = await asyncio.get_running_loop().create_server(Engine, "127.0.0.1", int(sys.argv[1]), backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())

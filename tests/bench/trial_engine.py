# SPDX-License-Identifier: Apache-2.0
"""An engine that answers every request with a digest of what it was asked, so that an answer proves whose it is.

    trial_engine.py PORT

A chat request is answered with DIGEST of its last message, repeated `max_tokens` times (1 where there is none), whole
or, with `"stream": true`, as one event a piece with GAP_S between them. `/health` and `/v1/models` are answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys

import uvloop

GAP_S = 0.003
MODEL = "m"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()


def digest(text: str) -> str:
    """What an engine answers to a message."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer with its length."""
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
    return head + body


def event(content: str) -> bytes:
    """One chunk with one server-sent event."""
    data = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]}).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def completion(pieces: list[str]) -> bytes:
    """An answer in one piece."""
    message = {"role": "assistant", "content": "".join(pieces)}
    document = {"object": "chat.completion", "model": MODEL, "choices": [{"index": 0, "message": message}]}
    return json.dumps(document).encode()


class Connection(asyncio.Protocol):
    """One connection. Requests come one at a time, with a content-length."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._missing = 0
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Answers once a request is whole."""
        if self._missing:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing <= 0:
                self._answer(b"".join(self._pieces))
            return
        self._pieces.append(data)
        head, end, body = b"".join(self._pieces).partition(b"\r\n\r\n")
        if not end:
            return
        self._path = head.split(b" ", 2)[1]
        found = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        self._pieces = [body]
        self._missing = int(found or 0) - len(body)
        if self._missing <= 0:
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        self._pieces, self._missing = [], 0
        if self._path == b"/health":
            self._transport.write(whole(b"{}"))
        elif self._path == b"/v1/models":
            self._transport.write(whole(MODELS))
        else:
            try:
                asked = json.loads(body)
                pieces = [digest(asked["messages"][-1]["content"])] * (asked.get("max_tokens") or 1)
            except (ValueError, KeyError, TypeError) as error:
                self._transport.write(whole(repr(error).encode(), b"400 Bad Request"))
                return
            if asked.get("stream"):
                self._transport.write(HEAD)
                self._next(pieces)
            else:
                self._transport.write(whole(completion(pieces)))

    def _next(self, pieces: list[str]) -> None:
        if self._transport.is_closing():
            return
        if not pieces:
            self._transport.write(END)
            return
        self._transport.write(event(pieces[0]))
        self._loop.call_later(GAP_S, self._next, pieces[1:])


async def main() -> None:
    """Serves until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", int(sys.argv[1]), backlog=2048, reuse_address=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())

# SPDX-License-Identifier: Apache-2.0
"""A client on a bare socket: what it sends is what is written, and what it got is kept byte by byte."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, Self
from urllib.parse import urlsplit

from tests.gateway.engine import WAIT_S

CHAT = "/v1/chat/completions"


def asking(model: str = "m", **more: Any) -> bytes:
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **more}).encode()


def post(body: bytes, path: str = CHAT, headers: str = "") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: gw\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


class Client:
    """One connection. Use as a context manager."""

    def __init__(self, url: str, receive_buffer: int | None = None) -> None:
        parts = urlsplit(url)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WAIT_S)
        self.socket.connect((parts.hostname, parts.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reset(self) -> None:
        """Leaves with a RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def until(self, mark: bytes) -> bytes:
        """What came up to and including `mark`."""
        while mark not in self._buffer:
            data = self.socket.recv(65536)
            assert data, f"closed before {mark!r}; got {self._buffer[-300:]!r}"
            self._buffer += data
        found, _, self._buffer = self._buffer.partition(mark)
        return found + mark

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        """Status and headers of the next answer."""
        line, *rest = self.until(b"\r\n\r\n").decode("latin-1").rstrip("\r\n").split("\r\n")
        return int(line.split(" ")[1]), [
            (name, value.strip()) for name, _, value in (one.partition(":") for one in rest)
        ]

    def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.socket.recv(1 << 20)
            assert data, f"closed {size - len(self._buffer)} bytes early"
            self._buffer += data
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def answer(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """The next answer, whole, its chunks joined."""
        status, headers = self.head()
        named = {name.lower(): value for name, value in headers}
        if "content-length" in named:
            return status, headers, self.exactly(int(named["content-length"]))
        body = b""
        while "transfer-encoding" in named:
            size = int(self.until(b"\r\n"), 16)
            body += self.exactly(size)
            self.until(b"\r\n")
            if not size:
                break
        return status, headers, body

    def rest(self) -> bytes:
        """All until the connection closes."""
        while True:
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                found, self._buffer = self._buffer, b""
                return found
            self._buffer += data

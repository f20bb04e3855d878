# SPDX-License-Identifier: Apache-2.0
"""An engine for tests: a real HTTP server on real sockets, whose answers are scripted byte by byte."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

WAIT_S = 5.0


@dataclass(frozen=True)
class Request:
    """A request as it came: request line, headers in order, body."""

    line: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    raw: bytes

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


class Wire:
    """The engine's end of one connection while it answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.keep = True

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def client_left(self, within_s: float = WAIT_S) -> float | None:
        """How long until the other end was gone, or None when it is still there after `within_s`."""
        began = time.monotonic()
        readable, _, _ = select.select([self._connection], [], [], within_s)
        if not readable:
            return None
        try:
            gone = self._connection.recv(1) == b""
        except ConnectionError:
            gone = True
        return time.monotonic() - began if gone else None

    def close(self) -> None:
        self.keep = False

    def reset(self) -> None:
        """Closes with a RST."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.keep = False


Answer = Callable[[Request, Wire], None]


def whole(body: bytes, status: str = "200 OK", headers: str = "content-type: application/json\r\n") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode() + b"\n\n"


def answer_ok(request: Request, wire: Wire) -> None:
    del request
    wire.send(whole(b'{"id":"x","choices":[]}'))


@contextmanager
def swallowing() -> Iterator[int]:
    """A port where connections neither come about nor fail: its queue is full and nobody accepts."""
    with socket.socket() as listener, ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _number in range(4):
            filler = waiting.enter_context(socket.socket())
            filler.settimeout(0)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@dataclass
class Engine:
    """Serves on a thread per connection until `stop`. Requests to a model are in `requests`, in order of arrival."""

    model: str = "m"
    answer: Answer = answer_ok
    health: str = "200 OK"
    host: str = "127.0.0.1"
    port: int = 0
    answer_health: Answer | None = None
    requests: list[Request] = field(default_factory=list)
    probes: list[Request] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None
        self.start()

    def start(self) -> None:
        """Listens, on the same port again after a stop."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.host, self.port))
        listener.listen(256)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._begin(self._accept, listener)

    def stop(self) -> None:
        """Dies: every socket closes at once."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(WAIT_S)
        assert not any(thread.is_alive() for thread in self._threads), "a thread of the test's engine hangs"
        self._threads.clear()

    def _begin(self, work: Callable[[socket.socket], None], connection: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(connection,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        wire = Wire(connection)
        try:
            for request in _requests(connection):
                self._one(request, wire)
                if not wire.keep:
                    break
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _one(self, request: Request, wire: Wire) -> None:
        if request.line.startswith("GET"):
            self.probes.append(request)
            if self.answer_health is not None:
                self.answer_health(request, wire)
            elif "/health" in request.line:
                wire.send(whole(b"{}", self.health))
            else:
                wire.send(whole(json.dumps({"object": "list", "data": [{"id": self.model}]}).encode()))
            return
        self.requests.append(request)
        self.answer(request, wire)


def _requests(connection: socket.socket) -> Iterator[Request]:
    """Requests on one connection, each read whole. Only content-length is understood: the gateway must send it."""
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            data = connection.recv(65536)
            if not data:
                return
            buffer += data
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        headers = tuple((name, value.lstrip(" ")) for name, _, value in (one.partition(":") for one in rest))
        length = sum(int(value) for name, value in headers if name.lower() == "content-length")
        pieces = [buffer[:length]]
        missing = length - len(pieces[0])
        buffer = buffer[length:]
        while missing:
            data = connection.recv(min(missing, 1 << 20))
            if not data:
                return
            pieces.append(data)
            missing -= len(data)
        yield Request(line, headers, b"".join(pieces), head)

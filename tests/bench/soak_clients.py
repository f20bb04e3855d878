# SPDX-License-Identifier: Apache-2.0
"""The clients of a soak: each asks without a pause, by every way that a client has, and checks every answer."""

from __future__ import annotations

import itertools
import json
import random
import socket
import struct
import threading
import time
from dataclasses import dataclass

from tests.bench.trial_engine import digest

PATIENCE_S = 60.0
"""A client that waits longer for the next byte has found a hang."""
SIZES = (100, 100, 2000, 2000, 20_000, 200_000)


@dataclass(frozen=True)
class Outcome:
    """What came of one request. `kind`: ok, wrong, refused, cut, closed, hang, left."""

    kind: str
    service: str
    began: float
    ended: float
    status: int | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """For counting."""
        return f"{self.kind} {self.status} {self.reason}".strip() if self.status not in {None, 200} else self.kind


class SoakClient(threading.Thread):
    """One thread with one connection at a time."""

    def __init__(self, number: int, port: int, stop: threading.Event, services: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self._number = number
        self._port = port
        self._stop_asking = stop
        self._services = services
        self._chance = random.Random(number)
        self._socket: socket.socket | None = None
        self._buffer = b""
        self.counts: dict[str, int] = {}
        self.failures: list[Outcome] = []

    def run(self) -> None:
        """Until told to stop."""
        for count in itertools.count():
            if self._stop_asking.is_set():
                break
            outcome = self._one(f"client {self._number} request {count} ")
            self.counts[outcome.name] = self.counts.get(outcome.name, 0) + 1
            if outcome.kind not in {"ok", "left"}:
                self.failures.append(outcome)
            if outcome.kind == "refused":
                time.sleep(self._chance.random() * 0.2)
        self._drop(reset=False)

    def _one(self, name: str) -> Outcome:
        chance = self._chance
        service = chance.choice(self._services)
        stream = chance.random() < 0.5
        repeats = chance.choice([1, 1, 8, 40])
        text = name + "x" * chance.choice(SIZES)
        asked = {
            "model": service if chance.random() < 0.7 else f"{service}-alias",
            "messages": [{"role": "user", "content": text}],
            "stream": stream,
            "max_tokens": repeats,
        }
        body = json.dumps(asked).encode()
        began = time.monotonic()
        status: int | None = None
        reason = ""
        kind = "closed"
        try:
            self._send(body, in_chunks=chance.random() < 0.1)
            if chance.random() < 0.05:
                time.sleep(chance.random() * 0.05)
                self._drop(reset=chance.random() < 0.5)
                return Outcome("left", service, began, time.monotonic())
            status, headers = self._head()
            kind = "cut"
            answer = self._body(headers)
            reason = headers.get("x-llmgw-reason", "")
            right = _text(answer, stream=stream and status == 200) == digest(text) * repeats
            kind = "refused" if status != 200 else "ok" if right else "wrong"
        except TimeoutError:
            kind = "hang"
        except (ConnectionError, EOFError, ValueError):
            pass
        if kind not in {"ok", "refused"} or chance.random() < 0.05:
            self._drop(reset=False)
        return Outcome(kind, service, began, time.monotonic(), status, reason)

    def _send(self, body: bytes, *, in_chunks: bool) -> None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=PATIENCE_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._buffer = b""
        start = b"POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\n"
        if in_chunks:
            half = len(body) // 2
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]))
            self._socket.sendall(start + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        else:
            self._socket.sendall(start + b"content-length: %d\r\n\r\n" % len(body) + body)

    def _drop(self, *, reset: bool) -> None:
        if self._socket is not None:
            if reset:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._socket.close()
            self._socket = None

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 16)
        if not data:
            raise EOFError
        self._buffer += data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _mark, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _head(self) -> tuple[int, dict[str, str]]:
        line, *rest = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        pairs = (one.partition(":") for one in rest)
        return int(line.split(" ")[1]), {name.lower(): value.strip() for name, _colon, value in pairs}

    def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        pieces = []
        while size := int(self._until(b"\r\n"), 16):
            pieces.append(self._exactly(size))
            self._until(b"\r\n")
        self._until(b"\r\n")
        return b"".join(pieces)


def _text(answer: bytes, *, stream: bool) -> str | None:
    """The content of an answer; None where it is none."""
    try:
        if not stream:
            return str(json.loads(answer)["choices"][0]["message"]["content"])
        events = [one.removeprefix(b"data: ") for one in answer.split(b"\n\n") if one]
        if events.pop() != b"[DONE]":
            return None
        return "".join(json.loads(one)["choices"][0]["delta"]["content"] for one in events)
    except (ValueError, KeyError, IndexError, TypeError):
        return None

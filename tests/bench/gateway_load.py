# SPDX-License-Identifier: Apache-2.0
"""Load on one URL: connections that each send the next request as soon as the last one is answered.

    gateway_load.py PORT CONNECTIONS SECONDS unary|stream

Prints one JSON line: requests answered, answers that were not 200, and the latencies' percentiles.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time

import uvloop

TEXT = "The quick brown fox jumps over the lazy dog. " * 40
QUESTION = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": TEXT}]
LAST_CHUNK = b"0\r\n\r\n"


def request(*, stream: bool) -> bytes:
    """A chat request of 2 KB as the official client sends it, headers included."""
    body = json.dumps({"model": "m", "messages": QUESTION, "max_tokens": 16, "stream": stream}).encode()
    headers = (
        "host: 127.0.0.1\r\naccept: application/json\r\ncontent-type: application/json\r\nauthorization: Bearer k\r\n"
        "user-agent: OpenAI/Python\r\nx-stainless-lang: python\r\nx-stainless-retry-count: 0\r\n"
    )
    return f"POST /v1/chat/completions HTTP/1.1\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body


class Client(asyncio.Protocol):
    """One connection in a closed loop. Knows where an answer ends, and nothing else of it."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._buffer = b""
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._next()

    def _next(self) -> None:
        self._began = time.perf_counter()
        self._buffer = b""
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        """Looks for the end of the answer. Of a stream only its last bytes matter."""
        self._buffer += data
        if not self._whole():
            self._buffer = self._buffer[:12] + self._buffer[-16:] if len(self._buffer) > 4096 else self._buffer
            return
        self._load.latencies.append(time.perf_counter() - self._began)
        self._load.failed += self._buffer[9:12] != b"200"
        if time.perf_counter() < self._load.end:
            self._next()
        else:
            self._transport.close()

    def _whole(self) -> bool:
        if self._buffer.endswith(LAST_CHUNK):
            return True
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        _, named, length = head.partition(b"content-length: ")
        return bool(end and named) and len(body) >= int(length.partition(b"\r\n")[0])

    def connection_lost(self, exc: Exception | None) -> None:
        """One less."""
        self._load.failed += exc is not None
        self._load.ended()


class Load:
    """All connections."""

    def __init__(self, connections: int, seconds: float, *, stream: bool) -> None:
        self.request = request(stream=stream)
        self.latencies: list[float] = []
        self.failed = 0
        self.end = time.perf_counter() + seconds
        self._open = connections
        self._all_ended = asyncio.Event()

    def ended(self) -> None:
        """One connection is closed."""
        self._open -= 1
        if not self._open:
            self._all_ended.set()

    async def run(self, port: int) -> dict[str, float]:
        """Requests, failures, and latencies in milliseconds."""
        loop = asyncio.get_running_loop()
        for _number in range(self._open):
            await loop.create_connection(lambda: Client(self), "127.0.0.1", port)
        await self._all_ended.wait()
        parts = statistics.quantiles(self.latencies, n=100)
        return {
            "requests": len(self.latencies),
            "failed": self.failed,
            "p50_ms": round(parts[49] * 1000, 2),
            "p99_ms": round(parts[98] * 1000, 2),
        }


async def main() -> None:
    """Runs and prints."""
    port, connections, seconds, mode = sys.argv[1:]
    load = Load(int(connections), float(seconds), stream=mode == "stream")
    print(json.dumps(await load.run(int(port))))  # noqa: T201 - its result


if __name__ == "__main__":
    uvloop.run(main())

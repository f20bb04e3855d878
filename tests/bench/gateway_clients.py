# SPDX-License-Identifier: Apache-2.0
"""Clients with an open stream each.

    gateway_clients.py PORT COUNT SECONDS

Prints one JSON line once every stream has had an event, one with what came in SECONDS after that, and then holds the
streams until it is killed. A stream that ends is an error.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop

from tests.bench.gateway_bundle import KEY
from tests.bench.gateway_load import PATH, body

AT_ONCE = 100
OPEN_WITHIN_S = 120


class Streams:
    """All of them."""

    def __init__(self) -> None:
        self.begun = self.chunks = self.ended = 0


class Client(asyncio.Protocol):
    """One stream. Counts events by what ends them."""

    def __init__(self, streams: Streams, request: bytes) -> None:
        self._streams, self._request = streams, request
        self._head = b""
        self._begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks."""
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Counts."""
        events = data.count(b"\n\n")
        self._streams.chunks += events
        if events and not self._begun:
            self._begun = True
            self._streams.begun += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """A stream of this benchmark has no end."""
        del exc
        self._streams.ended += 1


async def main() -> None:
    """Opens, counts, holds."""
    port, count, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    asked = body(stream=True)
    headers = f"host: 127.0.0.1\r\ncontent-type: application/json\r\nauthorization: Bearer {KEY}\r\n"
    request = f"POST {PATH} HTTP/1.1\r\n{headers}content-length: {len(asked)}\r\n\r\n".encode() + asked
    loop, streams, began = asyncio.get_running_loop(), Streams(), time.monotonic()
    for first in range(0, count, AT_ONCE):
        some = range(min(AT_ONCE, count - first))
        await asyncio.gather(
            *(loop.create_connection(lambda: Client(streams, request), "127.0.0.1", port) for _number in some)
        )
    while streams.begun < count:
        if streams.ended or time.monotonic() > began + OPEN_WITHIN_S:
            sys.exit(f"{streams.begun} of {count} streams began, {streams.ended} ended")
        await asyncio.sleep(0.05)
    print(json.dumps({"open_s": round(time.monotonic() - began, 2)}), flush=True)  # noqa: T201 - its result
    before = streams.chunks
    await asyncio.sleep(seconds)
    print(json.dumps({"chunks": streams.chunks - before, "bad": streams.ended}), flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())

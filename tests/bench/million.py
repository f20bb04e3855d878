# SPDX-License-Identifier: Apache-2.0
"""A million requests, each with a prompt of its own: the gateway's memory must stay flat.

    python -m tests.bench.million [--requests 1000000] [--connections 32] [--prompt-bytes 2000] [--engines 4]

One gateway, and engines that answer with a digest of the prompt, which is checked. Prints a JSON line every tenth of
the way (requests, resident memory, CPU time a request) and the growth after the first tenth. Exits with 1 where an
answer was wrong or failed, memory grew by more than a tenth and 16 MiB after the first tenth, or something is left in
flight.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import uvloop

from llmgw.model.replica import GatewaySpec
from tests.bench.trial_engine import MODEL, digest
from tests.bench.trial_gateway import At, TrialGateway, engine, free_ports
from tests.gateway.harness import endpoint, route

ALLOWED_RATIO, ALLOWED_MIB = 1.1, 16.0
WORDS = [f"{number:x}" for number in range(4096)]


class Client(asyncio.Protocol):
    """One connection that asks until there is nothing left to ask."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._buffer = b""
        self._expected = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._ask()

    def _ask(self) -> None:
        text = self._load.prompt()
        if text is None:
            self._transport.close()
            return
        self._expected = digest(text).encode()
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": text}]}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)

    def data_received(self, data: bytes) -> None:
        """Checks an answer once it is whole."""
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        if not end or not length or len(body) < int(length):
            return
        self._buffer = b""
        self._load.answered(head.startswith(b"HTTP/1.1 200"), body.count(self._expected) == 1)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that ends early has lost a request."""
        self._load.ended(early=exc is not None or self._load.more)


class Load:
    """What is asked, and what came of it."""

    def __init__(self, requests: int, prompt_bytes: int) -> None:
        self._left = requests
        self._chance = random.Random(1)
        self._words = prompt_bytes // 4
        self.done = self.failed = self.wrong = self.open = 0
        self.all_ended = asyncio.Event()

    @property
    def more(self) -> bool:
        """Whether something is left to ask."""
        return self._left > 0

    def prompt(self) -> str | None:
        """A text that has not been before."""
        if not self._left:
            return None
        self._left -= 1
        return f"{self._left} " + " ".join(self._chance.choices(WORDS, k=self._words))

    def answered(self, ok: bool, right: bool) -> None:
        """One answer is here."""
        self.done += 1
        self.failed += not ok
        self.wrong += ok and not right

    def ended(self, *, early: bool) -> None:
        """One connection is closed."""
        self.failed += early
        self.open -= 1
        if not self.open:
            self.all_ended.set()


async def run(gateway: TrialGateway, requests: int, connections: int, prompt_bytes: int) -> tuple[Load, list[float]]:
    """Asks, and tells memory every tenth of the way."""
    load = Load(requests, prompt_bytes)
    load.open = connections
    loop = asyncio.get_running_loop()
    for _number in range(connections):
        await loop.create_connection(lambda: Client(load), "127.0.0.1", gateway.port)
    memory: list[float] = []
    began, cpu = time.monotonic(), gateway.cpu_s()
    while load.done < requests and not load.all_ended.is_set():
        await asyncio.sleep(0.05)
        if load.done >= requests * (len(memory) + 1) // 10:
            memory.append(round(gateway.memory_mib(), 1))
            per_request = round((gateway.cpu_s() - cpu) / load.done * 1e6, 1)
            row = {"requests": load.done, "rss_mib": memory[-1], "cpu_us_per_request": per_request}
            print(json.dumps(row | {"seconds": round(time.monotonic() - began, 1)}), flush=True)  # noqa: T201 - its result
    await load.all_ended.wait()
    return load, memory


def main() -> None:
    """Runs, prints, and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--prompt-bytes", type=int, default=2000)
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as engines:
        ports = free_ports(options.engines)
        for port in ports:
            engines.enter_context(engine(port))
        routes = [route([endpoint(At(port), number) for number, port in enumerate(ports)])]
        spec = GatewaySpec(workers=options.workers)
        with TrialGateway(Path(folder), routes, spec) as gateway:
            gateway.await_ready()
            work = run(gateway, options.requests, options.connections, options.prompt_bytes)
            load, memory = uvloop.run(work)
            gateway.await_nothing_in_flight()
    grown = memory[-1] - memory[0] if memory else 0.0
    result = {
        "done": load.done,
        "failed": load.failed,
        "wrong": load.wrong,
        "grown_mib_after_first_tenth": round(grown, 1),
    }
    print(json.dumps(result), flush=True)  # noqa: T201 - its result
    flat = not memory or memory[-1] <= max(memory[0] * ALLOWED_RATIO, memory[0] + ALLOWED_MIB)
    sys.exit(0 if flat and not load.failed and not load.wrong and load.done == options.requests else 1)


if __name__ == "__main__":
    main()

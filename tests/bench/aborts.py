# SPDX-License-Identifier: Apache-2.0
"""Clients that leave: how long until the engine's connection is gone, trial by trial.

    python -m tests.bench.aborts [--trials 1000] [--workers 1]

One gateway process; engine and clients are here, on one clock. A trial is one request whose client leaves, by FIN or by
RST in turn, in one of these moments, in turn:

    waiting    the engine has the request and has sent nothing
    head       the engine has sent a head and no content
    streaming  the engine sends an event every 5 ms
    whole      the engine has sent half of an answer with a length
    body       the client has sent half of its own body: no engine must ever see it
    queued     the service is full, the request waits in its line: no engine must ever see it, or must see it leave

Prints one JSON line a moment with the distribution in milliseconds from the client's close to the end of the engine's
connection. Exits with 1 unless each engine that was asked saw its client leave, within 100 ms in 99 of 100 trials, none
was asked that must not be, and nothing is left in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from llmgw.model.ids import ServiceName
from llmgw.model.replica import AdmissionSpec, GatewaySpec
from llmgw.model.route import Route
from tests.bench.trial_engine import HEAD, MODELS, event, whole
from tests.bench.trial_gateway import At, TrialGateway, free_ports
from tests.gateway.harness import endpoint, route

MOMENTS = ("waiting", "head", "streaming", "whole", "body", "queued")
SOON_MS = 100.0
LOST_S = 10.0
"""A trial whose engine still has its client after this is lost."""
NEVER_ASKED_S = 0.05
"""How long an engine is watched that must not be asked."""
SEEN = 0.99


class Engine(asyncio.Protocol):
    """Serves one request a connection; notes by the request's number when it came and when its connection ended."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._buffer = b""
        self._number: str | None = None
        self._ticking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Begins to answer in the way that the request asks for."""
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length or 0):
            return
        self._buffer = b""
        if head.startswith(b"GET"):
            self._transport.write(whole(b"{}") if b"/health" in head else whole(MODELS))
            return
        asked = json.loads(body)
        if asked["user"] == "quick":
            self._transport.write(whole(b"{}"))
            return
        self._number = asked["user"]
        moment = asked["metadata"]["moment"]
        if moment in {"head", "streaming"}:
            self._transport.write(HEAD)
        if moment == "streaming":
            self._tick()
        if moment == "whole":
            self._transport.write(whole(b"x" * 1000)[:-500])
        self._trials.asked(self._number)

    def _tick(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(event("word"))
            self._ticking = asyncio.get_running_loop().call_later(0.005, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        del exc
        if self._ticking is not None:
            self._ticking.cancel()
        if self._number is not None:
            self._trials.left(self._number)


class Trials:
    """Runs them one after the other, a few at once, and keeps what came of each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._asked: dict[str, asyncio.Event] = {}
        self._left: dict[str, asyncio.Event] = {}
        self._left_at: dict[str, float] = {}
        self._chance = random.Random(1)
        self.times: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
        self.wrong: dict[str, int] = dict.fromkeys(MOMENTS, 0)
        self.never_asked: dict[str, int] = dict.fromkeys(MOMENTS, 0)
        self.refused = 0

    def asked(self, number: str) -> None:
        """The engine has a trial's request."""
        self._asked.setdefault(number, asyncio.Event()).set()

    def left(self, number: str) -> None:
        """The engine's connection of a trial has ended."""
        self._left_at[number] = time.perf_counter()
        self._left.setdefault(number, asyncio.Event()).set()

    async def one(self, number: int, moment: str) -> None:
        """One trial."""
        name, reset = str(number), number % 2 == 1
        request = _request(name, moment)
        if moment == "queued":
            await self._queued(name, request, reset=reset)
        elif moment == "body":
            await self._within_the_body(name, request, reset=reset)
        else:
            await self._being_answered(name, request, moment, reset=reset)

    async def _being_answered(self, name: str, request: bytes, moment: str, *, reset: bool) -> None:
        client = await self._connect()
        await asyncio.get_running_loop().sock_sendall(client, request)
        try:
            await asyncio.wait_for(self._asked.setdefault(name, asyncio.Event()).wait(), LOST_S)
        except TimeoutError:
            self.wrong[moment] += 1
        await asyncio.sleep(self._chance.random() * 0.02)
        at = time.perf_counter()
        _leave(client, reset=reset)
        await self._must_leave(name, moment, at)

    async def _within_the_body(self, name: str, request: bytes, *, reset: bool) -> None:
        client = await self._connect()
        await asyncio.get_running_loop().sock_sendall(client, request[:-200])
        await asyncio.sleep(self._chance.random() * 0.01)
        _leave(client, reset=reset)
        try:
            await asyncio.wait_for(self._asked.setdefault(name, asyncio.Event()).wait(), NEVER_ASKED_S)
        except TimeoutError:
            self.never_asked["body"] += 1
        else:
            self.wrong["body"] += 1

    async def _queued(self, name: str, request: bytes, *, reset: bool) -> None:
        """Behind one that holds the service's only place: leaves, and then the place becomes free."""
        holder, waiter = await self._connect(), await self._connect()
        loop = asyncio.get_running_loop()
        hold = f"{name}-holder"
        await loop.sock_sendall(holder, _request(hold, "waiting", "narrow"))
        await asyncio.wait_for(self._asked.setdefault(hold, asyncio.Event()).wait(), LOST_S)
        await loop.sock_sendall(waiter, request)
        await asyncio.sleep(0.01 + self._chance.random() * 0.01)
        try:
            begun = waiter.recv(100)
        except BlockingIOError:
            begun = b""
        self.refused += begun.startswith(b"HTTP/1.1 429")
        at = time.perf_counter()
        _leave(waiter, reset=reset)
        if self._chance.random() < 0.5:
            await asyncio.sleep(self._chance.random() * 0.005)
        _leave(holder, reset=reset)
        if begun:
            return
        try:
            await asyncio.wait_for(self._asked.setdefault(name, asyncio.Event()).wait(), NEVER_ASKED_S)
        except TimeoutError:
            self.never_asked["queued"] += 1
            return
        await self._must_leave(name, "queued", at)

    async def _must_leave(self, name: str, moment: str, at: float) -> None:
        try:
            await asyncio.wait_for(self._left.setdefault(name, asyncio.Event()).wait(), LOST_S)
        except TimeoutError:
            self.wrong[moment] += 1
        else:
            self.times[moment].append((self._left_at[name] - at) * 1000)

    async def _connect(self) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)  # noqa: FBT003 - the standard library's
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self._port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def report(self) -> bool:
        """Prints a line a moment. Returns whether all is as it must be."""
        good = True
        for moment in MOMENTS:
            times = sorted(self.times[moment])
            row: dict[str, object] = {
                "moment": moment,
                "reached": len(times),
                "never_asked": self.never_asked[moment],
                "lost_or_wrong": self.wrong[moment],
            }
            if times:
                marks = {"min": 0.0, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
                row |= {name: round(times[round(share * (len(times) - 1))], 2) for name, share in marks.items()}
                row["over_100_ms"] = sum(one > SOON_MS for one in times)
                good = good and sum(one <= SOON_MS for one in times) >= SEEN * len(times)
            if moment == "queued" and self.refused:
                row["refused_instead_of_queued"] = self.refused
                good = False
            good = good and not self.wrong[moment]
            print(json.dumps(row), flush=True)  # noqa: T201 - its result
        return good


def _request(name: str, moment: str, model: str | None = None) -> bytes:
    asked = {
        "model": model or ("narrow" if moment == "queued" else "m"),
        "messages": [{"role": "user", "content": f"trial {name} " + "x" * 300}],
        "stream": moment in {"head", "streaming"},
        "metadata": {"moment": "waiting" if moment == "queued" else moment},
        "user": name,
    }
    body = json.dumps(asked).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _leave(client: socket.socket, *, reset: bool) -> None:
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def run(gateway: TrialGateway, engine_port: int, count: int) -> bool:
    """All trials, four at once; those that queue one after the other, as their service has one place."""
    trials = Trials(gateway.port)
    await asyncio.get_running_loop().create_server(lambda: Engine(trials), "127.0.0.1", engine_port)
    await asyncio.to_thread(gateway.await_ready)
    numbers = iter(range(count))
    narrow = asyncio.Lock()

    async def worker() -> None:
        for number in numbers:
            moment = MOMENTS[number // 2 % len(MOMENTS)]
            if moment == "queued":
                async with narrow:
                    await trials.one(number, moment)
            else:
                await trials.one(number, moment)

    await asyncio.gather(*(worker() for _number in range(4)))
    await asyncio.to_thread(gateway.await_nothing_in_flight)
    return trials.report()


def main() -> None:
    """Runs, prints, and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    (port,) = free_ports(1)
    narrow = AdmissionSpec(max_concurrency=1, max_queue=100, queue_timeout_s=30.0)
    routes = [
        route([endpoint(At(port))]),
        Route(
            ServiceName("narrow"),
            "narrow",
            aliases=(),
            desired=1,
            admission=narrow,
            endpoints=(endpoint(At(port), service="narrow"),),
        ),
    ]
    spec = GatewaySpec(probe_interval_s=1.0, workers=options.workers)
    with tempfile.TemporaryDirectory() as folder, TrialGateway(Path(folder), routes, spec) as gateway:
        good = uvloop.run(run(gateway, port, options.trials))
        usage = {"rss_mib": round(gateway.memory_mib(), 1), "cpu_s": round(gateway.cpu_s(), 2)}
    print(json.dumps({"trials": options.trials, **usage, "left_in_flight": 0}), flush=True)  # noqa: T201 - its result
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

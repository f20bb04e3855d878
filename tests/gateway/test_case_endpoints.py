# SPDX-License-Identifier: Apache-2.0
"""Endpoints and answers in numbers: what goes away leaves nothing, what passes by is not kept (16, 19, 20, 23, 54)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event
from tests.gateway.harness import RunningGateway, endpoint, environment, eventually, fetch, route

MEGABYTE = 1 << 20
QUICK = GatewaySpec(probe_interval_s=0.05)


def open_things(gateway: RunningGateway) -> tuple[int, int]:
    """Tasks in the gateway's loop, and open files of this process, which the gateway shares with its engines."""
    tasks = gateway.in_loop(lambda: len(asyncio.all_tasks()))
    return tasks, len(list(Path("/proc/self/fd").iterdir()))


def test_endpoints_that_come_and_go_leave_no_task_no_connection_and_no_series(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine()

    def publish(first: int, count: int) -> None:
        names = [f"s{number}" for number in range(first, first + count)]
        routes = [route([endpoint(one, service=name)], service=name, served_name=name) for name in names]
        gateway.publish(routes, gateway=QUICK)
        assert fetch(gateway.url + CHAT, "POST", asking(names[0]))[0] == 200

    publish(0, 5)
    publish(5, 5)
    before = open_things(gateway)
    for first in range(10, 110, 5):
        publish(first, 5)
    eventually(
        lambda: all(a <= b + 6 for a, b in zip(open_things(gateway), before, strict=True)),
        f"as many tasks and files as {before}",
        10,
    )
    samples = gateway.metrics()
    assert [name for name in samples if "s104" in name or '"s5"' in name] == []
    assert any("s105" in name for name in samples)


def test_an_endpoint_that_goes_within_a_stream_is_gone_when_the_stream_is_over(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        assert go.wait(10)
        wire.send(chunk(event("b")) + LAST_CHUNK)

    old, new = engine(answer=answer), engine()
    gateway.publish([route([endpoint(old)])], gateway=QUICK)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        client.until(event("a"))
        gateway.publish([route([endpoint(new, 1)])], gateway=QUICK)
        assert gateway.held()["leaving"] == 1
        probes = len(old.probes)
        eventually(lambda: len(new.probes) > 10, "the new one is probed again and again")
        assert len(old.probes) <= probes + 1
        go.set()
        client.until(event("b"))
    gateway.assert_nothing_held()


def peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_of_any_size_is_not_kept_as_it_passes_by(
    gateway: RunningGateway, engine: MakeEngine, stream: bool
) -> None:
    size = 256 * MEGABYTE
    piece = b"x" * 65536

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED if stream else b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _number in range(size // len(piece)):
            wire.send(chunk(piece) if stream else piece)
        if stream:
            wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=GatewaySpec(probe_interval_s=30))
    with Client(gateway.url) as client:
        client.send(post(asking(stream=stream)))
        while not client.socket.recv(1).endswith(b"x"):
            pass
        Path("/proc/self/clear_refs").write_text("5")
        before = peak_mib()
        last = b""
        got = 1
        while not (last.endswith(LAST_CHUNK) if stream else got >= size):
            last = client.socket.recv(MEGABYTE)
            got += len(last)
        assert got >= size
        assert peak_mib() < before + 64


def test_a_gateway_with_hundreds_of_streams_still_says_that_it_is_well(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    stop = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        while not stop.wait(0.2):
            wire.send(chunk(event("a")))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])])
    with ExitStack() as clients:
        streams = [clients.enter_context(Client(gateway.url)) for _number in range(200)]
        for client in streams:
            client.send(post(asking(stream=True)))
        for client in streams:
            client.until(event("a"))
        assert gateway.get("/api/v1/endpoints")["endpoints"][0]["in_flight"] == 200
        for url in (gateway.url, gateway.admin_url):
            assert fetch(url + "/healthz")[0] == 200
        stop.set()
        for client in streams:
            client.until(LAST_CHUNK)
    gateway.assert_nothing_held()


def test_the_way_of_a_request_has_no_middleware_and_no_client_library_in_it() -> None:
    script = (
        "import sys, llmgw.gateway.dataplane, llmgw.gateway.exchange, llmgw.gateway.wire.upstream\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True, timeout=30
    )
    slow = {"starlette", "fastapi", "httpx", "aiohttp", "requests", "urllib3", "h11", "prometheus_client", "pydantic"}
    assert slow & set(done.stdout.split()) == set()

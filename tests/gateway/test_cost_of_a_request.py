# SPDX-License-Identifier: Apache-2.0
"""A request costs no garbage and no task: both would be paid for at every request."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.endpoints.health import Answered
from llmgw.gateway.table import Table
from llmgw.gateway.wire.body import Asked, read_body
from llmgw.gateway.wire.client import ClientConnection
from llmgw.gateway.wire.upstream import Connection
from tests.gateway.client import asking, post
from tests.gateway.harness import bundle, endpoint, route

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Place:
    host, port, model = "127.0.0.1", 1, "m"


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def get_write_buffer_size(self) -> int:
        return 0


class ServerState:
    """What uvicorn's server gives to its protocols."""

    def __init__(self) -> None:
        self.connections: set[Any] = set()


class Load:
    """Requests through the data plane over one kept connection, without sockets."""

    def __init__(self) -> None:
        table = Table(lambda _name: None)
        table.swap(bundle(1, [route([endpoint(Place())])]), 0.0)
        live = table.endpoints["chat/0@n1"]
        table.judge(live, Answered(200, ("m",), 200), 0.0)
        self.engine = Connection(live.pool)
        self.engine.connection_made(Wire())  # type: ignore[arg-type]
        live.pool.on_idle(self.engine)
        config = SimpleNamespace(loaded_app=DataPlane(table, seed=1))
        self.client = ClientConnection(config, ServerState())
        self.wire = Wire()
        self.client.connection_made(self.wire)  # type: ignore[arg-type]

    def ask(self, times: int) -> None:
        request = post(asking())
        for _number in range(times):
            self.client.data_received(request)
            self.engine.data_received(ANSWER)


def test_a_request_leaves_nothing_for_the_garbage_collector_and_makes_no_task() -> None:
    async def run() -> tuple[int, int]:
        load = Load()
        load.ask(20)
        assert load.wire.written[0].startswith(b"HTTP/1.1 200 OK\r\n")
        load.wire.written.clear()
        gc.collect()
        gc.disable()
        try:
            load.ask(50)
            assert len(load.wire.written) == 50
            return gc.collect(), len(asyncio.all_tasks())
        finally:
            gc.enable()

    garbage, tasks = uvloop.run(run())
    assert garbage < 50, "at least one object a request waits for the collector"
    assert tasks == 1


@pytest.mark.parametrize("size", [4_000, 400_000])
def test_reading_a_large_prompt_takes_milliseconds_not_more(size: int) -> None:
    prompt = json.dumps({"messages": [{"role": "user", "content": "token " * (size // 6)}], "model": "m"}).encode()
    began = time.process_time()
    for _again in range(10):
        assert isinstance(read_body(prompt), Asked)
    assert (time.process_time() - began) / 10 < 0.005

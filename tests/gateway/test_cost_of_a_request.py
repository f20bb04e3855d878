# SPDX-License-Identifier: Apache-2.0
"""A request costs no garbage and no task: both would be paid for at every request."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from typing import Any

import pytest
import uvloop

from llmgw.gateway.body import Asked, read_body
from llmgw.gateway.dataplane import DataPlane
from llmgw.gateway.health import Answered
from llmgw.gateway.table import Table
from llmgw.gateway.upstream import Connection
from tests.gateway.client import asking
from tests.gateway.harness import bundle, endpoint, route

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Place:
    host, port, model = "127.0.0.1", 1, "m"


class Wire:
    """A transport that swallows what is written."""

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        del data

    def get_write_buffer_size(self) -> int:
        return 0


class Load:
    """Requests through the data plane over one kept connection, without sockets."""

    def __init__(self) -> None:
        table = Table(lambda _name: None)
        table.swap(bundle(1, [route([endpoint(Place())])]), 0.0)
        live = table.endpoints["chat/0@n1"]
        table.judge(live, Answered(200, ("m",), 200), 0.0)
        self.connection = Connection(live.pool)
        self.connection.connection_made(Wire())  # type: ignore[arg-type]
        live.pool.on_idle(self.connection)
        self.plane = DataPlane(table, seed=1)
        self.sent: list[dict[str, Any]] = []
        self._body = asking()

    async def ask(self, times: int) -> None:
        scope = {
            "type": "http",
            "raw_path": b"/v1/chat/completions",
            "path": "/v1/chat/completions",
            "method": "POST",
            "headers": [(b"host", b"gw"), (b"content-length", b"%d" % len(self._body))],
            "http_version": "1.1",
            "query_string": b"",
        }
        for _number in range(times):
            messages = iter([self._request, self._answered])
            await self.plane(scope, lambda messages=messages: next(messages)(), self._send)  # type: ignore[misc]

    async def _request(self) -> dict[str, Any]:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _answered(self) -> dict[str, Any]:
        """The engine answers while the request waits for its client to leave."""
        self.connection.data_received(ANSWER)
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


def test_a_request_leaves_nothing_for_the_garbage_collector_and_makes_no_task() -> None:
    async def run() -> tuple[int, int]:
        load = Load()
        await load.ask(20)
        assert [message["type"] for message in load.sent[:2]] == ["http.response.start", "http.response.body"]
        load.sent.clear()
        gc.collect()
        gc.disable()
        try:
            await load.ask(50)
            load.sent.clear()
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

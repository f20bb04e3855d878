# SPDX-License-Identifier: Apache-2.0
"""Sending without a task: order, waiting, and failing (G6)."""

from __future__ import annotations

import asyncio
from typing import Any

from llmgw.gateway.outbox import Outbox


class Client:
    """A client whose buffer is full while `room` is not set."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.freed = 0
        self.broken: list[Exception] = []
        self.room = asyncio.Event()
        self.fails = False

    async def send(self, message: dict[str, Any]) -> None:
        await self.room.wait()
        if self.fails:
            raise ConnectionError
        self.got.append(message["number"])

    def outbox(self) -> Outbox:
        return Outbox(self.send, self._free, self.broken.append)

    def _free(self) -> None:
        self.freed += 1


def put(outbox: Outbox, *numbers: int) -> None:
    for number in numbers:
        outbox.put({"number": number})


def test_messages_to_a_ready_client_are_sent_at_once() -> None:
    async def run() -> None:
        client = Client()
        client.room.set()
        outbox = client.outbox()
        put(outbox, 1, 2)
        assert (client.got, outbox.blocked, client.freed) == ([1, 2], False, 0)

    asyncio.run(run())


def test_messages_to_a_slow_client_wait_in_order_and_their_end_is_told_once() -> None:
    async def run() -> None:
        client = Client()
        outbox = client.outbox()
        put(outbox, 1, 2, 3)
        assert (client.got, outbox.blocked) == ([], True)
        client.room.set()
        await asyncio.sleep(0.01)
        assert (client.got, outbox.blocked, client.freed) == ([1, 2, 3], False, 1)
        put(outbox, 4)
        assert client.got == [1, 2, 3, 4]

    asyncio.run(run())


def test_a_client_that_fails_is_told_of_once_and_gets_no_more() -> None:
    async def run() -> None:
        client = Client()
        client.fails = True
        outbox = client.outbox()
        put(outbox, 1, 2)
        client.room.set()
        await asyncio.sleep(0.01)
        put(outbox, 3)
        assert (client.got, len(client.broken), client.freed, outbox.broken) == ([], 1, 0, True)

    asyncio.run(run())


def test_a_closed_outbox_calls_nobody() -> None:
    async def run() -> None:
        client = Client()
        outbox = client.outbox()
        put(outbox, 1, 2)
        outbox.close()
        client.room.set()
        await asyncio.sleep(0.01)
        assert (client.got, client.freed, client.broken) == ([1], 0, [])

    asyncio.run(run())

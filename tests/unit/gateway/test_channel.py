# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import socket
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.health import Health, State
from llmgw.gateway.processes import channel
from llmgw.gateway.processes.channel import (
    Answer,
    Channel,
    Cut,
    Drain,
    Ejected,
    Elsewhere,
    Failed,
    Hello,
    HowItIs,
    Judged,
    Message,
    Problem,
    Question,
    Retire,
    Serving,
    Unpacker,
    pack,
)

PLACE = ("chat/0@n1", "10.0.0.1", 18000)
HEALTH = Health(State.FAILED, 12.5, "connection refused", was_ready=True)
MESSAGES: list[Message] = [
    Hello(),
    Serving(),
    Failed(PLACE, "a request failed: connect timeout"),
    Ejected(PLACE, "9 failures in a row"),
    Ejected(PLACE, None),
    Problem("bundle.json: line 3"),
    Answer(7, b"\x00\xff"),
    Answer(8, None),
    Judged([HowItIs(PLACE, HEALTH, EngineLoad(1.0, running=3, kv_usage=0.5), 4.0), HowItIs(PLACE, HEALTH)]),
    Judged([], everything=True),
    Elsewhere({"chat/0@n1 10.0.0.1 18000": (3, 4096)}, {"chat": 3}, {"team": 2}),
    Question(7, "explain", "req-1"),
    Retire(),
    Drain(),
    Cut(),
]


@given(st.lists(st.sampled_from(MESSAGES), max_size=8), st.lists(st.integers(0, 400), max_size=20))
def test_messages_come_out_as_they_went_in_whatever_the_pieces(messages: list[Message], cuts: list[int]) -> None:
    data = b"".join(map(pack, messages))
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    unpacker = Unpacker()
    got = [message for begin, end in pairwise(places) for message in unpacker.take(data[begin:end])]
    assert got == messages


def test_a_message_of_another_version_is_passed_over_and_so_is_a_field() -> None:
    unknown = msgspec.msgpack.encode({"type": "of the future", "what": 1})
    more = msgspec.msgpack.encode({"type": "problem", "text": "x", "also": [1, 2]})
    data = b"".join(len(one).to_bytes(4, "big") + one for one in (unknown, more))
    assert Unpacker().take(data + pack(Cut())) == [Problem("x"), Cut()]


def test_what_is_no_message_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="a message of"):
        Unpacker().take(b"HTTP/1.1 200 OK\r\n")


def test_each_end_hears_the_other_and_that_it_is_gone() -> None:
    async def talk() -> tuple[list[Message], list[Message], list[str]]:
        loop = asyncio.get_running_loop()
        heard: tuple[list[Message], list[Message]] = ([], [])
        gone: list[str] = []
        over = loop.create_future()
        left, right = socket.socketpair()
        for one in (left, right):
            one.settimeout(0)

        def left_is_gone() -> None:
            gone.append("left")
            over.set_result(None)

        hello = asyncio.Event()

        def left_hears(message: Message) -> None:
            heard[0].append(message)
            hello.set()

        first = await Channel.over(left, left_hears, lambda: gone.append("right"))
        second = await Channel.over(right, heard[1].append, left_is_gone)
        assert second.say(Hello())
        assert all(first.say(message) for message in MESSAGES)
        async with asyncio.timeout(20):
            await hello.wait()
        first.close()
        async with asyncio.timeout(20):
            await over
        assert not second.say(Hello())
        return heard[0], heard[1], gone

    at_left, at_right, gone = asyncio.run(talk())
    assert at_left == [Hello()]
    assert at_right == MESSAGES
    assert "left" in gone


def test_one_that_reads_nothing_is_told_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_UNREAD", 10_000)

    async def talk() -> int:
        left, right = socket.socketpair()
        left.settimeout(0)
        with right:
            talking = await Channel.over(left, lambda _message: None, lambda: None)
            said = 0
            while talking.say(Question(1, "x", "y" * 5_000)):
                said += 1
                assert said < 10_000
            talking._transport.abort()  # type: ignore[union-attr]
            await asyncio.sleep(0)
        return said

    assert asyncio.run(talk()) > 2

# SPDX-License-Identifier: Apache-2.0
"""However an engine cuts a stream into chunks and writes, its bytes arrive (21, 30)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from llmgw.gateway.attempt import Attempt
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import Client, asking, post
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Engine, Request, Wire, chunk
from tests.gateway.harness import RunningGateway, endpoint, route
from tests.gateway.hostile import ITS_OWN_CHANCE, read_strictly

CONTENT = st.lists(
    st.sampled_from(
        [
            b"data: x\n\n",
            b"a",
            b"\r\n",
            b"\r",
            b"\n",
            b"0\r\n\r\n",
            b"5\r\nhello\r\n",
            b"\r\n5\r\nhello\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"x" * 13,
            b"y" * 4093,
            b"z" * 5000,
        ]
    ),
    min_size=1,
    max_size=3,
).map(b"".join)
SIZES = st.sampled_from(["%x", "%X", "0%x", "%x;name=value", "%x;a", "%08x", '%x;q="\t"'])


class Stream:
    """Chunks as they are written, the content of all, and where writes end."""

    def __init__(self, chunks: tuple[bytes, ...], content: bytes, cuts: tuple[int, ...]) -> None:
        self.chunks, self.content, self.cuts = chunks, content, cuts

    def __repr__(self) -> str:
        return f"Stream({[one[:30] for one in self.chunks]}, {self.cuts})"

    def __call__(self, wire: Wire) -> None:
        data = b"".join(self.chunks) + LAST_CHUNK
        wire.send(CHUNKED)
        for begin, end in zip((0, *self.cuts), (*self.cuts, len(data)), strict=True):
            time.sleep(0.001)
            wire.send(data[begin:end])


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Writes end mostly where chunks do, as engines write, else anywhere."""
    contents = draw(st.lists(CONTENT, min_size=1, max_size=6))
    chunks = [(draw(SIZES) % len(one)).encode() + b"\r\n" + one + b"\r\n" for one in contents]
    cuts = set(draw(st.lists(st.integers(0, sum(map(len, chunks))), max_size=2)))
    end = 0
    for one, content in zip(chunks, contents, strict=True):
        begin, end = end, end + len(one)
        within = {end - 2 - len(content), end - 2} if draw(st.booleans()) else {begin + draw(st.integers(0, 2))}
        cuts |= {end, *within}
    return Stream(tuple(chunks), b"".join(contents), tuple(sorted(cut for cut in cuts if 0 < cut < end)))


@pytest.fixture(scope="module")
def one(module_gateway: RunningGateway) -> Iterator[Engine]:
    engine = Engine()
    module_gateway.publish([route([endpoint(engine)])], gateway=GatewaySpec(probe_interval_s=30))
    yield engine
    engine.stop()


@pytest.mark.parametrize("size", [1, 0xF, 0x10, 0xFF, 0x100, 0xFFF])
def test_a_chunk_that_is_read_whole_is_passed_on_as_it_came(
    module_gateway: RunningGateway, one: Engine, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[bytes] = []

    def on_chunk(attempt: Attempt, data: bytes, start: int) -> bool:
        passed.append(data)
        return relay(attempt, data, start)

    def answer(_request: Request, wire: Wire) -> None:
        for piece in (CHUNKED + chunk(b"a"), chunk(b"b" * size), LAST_CHUNK):
            wire.send(piece)
            time.sleep(0.05)

    relay = Attempt.on_chunk
    monkeypatch.setattr(Attempt, "on_chunk", on_chunk)
    one.answer = answer
    with Client(module_gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert client.answer()[2] == b"a" + b"b" * size
    assert passed == [chunk(b"b" * size)]


@pytest.mark.filterwarnings(ITS_OWN_CHANCE)
@settings(max_examples=30, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(batch=st.lists(streams(), min_size=6, max_size=8))
def test_a_stream_arrives_whole_however_it_is_cut(
    module_gateway: RunningGateway, one: Engine, batch: list[Stream]
) -> None:
    def answer(request: Request, wire: Wire) -> None:
        batch[int(json.loads(request.body)["user"])](wire)

    def ask(number: int) -> bytes:
        with Client(module_gateway.url) as client:
            client.send(post(asking(user=str(number), stream=True), headers="connection: close\r\n"))
            return client.rest()

    one.answer = answer
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, range(len(batch))))
    for stream, data in zip(batch, answers, strict=True):
        got = read_strictly(data)
        assert (got.status, got.whole, got.body) == (200, True, stream.content)
    module_gateway.assert_nothing_held()

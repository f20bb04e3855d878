# SPDX-License-Identifier: Apache-2.0
"""Engines that break HTTP in every way: 502, or a cut once an answer has begun, and nothing stays behind (case 50)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import h11
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import Client, asking, post
from tests.gateway.engine import Engine, Request, Wire
from tests.gateway.harness import RunningGateway, endpoint, route
from tests.gateway.hostile import ITS_OWN_CHANCE, Got, Hostile, hostile_answers, read_strictly

SPEC = GatewaySpec(probe_interval_s=30, first_byte_timeout_s=0.3, idle_timeout_s=0.3)
SERVICES = 120


class Victims:
    """One engine as many services, each of one replica: what one answer does to its service, others do not feel."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.engine = Engine(answer=self._answer)
        self.answers: dict[str, Hostile] = {}
        self._next = 0
        self._end = 0

    def _answer(self, request: Request, wire: Wire) -> None:
        self.answers[json.loads(request.body)["user"]](request, wire)

    def fresh(self, count: int) -> list[str]:
        """Names of services that nothing has happened to."""
        if self._next + count > self._end:
            self._next, self._end = self._end, self._end + SERVICES
            names = [f"v{number}" for number in range(self._next, self._end)]
            routes = [route([endpoint(self.engine, service=name)], service=name, served_name=name) for name in names]
            self.gateway.publish(routes, gateway=SPEC)
        self._next += count
        return [f"v{number}" for number in range(self._next - count, self._next)]

    def ask(self, name: str, hostile: Hostile) -> bytes:
        """All that a client gets, whose engine gives that answer."""
        self.answers[name] = hostile
        with Client(self.gateway.url) as client:
            client.send(post(asking(name, user=name, stream=True), headers="connection: close\r\n"))
            return client.rest()


@pytest.fixture(scope="module")
def victims(module_gateway: RunningGateway) -> Iterator[Victims]:
    made = Victims(module_gateway)
    yield made
    made.engine.stop()


def what_a_strict_client_reads(hostile: Hostile) -> Got | None:
    """The answer that an engine gave, if it is one beyond doubt."""
    data = hostile.data
    while data.startswith((b"HTTP/1.1 100 ", b"HTTP/1.1 103 ")):
        data = data.partition(b"\r\n\r\n")[2]
    try:
        return read_strictly(data, closed=hostile.end == "close")
    except (AssertionError, h11.RemoteProtocolError):
        return None


def check(hostile: Hostile, data: bytes) -> None:
    """What a client got is one answer: the engine's, the beginning of it, or a refusal."""
    got = read_strictly(data)
    refused = [value for value in got.values(b"x-llmgw-reason") if value != b"forged"]
    if refused:
        assert (got.status, got.whole) in {(502, True), (504, True)}
        assert json.loads(got.body)["error"]["code"] == refused[0].decode()
        return
    assert b" %d" % got.status in hostile.data
    given_by_engine = what_a_strict_client_reads(hostile)
    if given_by_engine is not None and given_by_engine.whole and got.whole:
        assert (got.status, got.body) == (given_by_engine.status, given_by_engine.body)
    if given_by_engine is not None and not given_by_engine.whole:
        assert not got.whole, "an answer without its end was given one"
    for name in (b"x-hop", b"keep-alive", b"upgrade", b"trailer", b"x-late", b"injected"):
        assert got.values(name) == []
    assert len(got.values(b"content-length")) + len(got.values(b"transfer-encoding")) <= 1


@pytest.mark.filterwarnings(ITS_OWN_CHANCE)
@settings(max_examples=25, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(batch=st.lists(hostile_answers(), min_size=8, max_size=12))
def test_whatever_an_engine_answers_its_client_gets_one_whole_answer_a_cut_one_or_a_refusal(
    module_gateway: RunningGateway, victims: Victims, batch: list[Hostile]
) -> None:
    names = victims.fresh(len(batch))
    with ThreadPoolExecutor(6) as threads:
        got = list(threads.map(victims.ask, names, batch))
    for hostile, data in zip(batch, got, strict=True):
        check(hostile, data)
    module_gateway.assert_nothing_held()


OK = b"HTTP/1.1 200 OK\r\n"
IN_CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"
REFUSED = {
    "a bare CR in a header": b"HTTP/1.1 200 OK\r\nx: a\rinjected: 1\r\ncontent-length: 2\r\n\r\n{}",
    "a zero byte in a header": b"HTTP/1.1 200 OK\r\nx: a\x00\r\ncontent-length: 2\r\n\r\n{}",
    "a space before a colon": b"HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\n{}",
    "a length and a coding": OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n" + IN_CHUNKS,
    "a coding and a length": OK + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n" + IN_CHUNKS,
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "the same length twice": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}",
    "a length with a sign": b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\n{}",
    "a length below zero": b"HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}",
    "a length beyond counting": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n{}",
    "another protocol": b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nframes",
    "a status below all": b"HTTP/1.1 099 Low\r\ncontent-length: 2\r\n\r\n{}",
    "a status above all": b"HTTP/1.1 999 High\r\ncontent-length: 2\r\n\r\n{}",
    "a request": b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/2": b"HTTP/2 200\r\ncontent-length: 2\r\n\r\n{}",
    "TLS": b"\x15\x03\x03\x00\x02\x02\x28",
    "nothing but empty lines": b"\r\n" * 50,
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "a body within an answer below all": b"HTTP/1.1 099 Low\r\ncontent-length: 3\r\n\r\n{},"
    + OK
    + b"content-length: 2\r\n\r\n{}",
    "a body within an interim answer": b"HTTP/1.1 199 Soon\r\ncontent-length: 3\r\n\r\n{},"
    + OK
    + b"content-length: 2\r\n\r\n{}",
    "chunks within an interim answer": b"HTTP/1.1 199 Soon\r\ntransfer-encoding: chunked\r\n\r\n"
    + IN_CHUNKS
    + OK
    + b"content-length: 2\r\n\r\n{}",
    "only hints": b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n",
}


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_an_answer_with_a_broken_head_is_502(victims: Victims, answer: bytes) -> None:
    (name,) = victims.fresh(1)
    got = read_strictly(victims.ask(name, Hostile((answer,), "close")))
    assert (got.status, got.values(b"x-llmgw-reason")) == (502, [b"upstream_failed"])

# SPDX-License-Identifier: Apache-2.0
"""Answers on their way: what has no end is cut, what was cut is not mended, what comes late belongs to nobody."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import pytest

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, DONE, LAST_CHUNK, Answer, Request, Wire, answer_ok, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route
from tests.gateway.hostile import read_strictly

MEGABYTE = 1 << 20
PATIENT = GatewaySpec(probe_interval_s=30, first_byte_timeout_s=20, idle_timeout_s=20)
OK = b"HTTP/1.1 200 OK\r\n"

ENDLESS = {
    "headers": (OK, b"x: y\r\n" * 10_000),
    "a header's name": (OK + b"x", b"x" * 65536),
    "a header's value": (OK + b"x: y", b"y" * 65536),
    "a reason": (b"HTTP/1.1 200 O", b"K" * 65536),
    "hints": (b"", b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" * 2000),
    "leave to send": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
    "empty lines": (b"", b"\r\n" * 30_000),
}


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS)
def test_a_head_without_end_from_an_engine_is_cut_off_and_502(
    gateway: RunningGateway, engine: MakeEngine, begin: bytes, more: bytes
) -> None:
    sent = [0]

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(begin)
        while sent[0] < 64 * MEGABYTE:
            wire.send(more)
            sent[0] += len(more)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    status, _headers, body = fetch(gateway.url + CHAT, "POST", asking())
    assert (status, json.loads(body)["error"]["code"]) == (502, "upstream_failed")
    assert sent[0] < 24 * MEGABYTE


TAILS = {
    "trailers": (chunk(event("a")) + b"0\r\n", b"x: y\r\n" * 10_000),
    "a trailer": (chunk(event("a")) + b"0\r\nx: y", b"y" * 65536),
    "a chunk's extension": (chunk(event("a")) + b"5;x=", b"y" * 65536),
    "a chunk's size": (chunk(event("a")) + b"0", b"0" * 65536),
}


@pytest.mark.parametrize(("begin", "more"), TAILS.values(), ids=TAILS)
def test_an_answer_that_goes_on_without_content_is_cut(
    gateway: RunningGateway, engine: MakeEngine, begin: bytes, more: bytes
) -> None:
    sent = [0]

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + begin)
        while sent[0] < 64 * MEGABYTE:
            wire.send(more)
            sent[0] += len(more)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        got = read_strictly(client.rest())
    assert got.body == event("a")
    assert not got.whole
    assert sent[0] < 24 * MEGABYTE


def test_trailers_of_an_answer_reach_nobody(gateway: RunningGateway, engine: MakeEngine) -> None:
    late = b"x-late: 1\r\nset-cookie: a=b\r\nx-llmgw-reason: forged\r\n"
    one = engine(answer=lambda _request, wire: wire.send(CHUNKED + chunk(DONE) + b"0\r\n" + late + b"\r\n"))
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        for _again in range(2):
            client.send(post(asking(stream=True)))
            _status, headers = client.head()
            assert client.until(LAST_CHUNK).endswith(DONE + b"\r\n" + LAST_CHUNK)
            assert {"x-late", "set-cookie", "x-llmgw-reason"}.isdisjoint(name for name, _value in headers)


def later(_request: Request, wire: Wire) -> None:
    wire.send(whole(b"first"))
    time.sleep(0.05)
    wire.send(whole(b"forged"))


def writes(data: bytes) -> Answer:
    return lambda _request, wire: wire.send(data)


EXTRA = {
    "within the same write": writes(whole(b"first") + whole(b"forged")),
    "a moment later": later,
    "more than its length": writes(whole(b"first") + b"forged"),
    "behind the last chunk": writes(CHUNKED + chunk(b"first") + LAST_CHUNK + whole(b"forged")),
    "behind a status without a body": writes(b"HTTP/1.1 204 No Content\r\ncontent-length: 6\r\n\r\nforged"),
}


@pytest.mark.parametrize("way", EXTRA.values(), ids=EXTRA)
def test_what_an_engine_says_unasked_is_nobodys_answer(
    gateway: RunningGateway, engine: MakeEngine, way: Answer
) -> None:
    one = engine(answer=way)
    gateway.publish([route([endpoint(one)])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking()))
        status, headers = client.head()
        length = int(dict(headers).get("content-length", 0))
        if status == 200:
            client.until(b"first")
        elif status != 204:
            client.exactly(length)
        assert status in {200, 204, 502}
        time.sleep(0.15)
        eventually(lambda: set(gateway.states().values()) == {"ready"}, "asked again")
        one.answer = lambda _request, wire: wire.send(whole(b"second"))
        with Client(gateway.url) as other:
            other.send(post(asking(user="other")))
            assert other.answer()[2] == b"second"
        client.send(post(asking()))
        assert client.until(b"second").find(b"forged") < 0


def test_a_cut_stream_gets_no_end_that_the_engine_did_not_give(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        wire.close()

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        data = client.rest()
    assert b"finish_reason" not in data
    assert b"[DONE]" not in data
    assert not read_strictly(data).whole


@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["in one write", "a moment later"])
def test_an_error_event_within_a_stream_passes_as_it_is_and_is_a_bad_answer(
    gateway: RunningGateway, engine: MakeEngine, pause: float
) -> None:
    error = b'data: {"error":{"message":"CUDA out of memory","code":500}}\n\n'

    def answer(_request: Request, wire: Wire) -> None:
        begin, end = CHUNKED + chunk(event("a")), chunk(error) + LAST_CHUNK
        if pause:
            wire.send(begin)
            time.sleep(pause)
            wire.send(end)
        else:
            wire.send(begin + end)

    def failures() -> float:
        return sum(value for name, value in gateway.metrics().items() if name.startswith("llmgw_upstream_failures"))

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    before = failures()
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert client.answer()[2] == event("a") + error
    assert failures() == before + 1


def test_the_end_of_a_long_answer_has_an_end_too(gateway: RunningGateway, engine: MakeEngine) -> None:
    sent = [0]

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(b"x" * 10 * MEGABYTE) + b"0\r\nx: y")
        while sent[0] < 64 * MEGABYTE:
            wire.send(b"y" * 65536)
            sent[0] += 65536

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert not read_strictly(client.rest()).whole
    assert sent[0] < 24 * MEGABYTE


def test_comments_alone_hold_a_stream_open_and_pass(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        for _number in range(6):
            wire.send(chunk(b": ping\n\n"))
            time.sleep(0.15)
        wire.send(chunk(DONE) + LAST_CHUNK)

    spec = GatewaySpec(probe_interval_s=30, idle_timeout_s=0.6)
    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=spec)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert client.answer()[2] == b": ping\n\n" * 6 + DONE


def test_a_stream_of_a_hundred_thousand_events_arrives_whole_and_in_order(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    events = b"".join(event(str(number)) for number in range(100_000))
    pieces = [chunk(events[at : at + 331]) for at in range(0, len(events), 331)]

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        for at in range(0, len(pieces), 50):
            wire.send(b"".join(pieces[at : at + 50]))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert client.answer()[2] == events


def test_a_large_error_of_an_engine_passes_without_being_held(gateway: RunningGateway, engine: MakeEngine) -> None:
    size = 64 * MEGABYTE
    sent = [0]

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 400 Bad\r\ncontent-length: %d\r\n\r\n" % size)
        while sent[0] < size:
            wire.send(b"e" * 65536)
            sent[0] += 65536

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url, receive_buffer=32 * 1024) as client:
        client.send(post(asking()))
        assert client.head()[0] == 400
        stuck_at = -1
        while stuck_at != sent[0]:
            stuck_at = sent[0]
            time.sleep(0.2)
        assert stuck_at < 24 * MEGABYTE


@pytest.mark.parametrize("stream", [False, True])
def test_many_slow_readers_hold_little_and_others_are_served_beside_them(
    gateway: RunningGateway, engine: MakeEngine, stream: bool
) -> None:
    sent = [0]
    stop = threading.Event()

    def flood(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED if stream else b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while not stop.is_set():
            wire.send(chunk(b"x" * 65536) if stream else b"x" * 65536)
            sent[0] += 65536

    big, small = engine(answer=flood), engine()
    routes = [
        route([endpoint(big, service="big")], service="big", served_name="big"),
        route([endpoint(small)]),
    ]
    gateway.publish(routes, gateway=PATIENT)
    with contextlib.ExitStack() as readers:
        for _number in range(20):
            client = readers.enter_context(Client(gateway.url, receive_buffer=16 * 1024))
            client.send(post(asking("big", stream=stream)))
            client.head()
        stuck_at = -1
        while stuck_at != sent[0]:
            stuck_at = sent[0]
            time.sleep(0.3)
        assert stuck_at < 20 * 12 * MEGABYTE
        for _number in range(20):
            assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    stop.set()
    gateway.assert_nothing_held()


def test_an_engine_that_does_not_read_a_large_body_is_let_go_with_its_client(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine()
    began, left = threading.Event(), threading.Event()

    def deaf(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            began.set()
            time.sleep(0.3)
            while connection.recv(MEGABYTE):
                pass
        left.set()

    gateway.publish([route([endpoint(one)])], gateway=PATIENT)
    one._serve = deaf  # type: ignore[method-assign]
    with Client(gateway.url) as client:
        client.send(post(asking(user="x" * 30 * MEGABYTE)))
        assert began.wait(5)
        client.reset()
    assert left.wait(10)
    gateway.assert_nothing_held()


def test_an_answer_that_begins_while_the_body_is_still_sent_is_not_lost(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine(answer=answer_ok)
    gateway.publish([route([endpoint(one)])])
    body = asking(user="x" * 20 * MEGABYTE)
    with Client(gateway.url) as client:
        client.send(post(body))
        assert client.answer()[0] == 200
    eventually(lambda: one.requests and one.requests[0].body == body, "the body arrived whole")

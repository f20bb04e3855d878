# SPDX-License-Identifier: Apache-2.0
"""Clients that never come to an end, or want another protocol: bounded in memory and time, and harmless to others."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from llmgw.gateway.wire import client as client_side
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.engine import Engine, Request, Wire, chunk, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

MEGABYTE = 1 << 20
MOST_TAKEN = 24 * MEGABYTE
"""What a gateway may take of a request that it refuses: its own limits and the buffers of two sockets."""
START = f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\n".encode()


@pytest.fixture
def one(module_gateway: RunningGateway) -> Iterator[Engine]:
    engine = Engine(answer=lambda request, wire: wire.send(whole(request.body)))
    module_gateway.publish([route([endpoint(engine)])])
    yield engine
    module_gateway.assert_nothing_held()
    engine.stop()


ENDLESS = {
    "a request line": (b"POST /v1/" + b"x", b"x" * 65536),
    "a method": (b"P", b"P" * 65536),
    "a header's name": (START + b"x-", b"x" * 65536),
    "a header's value": (START + b"x: y", b"y" * 65536),
    "headers": (START, b"x: y\r\n" * 10_000),
    "headers without names to speak of": (START, b"a:\r\n" * 16_000),
    "trailers": (START + b"transfer-encoding: chunked\r\n\r\n" + chunk(asking()) + b"0\r\n", b"x: y\r\n" * 10_000),
    "a trailer": (START + b"transfer-encoding: chunked\r\n\r\n" + chunk(asking()) + b"0\r\nx: y", b"y" * 65536),
    "a chunk's extension": (START + b"transfer-encoding: chunked\r\n\r\n5;x=", b"y" * 65536),
    "a chunk's size": (START + b"transfer-encoding: chunked\r\n\r\n0", b"0" * 65536),
}


@pytest.mark.parametrize(("begin", "more"), ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_cut_off(module_gateway: RunningGateway, one: Engine, begin: bytes, more: bytes) -> None:
    sent = 0
    with Client(module_gateway.url) as client:
        client.send(begin)
        with contextlib.suppress(ConnectionError):
            while sent < MOST_TAKEN:
                client.send(more)
                sent += len(more)
    assert sent < MOST_TAKEN, "the gateway takes it all"
    module_gateway.assert_nothing_held()
    assert one.requests == []
    assert fetch(module_gateway.url + CHAT, "POST", asking())[2] == asking()


def drip(client: Client, data: bytes) -> float:
    """Sends a byte every 20 ms for as long as anybody takes them. Returns how long that was."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionError, TimeoutError):
        for at in range(500):
            client.send(data[at % len(data) : at % len(data) + 1])
            client.socket.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                if not client.socket.recv(65536):
                    break
    return time.monotonic() - began


def test_a_head_that_comes_byte_by_byte_has_the_same_deadline(
    module_gateway: RunningGateway, one: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_side, "HEAD_DEADLINE_S", 0.5)
    with Client(module_gateway.url) as client:
        assert 0.4 < drip(client, START + b"x: " + b"y" * 1000) < 8
    assert one.requests == []


def test_a_body_that_comes_byte_by_byte_has_the_deadline_of_the_whole_request(
    module_gateway: RunningGateway, one: Engine
) -> None:
    module_gateway.publish([route([endpoint(one)])], gateway=GatewaySpec(probe_interval_s=0.1, total_timeout_s=0.5))
    with Client(module_gateway.url) as client:
        client.send(START + b"content-length: 100000\r\n\r\n")
        assert 0.4 < drip(client, b" ") < 8
    assert one.requests == []


def test_a_thousand_connections_that_say_nothing_keep_nobody_out(module_gateway: RunningGateway, one: Engine) -> None:
    halves = (b"", b"POST", START, START + b"content-length: 99\r\n\r\n", START + b"expect: 100-continue\r\n")
    with ExitStack() as open_ones:
        for number in range(300):
            client = open_ones.enter_context(Client(module_gateway.url))
            client.send(halves[number % len(halves)])
        for number in range(5):
            assert fetch(module_gateway.url + CHAT, "POST", asking(user=str(number)))[0] == 200
    assert len(one.requests) == 5


def test_a_client_that_gets_leave_to_send_and_sends_nothing_is_let_go(
    module_gateway: RunningGateway, one: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgw.gateway.exchange.BODY_PAUSE_S", 0.3)
    with Client(module_gateway.url) as client:
        client.send(START + b"content-length: 50\r\nexpect: 100-continue\r\n\r\n")
        assert client.head()[0] == 100
        assert client.answer()[0] == 408
        assert client.rest() == b""
    assert one.requests == []


def test_a_client_that_waits_for_leave_behind_a_long_request_gets_it(
    module_gateway: RunningGateway, one: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(request: Request, wire: Wire) -> None:
        time.sleep(1.0)
        wire.send(whole(request.body))

    monkeypatch.setattr("llmgw.gateway.exchange.BODY_PAUSE_S", 0.3)
    one.answer = slow
    head, body, _end = post(asking(user="b"), headers="expect: 100-continue\r\n").partition(asking(user="b"))
    with Client(module_gateway.url) as client:
        client.send(post(asking(user="a")) + head)
        assert client.answer()[2] == asking(user="a")
        assert client.head()[0] == 100
        client.send(body)
        assert client.answer()[2] == asking(user="b")


def test_an_expectation_that_is_not_known_is_no_leave(module_gateway: RunningGateway, one: Engine) -> None:
    with Client(module_gateway.url) as client:
        client.send(post(asking(), headers="expect: 200-maybe\r\n"))
        assert client.answer()[0] in {200, 417}
    assert all(seen.values("expect") == [] for seen in one.requests)


def test_thousands_of_requests_sent_ahead_are_answered_in_order_or_cut_off(
    module_gateway: RunningGateway, one: Engine
) -> None:
    with Client(module_gateway.url) as client:
        with contextlib.suppress(ConnectionError, TimeoutError):
            client.send(b"GET /healthz HTTP/1.1\r\nhost: gw\r\n\r\n" * 5000)
        client.socket.settimeout(0.5)
        got = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            while data := client.socket.recv(1 << 20):
                got += data
    assert got.count(b"HTTP/1.1 200 OK") == got.count(b"HTTP/1.1 ")
    assert fetch(module_gateway.url + CHAT, "POST", asking())[0] == 200
    assert len(one.requests) == 1


def test_answers_to_requests_sent_ahead_keep_their_order_whoever_gives_them(
    module_gateway: RunningGateway, one: Engine
) -> None:
    asked = [
        (post(asking(user="a")), 200),
        (post(b"{"), 400),
        (post(asking("nobody")), 404),
        (b"GET /v1/models HTTP/1.1\r\nhost: gw\r\n\r\n", 200),
        (post(asking(user="x" * 300_000)), 200),
        (post(b"zz", headers="content-encoding: gzip\r\n"), 415),
        (b"GET /nothing HTTP/1.1\r\nhost: gw\r\n\r\n", 404),
        (b"OPTIONS /v1/models HTTP/1.1\r\nhost: gw\r\n\r\n", 204),
        (post(asking(user="b")), 200),
    ]
    with Client(module_gateway.url) as client:
        client.send(b"".join(data for data, _status in asked))
        got = []
        for _data, status in asked:
            got.append(client.head() if status == 204 else client.answer())
    assert [answer[0] for answer in got] == [status for _data, status in asked]
    assert json.loads(got[-1][2])["user"] == "b"  # type: ignore[misc]
    assert [json.loads(seen.body)["user"][:1] for seen in one.requests] == ["a", "x", "b"]


def test_garbage_behind_a_request_costs_no_more_than_its_own_connection(
    module_gateway: RunningGateway, one: Engine
) -> None:
    with Client(module_gateway.url) as client:
        client.send(post(asking()) + b"\x00\x01 garbage \r\n\r\n" + post(asking(user="smuggled")))
        assert client.rest().count(b"HTTP/1.1 ") in {0, 1, 2}
    assert all(b"smuggled" not in seen.body for seen in one.requests)


UPGRADES = {
    "h2c": "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n",
    "websocket": "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "anything": "connection: keep-alive, upgrade\r\nupgrade: foo/2\r\n",
}


@pytest.mark.parametrize("headers", UPGRADES.values(), ids=UPGRADES)
def test_an_offer_to_change_the_protocol_is_not_taken_and_the_body_stays_a_body(
    module_gateway: RunningGateway, one: Engine, headers: str
) -> None:
    smuggled = post(asking(user="smuggled"))
    body = asking(user=smuggled.decode())
    with Client(module_gateway.url) as client:
        client.send(post(body, headers=headers))
        status = client.head()[0]
        assert status == 200 or 400 <= status < 500
    for seen in one.requests:
        assert seen.body == body
        for name in ("upgrade", "connection", "http2-settings", "sec-websocket-key"):
            assert seen.values(name) == [] or name.startswith("sec-")


@pytest.mark.parametrize("headers", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("path", ["/v1/realtime", CHAT, "/v1/models", "/healthz"])
def test_a_websocket_is_refused_as_a_plain_request(
    module_gateway: RunningGateway, one: Engine, headers: str, path: str
) -> None:
    with Client(module_gateway.url) as client:
        client.send(f"GET {path} HTTP/1.1\r\nhost: gw\r\n{headers}\r\n".encode())
        status = client.head()[0]
    assert status in ({200, 426} if path in {"/v1/models", "/healthz"} else {400, 404, 405, 426})
    assert one.requests == []


METHODS: dict[str, set[int]] = {
    "CONNECT gw:443": {400, 404, 405, 501},
    f"CONNECT {CHAT}": {400, 404, 405, 501},
    "TRACE /": {400, 404, 405, 501},
    f"TRACE {CHAT}": {400, 405, 501},
    f"PATCH {CHAT}": {400, 405, 501},
    f"QUERY {CHAT}": {400, 405, 501},
    f"BREW {CHAT}": {400, 405, 501},
    "OPTIONS *": {204, 400, 404},
    f"HEAD {CHAT}": {405},
    "HEAD /v1/models": {200},
    "HEAD /healthz": {200},
    "HEAD /nothing": {404},
}


@pytest.mark.parametrize(("start", "statuses"), METHODS.items(), ids=METHODS)
def test_every_other_method_is_refused_and_nothing_behind_it_is_lost_or_read_twice(
    module_gateway: RunningGateway, one: Engine, start: str, statuses: set[int]
) -> None:
    with Client(module_gateway.url) as client:
        client.send(f"{start} HTTP/1.1\r\nhost: gw\r\nx-probe: seen\r\n\r\n".encode())
        status, headers = client.head()
        assert status in statuses
        if not start.startswith("HEAD"):
            length = int(dict(headers).get("content-length", 0))
            assert b"x-probe" not in client.exactly(length)
        if dict(headers).get("connection", "").lower() != "close" and status != 400:
            client.send(post(asking()))
            assert client.answer()[2] == asking()
    assert len(one.requests) <= 1


def half_closed(client: Client) -> None:
    client.socket.shutdown(socket.SHUT_WR)


def sends_more(client: Client) -> None:
    client.send(b"\r\n\r\n")


@pytest.mark.parametrize("what", [half_closed, sends_more])
def test_a_client_may_do_odd_things_after_its_request(
    module_gateway: RunningGateway, one: Engine, what: Callable[[Client], None]
) -> None:
    def late(_request: Request, wire: Wire) -> None:
        time.sleep(0.1)
        wire.send(whole(b"late"))

    one.answer = late
    with Client(module_gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: one.requests, "the engine was asked")
        what(client)
        answer = client.rest() if what is half_closed else client.until(b"late")
    assert answer == b"" or answer.endswith(b"late")


def test_the_end_of_a_large_body_has_an_end_too(module_gateway: RunningGateway, one: Engine) -> None:
    sent = 0
    with Client(module_gateway.url) as client:
        client.send(START + b"transfer-encoding: chunked\r\n\r\n" + chunk(asking(user="x" * 10 * MEGABYTE)))
        client.send(b"0\r\nx: y")
        with contextlib.suppress(ConnectionError):
            while sent < MOST_TAKEN:
                client.send(b"y" * 65536)
                sent += 65536
    assert sent < MOST_TAKEN
    assert one.requests == []


def test_a_request_that_waits_behind_a_long_one_is_not_late_by_that(
    module_gateway: RunningGateway, one: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(request: Request, wire: Wire) -> None:
        time.sleep(1.2)
        wire.send(whole(request.body))

    monkeypatch.setattr("llmgw.gateway.exchange.BODY_PAUSE_S", 0.4)
    one.answer = slow
    with Client(module_gateway.url) as client:
        client.send(post(asking(user="a")) + post(asking(user="b")))
        assert [client.answer()[2] for _request in range(2)] == [asking(user="a"), asking(user="b")]


QUESTIONS = {
    "health": b"GET /healthz HTTP/1.1\r\nhost: gw\r\n\r\n",
    "nothing": b"GET /nothing HTTP/1.1\r\nhost: gw\r\n\r\n",
    "models": b"GET /v1/models HTTP/1.1\r\nhost: gw\r\n\r\n",
    "wrong bodies": post(b"{"),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_client_that_asks_and_never_reads_is_read_no_further(
    module_gateway: RunningGateway, one: Engine, question: bytes
) -> None:
    many = question * 400
    sent = 0
    with Client(module_gateway.url, receive_buffer=16 * 1024) as client:
        client.socket.settimeout(1.0)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while sent < MOST_TAKEN:
                client.send(many)
                sent += len(many)
    assert sent < MOST_TAKEN, "answers pile up in the gateway"
    assert one.requests == []


def test_a_read_from_within_one_head_to_within_the_next_is_no_long_head(
    module_gateway: RunningGateway, one: Engine
) -> None:
    first, second = post(asking(user="x" * 100_000)), post(asking(user="y" * 100_000))
    with Client(module_gateway.url) as client:
        for part in (first[:40], first[40:] + second[:40], second[40:]):
            client.send(part)
            time.sleep(0.1)
        assert [client.answer()[0] for _request in range(2)] == [200, 200]
    assert len(one.requests) == 2


def resident_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def test_a_body_of_tiny_chunks_holds_about_what_it_counts(module_gateway: RunningGateway, one: Engine) -> None:
    chunks, count = b"2\r\n  \r\n" * 10_000, 150
    with Client(module_gateway.url) as client:
        client.send(START + b"transfer-encoding: chunked\r\n\r\n" + chunk(asking()))
        before = resident_mib()
        for _number in range(count):
            client.send(chunks)
        size = len(asking()) + 2 * 10_000 * count
        eventually(lambda: module_gateway.held().get("body bytes") == size, "all of it is held", 20)
        assert resident_mib() < before + 40
        client.send(b"0\r\n\r\n")
        assert len(client.answer()[2]) == size
    assert len(one.requests) == 1

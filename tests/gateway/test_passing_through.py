# SPDX-License-Identifier: Apache-2.0
"""Bytes pass unchanged, both ways, whatever their size and however they are cut (G1)."""

from __future__ import annotations

import os
import random
import time
from functools import partial

import pytest

from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, DONE, LAST_CHUNK, Request, Wire, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route


def send(data: bytes, _request: Request, wire: Wire) -> None:
    wire.send(data)


SIZES = [6 * 1024, 64 * 1024, 1024 * 1024, 8 * 1024 * 1024]


def body_of(size: int) -> bytes:
    """A request body of that size with every kind of text that JSON has."""
    odd = 'ä€😀 \\u00e9 \\ud83d\\ude00 \\" \\\\ \\n "model" {"model": '.encode()
    head = b'{ "stream":false ,\t"messages":[{"role":"user","content":"' + odd.replace(b'"', b'\\"').replace(
        b'\\\\"', b'\\"'
    )
    tail = b'"}],\n "model" : "m" }'
    return head + os.urandom((size - len(head) - len(tail)) // 2).hex().encode() + tail


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_request_body_arrives_as_it_was_sent(
    gateway: RunningGateway, engine: MakeEngine, size: int, chunked: bool
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    body = body_of(size)
    with Client(gateway.url) as client:
        if chunked:
            client.send(f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n".encode())
            cuts = random.Random(size)
            at = 0
            while at < len(body):
                step = cuts.choice([1, 7, 1000, 65536, 200_000])
                client.send(chunk(body[at : at + step]))
                at += step
            client.send(LAST_CHUNK)
        else:
            client.send(post(body))
        assert client.answer()[0] == 200
    assert one.requests[0].body == body
    assert one.requests[0].values("transfer-encoding") == []


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunked", [False, True])
def test_an_answer_arrives_as_the_engine_sent_it(
    gateway: RunningGateway, engine: MakeEngine, size: int, chunked: bool
) -> None:
    body = os.urandom(size)

    def answer(_request: Request, wire: Wire) -> None:
        if not chunked:
            wire.send(whole(body))
            return
        wire.send(CHUNKED)
        for at in range(0, size, 100_001):
            wire.send(chunk(body[at : at + 100_001]))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])])
    with Client(gateway.url) as client:
        for _again in range(2):
            client.send(post(asking()))
            status, headers, got = client.answer()
            assert status == 200
            assert got == body
            assert ("content-length" in dict(headers)) is not chunked


def test_chunk_borders_at_every_byte_change_nothing(gateway: RunningGateway, engine: MakeEngine) -> None:
    events = event("a\n") + event("ü") + DONE

    def answer(_request: Request, wire: Wire) -> None:
        stream = CHUNKED + b"".join(chunk(events[at : at + 5]) for at in range(0, len(events), 5)) + LAST_CHUNK
        for at in range(len(stream)):
            wire.send(stream[at : at + 1])

    gateway.publish([route([endpoint(engine(answer=answer))])])
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert client.answer()[2] == events


def test_events_are_relayed_as_they_come(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        for number in range(3):
            time.sleep(0.2)
            wire.send(chunk(event(str(number))))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])])
    with Client(gateway.url) as client:
        began = time.monotonic()
        client.send(post(asking(stream=True)))
        seen = []
        for number in range(3):
            client.until(event(str(number)))
            seen.append(time.monotonic() - began)
        client.until(LAST_CHUNK)
    for number, at in enumerate(seen):
        assert 0.2 * (number + 1) <= at < 0.2 * (number + 1) + 0.15


def test_an_answer_without_a_length_ends_with_its_connection(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        wire.close()

    gateway.publish([route([endpoint(engine(answer=answer))])])
    assert fetch(gateway.url + CHAT, "POST", asking())[2] == b"all of it"


def test_answers_of_every_status_pass(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    for status in (
        "201 Created",
        "400 Bad Request",
        "404 Not Found",
        "422 Unprocessable Entity",
        "429 Too Many Requests",
        "500 Oops",
    ):
        words = whole(b"the engine's own words", status)
        one.answer = partial(send, words)
        code, _headers, body = fetch(gateway.url + CHAT, "POST", asking())
        assert (code, body) == (int(status[:3]), b"the engine's own words")
    one.answer = lambda _request, wire: wire.send(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 204


def test_an_interim_answer_is_not_taken_for_the_answer(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine(
        answer=lambda _request, wire: wire.send(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + whole(b"real"))
    )
    gateway.publish([route([endpoint(one)])])
    status, headers, body = fetch(gateway.url + CHAT, "POST", asking())
    assert (status, body, headers.get("link")) == (200, b"real", None)


def test_duplicate_headers_pass_in_order_both_ways(gateway: RunningGateway, engine: MakeEngine) -> None:
    headers = "Set-Cookie: a=1\r\nX-Tag: one\r\nset-cookie: b=2\r\nX-Tag: two\r\n"
    one = engine(answer=lambda _request, wire: wire.send(whole(b"{}", headers=headers)))
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        client.send(post(asking(), headers="X-Trace: 1\r\nx-other: \xe9\r\nx-trace: 2\r\n"))
        _status, got, _body = client.answer()
    assert [value for name, value in got if name == "set-cookie"] == ["a=1", "b=2"]
    assert [value for name, value in got if name == "x-tag"] == ["one", "two"]
    assert one.requests[0].values("x-trace") == ["1", "2"]


def test_headers_of_one_hop_and_of_the_gateway_stay_behind(gateway: RunningGateway, engine: MakeEngine) -> None:
    own = "Connection: x-engine-hop\r\nX-Engine-Hop: 1\r\nKeep-Alive: timeout=9\r\nX-Kept: 1\r\n"
    own += "Connection: x-other-hop\r\nX-Other-Hop: 1\r\n"
    one = engine(answer=lambda _request, wire: wire.send(whole(b"{}", headers=own)))
    gateway.publish([route([endpoint(one)])])
    names_of_keys = ("Authorization: Bearer", "X-Api-Key:", "Api-Key:", "Cookie:", "Proxy-Authorization:")
    secret = "".join(f"{name} client-secret\r\n" for name in names_of_keys)
    hop = "Connection: keep-alive, X-Client-Hop\r\nX-Client-Hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n"
    with Client(gateway.url) as client:
        client.send(post(asking(), headers=secret + hop + "X-LLMGW-Endpoint: http://evil\r\nX-Kept: 2\r\n"))
        _status, got, _body = client.answer()
    names = {name for name, _value in got}
    assert "x-kept" in names
    assert not names & {"x-engine-hop", "x-other-hop", "keep-alive"}
    seen = one.requests[0]
    assert seen.values("x-kept") == ["2"]
    assert seen.values("host") == [f"127.0.0.1:{one.port}"]
    assert b"client-secret" not in seen.raw
    for name in (
        "connection",
        "x-client-hop",
        "te",
        "upgrade",
        "proxy-authorization",
        "x-llmgw-endpoint",
        "authorization",
    ):
        assert seen.values(name) == [], name


def test_compressed_answers_pass_as_they_are(gateway: RunningGateway, engine: MakeEngine) -> None:
    squeezed = os.urandom(500)
    one = engine(answer=lambda _request, wire: wire.send(whole(squeezed, headers="content-encoding: gzip\r\n")))
    gateway.publish([route([endpoint(one)])])
    _status, headers, body = fetch(gateway.url + CHAT, "POST", asking(), {"accept-encoding": "gzip"})
    assert (headers["content-encoding"], body) == ("gzip", squeezed)
    assert one.requests[0].values("accept-encoding") == ["gzip"]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/completions?a=1&b=%20"]
)
def test_paths_and_queries_reach_the_engine(gateway: RunningGateway, engine: MakeEngine, path: str) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    assert fetch(gateway.url + path, "POST", asking())[0] == 200
    assert one.requests[0].line == f"POST {path} HTTP/1.1"


def test_requests_one_after_the_other_share_a_connection(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        for _number in range(20):
            client.send(post(asking()))
            assert client.answer()[0] == 200
    assert len(one.requests) == 20
    assert gateway.metrics()['llmgw_endpoint_idle_connections{endpoint="chat/0@n1",service="chat"}'] == 1


def test_kept_connections_are_closed_before_engines_close_them(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.publish([route([endpoint(engine())])])
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    idle = 'llmgw_endpoint_idle_connections{endpoint="chat/0@n1",service="chat"}'
    assert gateway.metrics()[idle] == 1
    monkeypatch.setattr("llmgw.gateway.deadlines.IDLE_LIMIT_S", 0.1)
    eventually(lambda: gateway.metrics()[idle] == 0, "closed")


def test_a_connection_that_the_engine_gives_up_is_not_used_again(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(whole(b"{}", headers="connection: close\r\n"))
        assert wire.client_left() is not None, "the gateway keeps the connection"
        wire.close()

    gateway.publish([route([endpoint(engine(answer=answer))])])
    assert [fetch(gateway.url + CHAT, "POST", asking())[0] for _again in range(3)] == [200] * 3


def test_requests_sent_ahead_are_answered_in_order(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine(answer=lambda request, wire: wire.send(whole(request.body)))
    gateway.publish([route([endpoint(one)])])
    bodies = [asking(user=str(number)) for number in range(5)]
    with Client(gateway.url) as client:
        client.send(b"".join(map(post, bodies)))
        assert [client.answer()[2] for _body in bodies] == bodies

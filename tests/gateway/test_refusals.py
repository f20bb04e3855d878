# SPDX-License-Identifier: Apache-2.0
"""What the gateway does not pass on: bodies it cannot be sure of, smuggling, wrong methods, too much (G5, G8)."""

from __future__ import annotations

import json
import time

import pytest

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import LAST_CHUNK, Request, Wire, chunk, whole
from tests.gateway.harness import RunningGateway, endpoint, fetch, route


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"{",
        b'{"model":"m"} trailing',
        b'\xef\xbb\xbf{"model":"m"}',
        '{"model":"m"}'.encode("utf-16"),
        b'{"model":"m","x":"\xff"}',
        b'{"model":"\xff"}',
        b'["model","m"]',
        b'{"messages":[]}',
        b'{"model":null}',
        b'{"model":["m"]}',
        b'{"model":"m","model":"m"}',
        b'{"model":"m","x":1,"mod\\u0065l":"other"}',
        b'{"\\u006d\\u006F\\u0064\\u0065\\u006C":"other","model":"m"}',
        b'{"model":"m","x":NaN}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_could_be_read_two_ways_is_refused(
    gateway: RunningGateway, engine: MakeEngine, body: bytes
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    status, _headers, answer = fetch(gateway.url + CHAT, "POST", body)
    error = json.loads(answer)["error"]
    assert (status, error["code"], error["type"]) == (400, "invalid_body", "invalid_request_error")
    assert one.requests == []


@pytest.mark.parametrize(
    "framing",
    [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5\r\ncontent-length: 5\r\n",
        "content-length: +5\r\n",
        "content-length : 5\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        "x: a\r\n folded: b\r\ncontent-length: 5\r\n",
        "x\r\ncontent-length: 5\r\n",
    ],
)
def test_ambiguous_framing_is_refused_and_the_connection_ends(
    gateway: RunningGateway, engine: MakeEngine, framing: str
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    smuggled = post(asking(user="smuggled"))
    with Client(gateway.url) as client:
        client.send(f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\n{framing}\r\n".encode() + LAST_CHUNK + smuggled)
        answer = client.rest()
    assert answer[9:12] in {b"400", b"501"}
    assert answer.count(b"x-llmgw-reason") == 1
    assert one.requests == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", CHAT, 405),
        ("HEAD", CHAT, 405),
        ("PUT", CHAT, 405),
        ("OPTIONS", CHAT, 204),
        ("POST", "/v1/models", 405),
        ("DELETE", "/v1/models/m", 405),
        ("OPTIONS", "/v1/models", 204),
        ("POST", "/v1/chat/completions/", 404),
        ("POST", "/v1/chat%2Fcompletions", 404),
        ("POST", "/v1//chat/completions", 404),
        ("POST", "/v1/x/../chat/completions", 404),
        ("GET", "/metrics", 404),
        ("GET", "/admin", 404),
        ("GET", "/api/v1/status", 404),
        ("GET", "/", 404),
    ],
)
def test_other_methods_and_paths_reach_no_engine(
    gateway: RunningGateway, engine: MakeEngine, method: str, path: str, status: int
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    code, headers, body = fetch(gateway.url + path, method, asking() if method == "POST" else None)
    assert code == status
    assert (headers["allow"] is not None) == (status in {405, 204})
    if body:
        assert json.loads(body)["error"]["code"] in {"method_not_allowed", "not_found"}
    assert one.requests == []


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_answered_413_with_the_limit(
    gateway: RunningGateway, engine: MakeEngine, chunked: bool
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=GatewaySpec(probe_interval_s=0.1, max_body_bytes=100_000))
    fits = asking(user="x" * (100_000 - len(asking(user=""))))
    assert len(fits) == 100_000
    with Client(gateway.url) as client:
        for body, status in ((fits, 200), (fits + b" ", 413), (fits + b" " * 3_000_000, 413), (fits, 200)):
            if chunked:
                head = f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n".encode()
                client.send(head + chunk(body) + LAST_CHUNK)
            else:
                client.send(post(body))
            code, _headers, answer = client.answer()
            assert code == status
            assert (b"100000" in answer) == (status == 413)


def test_why_a_body_is_refused_stays_so_until_its_turn_comes(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(_request: Request, wire: Wire) -> None:
        time.sleep(1.0)
        wire.send(whole(b"{}"))

    monkeypatch.setattr("llmgw.gateway.exchange.BODY_PAUSE_S", 0.2)
    settings = GatewaySpec(probe_interval_s=0.1, max_body_bytes=1000)
    gateway.publish([route([endpoint(engine(answer=slow))])], gateway=settings)
    head = f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    with Client(gateway.url) as client:
        client.send(post(asking()) + head + chunk(b"x" * 2000))
        assert [client.answer()[0] for _each in range(2)] == [200, 413]


def test_a_client_that_waits_for_leave_is_told_before_it_sends(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=GatewaySpec(probe_interval_s=0.1, max_body_bytes=1000))
    with Client(gateway.url) as client:
        client.send(
            f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\ncontent-length: 5000\r\nexpect: 100-continue\r\n\r\n".encode()
        )
        assert client.answer()[0] == 413
        assert client.rest() == b""
    with Client(gateway.url) as client:
        body = asking()
        client.send(
            f"POST {CHAT} HTTP/1.1\r\nhost: gw\r\ncontent-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n".encode()
        )
        assert client.head()[0] == 100
        client.send(body)
        assert client.answer()[0] == 200


def test_bodies_in_flight_have_one_budget(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    budget = gateway.gateway.plane.bodies
    total, budget.total = budget.total, 1_000_000
    try:
        body = asking(user="x" * 700_000)
        head, rest = post(body)[:650_000], post(body)[650_000:]
        with Client(gateway.url) as first, Client(gateway.url) as second:
            first.send(head)
            second.send(post(asking()))
            assert second.answer()[0] == 200
            second.send(post(body))
            status, headers, answer = second.answer()
            assert (status, headers_of(headers)["retry-after"]) == (503, "1")
            assert json.loads(answer)["error"]["code"] == "body_budget"
            first.send(rest)
            assert first.answer()[0] == 200
            second.send(post(body))
            assert second.answer()[0] == 200
    finally:
        budget.total = total


def headers_of(headers: list[tuple[str, str]]) -> dict[str, str]:
    return dict(headers)


def test_compressed_bodies_are_refused_clearly(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    status, _headers, answer = fetch(gateway.url + CHAT, "POST", b"\x1f\x8b", {"content-encoding": "gzip"})
    assert (status, json.loads(answer)["error"]["code"]) == (415, "content_encoding")
    assert fetch(gateway.url + CHAT, "POST", asking(), {"content-encoding": "identity"})[0] == 200


def test_a_body_that_does_not_go_on_is_408(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgw.gateway.exchange.BODY_PAUSE_S", 0.3)
    one = engine()
    gateway.publish([route([endpoint(one)])])
    for begun in (post(asking())[:-5], post(asking(user="x" * 300_000))[:-5]):
        with Client(gateway.url) as client:
            client.send(begun)
            status, _headers, body = client.answer()
            assert (status, json.loads(body)["error"]["code"]) == (408, "body_timeout")
            assert client.rest() == b""
    assert one.requests == []


def test_http_1_0_is_told_what_to_change(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    with Client(gateway.url) as client:
        client.send(post(asking()).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert b" 505 " in client.rest()[:20]
    with Client(gateway.url) as client:
        client.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert client.rest().endswith(b"}")


def test_reasons_are_counted(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    name = 'llmgw_rejected_total{reason="model_not_found"}'
    before = gateway.metrics().get(name, 0)
    for number in range(3):
        assert fetch(gateway.url + CHAT, "POST", asking(f"unknown-{number}"))[0] == 404
    assert gateway.metrics()[name] == before + 3

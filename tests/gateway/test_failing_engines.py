# SPDX-License-Identifier: Apache-2.0
"""Engines that fail: before an answer another one is asked, after its beginning the client sees the cut (G6, G7)."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable

import pytest

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event, swallowing, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

SELDOM = GatewaySpec(probe_interval_s=30)
"""Probes stay out of the way: what takes an endpoint out is the failed request alone."""


def counted(gateway: RunningGateway, name: str) -> Callable[[], float]:
    """How much the sum of a family's samples has grown since now."""

    def total() -> float:
        return sum(value for key, value in gateway.metrics().items() if key.startswith(name))

    before = total()
    return lambda: total() - before


def closes(_request: Request, wire: Wire) -> None:
    wire.close()


def resets(_request: Request, wire: Wire) -> None:
    wire.reset()


@pytest.mark.parametrize("failing", [closes, resets])
def test_a_failure_before_the_first_byte_goes_to_another_endpoint(
    gateway: RunningGateway, engine: MakeEngine, failing: Callable[[Request, Wire], None]
) -> None:
    bad, good = engine(answer=failing), engine()
    retries = counted(gateway, "llmgw_retries_total")
    gateway.publish([route([endpoint(bad, 0), endpoint(good, 1)], policy="round-robin")], gateway=SELDOM)
    assert [fetch(gateway.url + CHAT, "POST", asking())[0] for _number in range(4)] == [200] * 4
    assert len(good.requests) == 4
    assert len(bad.requests) >= 1
    assert retries() == len(bad.requests)
    assert bad.requests[0].body == good.requests[0].body


def test_an_endpoint_that_refuses_is_left_and_comes_back(gateway: RunningGateway, engine: MakeEngine) -> None:
    dead, good = engine(), engine()
    gateway.publish([route([endpoint(dead, 0), endpoint(good, 1)], policy="round-robin")])
    dead.stop()
    assert [fetch(gateway.url + CHAT, "POST", asking())[0] for _number in range(10)] == [200] * 10
    eventually(lambda: gateway.states() == {"chat/0@n1": "failed", "chat/1@n1": "ready"}, "failed")
    detail = gateway.get("/api/v1/endpoints")["endpoints"][0]["detail"]
    assert "refused" in detail or "failed" in detail
    dead.start()
    eventually(lambda: gateway.states()["chat/0@n1"] == "ready", "back")


def test_an_endpoint_that_failed_a_request_is_not_asked_again_by_it(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    comes_back, silent = engine(answer=resets), engine()
    slow_to_fail = GatewaySpec(probe_interval_s=30, connect_timeout_s=0.5)
    gateway.publish([route([endpoint(comes_back, 0), endpoint(silent, 1)], policy="round-robin")], gateway=slow_to_fail)
    with swallowing() as port:
        pool = gateway.gateway.table.endpoints["chat/1@n1"].pool
        gateway.in_loop(lambda: setattr(pool, "port", port))
        statuses = [fetch(gateway.url + CHAT, "POST", asking())[0] for _either_first in range(2)]
    assert statuses == [502, 502]
    assert len(comes_back.requests) == 2


def test_when_none_answers_the_client_is_told_502_and_then_503(gateway: RunningGateway, engine: MakeEngine) -> None:
    engines = [engine(answer=resets), engine(answer=resets)]
    gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)])], gateway=SELDOM)
    status, headers, body = fetch(gateway.url + CHAT, "POST", asking())
    assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (502, "1", "upstream_failed")
    # A failed request also asks for a probe, and these engines answer probes.
    eventually(lambda: set(gateway.states().values()) == {"ready"}, "probed again at once")
    for one in engines:
        one.stop()
    eventually(lambda: set(gateway.states().values()) == {"failed"}, "their sockets closed")
    status, headers, body = fetch(gateway.url + CHAT, "POST", asking())
    assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (503, "5", "no_replica_ready")


def test_retries_have_a_budget(gateway: RunningGateway, engine: MakeEngine) -> None:
    engines = [engine(answer=resets), engine(answer=resets)]
    gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)])], gateway=SELDOM)
    retries = counted(gateway, "llmgw_retries_total")
    for _number in range(60):
        fetch(gateway.url + CHAT, "POST", asking())
        eventually(lambda: "failed" not in gateway.states().values(), "probed again at once")
    assert retries() <= 10 + 0.1 * 60


def test_a_kept_connection_that_the_engine_closed_costs_nothing(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=SELDOM)
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    failures, retries = counted(gateway, "llmgw_upstream_failures_total"), counted(gateway, "llmgw_retries_total")
    stale = counted(gateway, "llmgw_stale_connections_total")
    # The engine closes exactly as the next request reaches it, having read nothing as far as anybody can tell.
    first = [True]

    def answer(_request: Request, wire: Wire) -> None:
        if first:
            first.clear()
            wire.reset()
        else:
            wire.send(whole(b"second"))

    one.answer = answer
    assert fetch(gateway.url + CHAT, "POST", asking())[2] == b"second"
    assert (stale(), failures(), retries()) == (1, 0, 0)
    assert gateway.states() == {"chat/0@n1": "ready"}


@pytest.mark.parametrize("end", [closes, resets])
@pytest.mark.parametrize(
    "begun",
    [CHUNKED + chunk(event("a")), whole(b"x" * 10)[:-5], CHUNKED + chunk(event("a"))[:-9]],
    ids=["between events", "within a sized body", "within a chunk"],
)
def test_an_engine_that_dies_within_its_answer_is_seen_as_a_cut(
    gateway: RunningGateway, engine: MakeEngine, begun: bytes, end: Callable[[Request, Wire], None]
) -> None:
    def answer(request: Request, wire: Wire) -> None:
        wire.send(begun)
        time.sleep(0.05)
        end(request, wire)

    one, other = engine(answer=answer), engine()
    gateway.publish([route([endpoint(one), endpoint(other, 1, draining=True)])], gateway=SELDOM)
    cuts = counted(gateway, 'llmgw_upstream_failures_total{reason="cut"')
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert client.head()[0] == 200
        rest = client.rest()
    assert b"x" in rest or b'"a"' in rest
    assert not rest.endswith(LAST_CHUNK)
    assert cuts() == 1
    assert other.requests == []


@pytest.mark.parametrize(
    "garbage",
    [
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 700 Far Out\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header: \x00\r\n\r\n",
    ],
)
def test_an_answer_that_is_not_http_becomes_502(gateway: RunningGateway, engine: MakeEngine, garbage: bytes) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(garbage)
        wire.client_left()
        wire.close()

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=SELDOM)
    status, _headers, body = fetch(gateway.url + CHAT, "POST", asking())
    assert (status, json.loads(body)["error"]["code"]) == (502, "upstream_failed")


def test_broken_chunks_are_a_cut(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        time.sleep(0.05)
        wire.send(b"zz\r\nnot a chunk\r\n")
        wire.client_left()
        wire.close()

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=SELDOM)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert not client.rest().endswith(LAST_CHUNK)


def test_no_first_byte_in_time_is_504_and_no_next_byte_is_a_cut(gateway: RunningGateway, engine: MakeEngine) -> None:
    left: list[float | None] = []

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(start[0])
        left.append(wire.client_left())
        wire.close()

    start = [b""]
    gateway.publish(
        [route([endpoint(engine(answer=answer))])],
        gateway=GatewaySpec(probe_interval_s=0.1, first_byte_timeout_s=0.3, idle_timeout_s=0.4),
    )
    began = time.monotonic()
    status, _headers, body = fetch(gateway.url + CHAT, "POST", asking())
    assert (status, json.loads(body)["error"]["code"]) == (504, "first_byte_timeout")
    assert 0.3 <= time.monotonic() - began < 10
    start[0] = CHUNKED + chunk(event("a"))
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert not client.rest().endswith(LAST_CHUNK)
    eventually(lambda: len(left) == 2, "the engine saw both leave")
    assert None not in left
    assert gateway.states() == {"chat/0@n1": "ready"}


def test_running_out_of_sockets_is_not_the_engines_fault(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine(), 0), endpoint(engine(), 1)])], gateway=SELDOM)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Client(gateway.url) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nhost: gw\r\n\r\n")
        assert client.answer()[0] == 200
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            client.send(post(asking()))
            status, headers, body = client.answer()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (status, dict(headers)["retry-after"]) == (503, "1")
    assert json.loads(body)["error"]["code"] == "gateway_resources"
    assert set(gateway.states().values()) == {"ready"}


def test_an_engine_that_answers_before_the_whole_body_came_is_heard(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(whole(b"no", "413 Too Large", "connection: close\r\n"))
        wire.close()

    one.answer = answer
    gateway.publish([route([endpoint(one)])])
    for _again in range(3):
        assert fetch(gateway.url + CHAT, "POST", asking(user="x" * 3_000_000))[0] == 413


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "500 Oops"])
def test_a_refusal_says_nothing_of_how_fast_an_engine_is(
    gateway: RunningGateway, engine: MakeEngine, status: str, stream: bool
) -> None:
    def speed() -> list[float]:
        (capacity,) = (one.costs.capacity for one in gateway.gateway.table.endpoints.values())
        return [capacity.prefill_tps, capacity.step_s, capacity.output_tokens]

    too_long = whole(b'{"error": {"message": "The prompt is longer than the model can read."}}', status)
    gateway.publish([route([endpoint(engine(answer=lambda _request, wire: wire.send(too_long)))])], gateway=SELDOM)
    before = gateway.in_loop(speed)
    for _each in range(3):
        fetch(gateway.url + CHAT, "POST", asking(stream=stream, user="word " * 20_000))
    assert gateway.in_loop(speed) == before

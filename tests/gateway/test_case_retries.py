# SPDX-License-Identifier: Apache-2.0
"""Which failures are tried again, where, and how often (33, 45, G6)."""

from __future__ import annotations

from functools import partial

import pytest

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, DONE, LAST_CHUNK, Engine, Request, Wire, chunk, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

SELDOM = GatewaySpec(probe_interval_s=30)


def says(data: bytes, _request: Request, wire: Wire) -> None:
    wire.send(data)


def resets(_request: Request, wire: Wire) -> None:
    wire.reset()


def retries(gateway: RunningGateway) -> float:
    return sum(value for name, value in gateway.metrics().items() if name.startswith("llmgw_retries_total"))


@pytest.mark.parametrize("status", ["429 Busy", "502 Bad", "503 Loading", "504 Late"])
def test_an_engine_that_cannot_now_is_left_for_another_one_and_heard_where_there_is_none(
    gateway: RunningGateway, engine: MakeEngine, status: str
) -> None:
    full, free = engine(answer=partial(says, whole(b"not now", status))), engine()
    gateway.publish([route([endpoint(full, 0), endpoint(free, 1)], policy="round-robin")], gateway=SELDOM)
    for _number in range(4):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    assert full.requests
    assert len(free.requests) == 4
    gateway.publish([route([endpoint(full, 0)])], gateway=SELDOM, ready=False)
    eventually(lambda: gateway.states() == {"chat/0@n1": "ready"}, "asked again")
    assert fetch(gateway.url + CHAT, "POST", asking())[::2] == (int(status[:3]), b"not now")


@pytest.mark.parametrize("status", ["400 Bad", "401 Who", "404 Where", "413 Large", "422 What", "500 Oops", "501 No"])
def test_what_another_engine_would_answer_as_well_is_the_clients(
    gateway: RunningGateway, engine: MakeEngine, status: str
) -> None:
    engines = [engine(answer=partial(says, whole(b"no", status))) for _number in range(2)]
    gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)])], gateway=SELDOM)
    before = retries(gateway)
    assert fetch(gateway.url + CHAT, "POST", asking())[::2] == (int(status[:3]), b"no")
    assert sum(len(one.requests) for one in engines) == 1
    assert retries(gateway) == before


def test_another_node_is_tried_before_another_engine_of_the_same_one(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    broken = [engine(answer=resets) for _number in range(3)]
    good = engine()
    endpoints = [endpoint(one, number, node="n1") for number, one in enumerate(broken)]
    routes = [route([*endpoints, endpoint(good, 3, node="n2")], policy="round-robin")]
    gateway.publish(routes, gateway=SELDOM)
    for asked in range(1, 9):
        eventually(lambda: set(gateway.states().values()) == {"ready"} or None, "all are asked again")
        before = sum(len(one.requests) for one in broken)
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
        assert sum(len(one.requests) for one in broken) - before <= 1
        assert len(good.requests) == asked
        if before:
            return
    pytest.fail("no request began at a broken engine")


def test_no_request_is_tried_more_than_three_times(gateway: RunningGateway, engine: MakeEngine) -> None:
    engines = [engine(answer=resets) for _number in range(6)]
    gateway.publish(
        [route([endpoint(one, number, node=f"n{number}") for number, one in enumerate(engines)])], gateway=SELDOM
    )
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 502
    asked: list[Engine] = [one for one in engines if one.requests]
    assert len(asked) == 3
    assert {len(one.requests) for one in asked} == {1}


def test_a_second_engine_gets_the_same_bytes_and_may_stream(gateway: RunningGateway, engine: MakeEngine) -> None:
    stream = CHUNKED + chunk(DONE) + LAST_CHUNK
    bad, good = engine(answer=partial(says, whole(b"full", "503 Busy"))), engine(answer=partial(says, stream))
    gateway.publish([route([endpoint(bad, 0), endpoint(good, 1)], policy="round-robin")], gateway=SELDOM)
    bodies = [asking(stream=True, user=f"{number}" + "x" * 300_000) for number in range(2)]
    with Client(gateway.url) as client:
        for body in bodies:
            client.send(post(body, headers="x-trace: kept\r\n"))
            assert client.answer()[2] == DONE
    assert [seen.body for seen in good.requests] == bodies
    assert bad.requests
    for tried in bad.requests:
        again = next(seen for seen in good.requests if seen.body == tried.body)
        assert [header for header in tried.headers if header[0] != "host"] == [
            header for header in again.headers if header[0] != "host"
        ]

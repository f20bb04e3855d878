# SPDX-License-Identifier: Apache-2.0
"""Endpoints that fail requests though probes find them ready: out, and tried again one by one (G7, cases 31, 32)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from llmgw.gateway.endpoints import breaker
from llmgw.gateway.endpoints.breaker import FAILURES_IN_A_ROW
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import (
    CHUNKED,
    DONE,
    LAST_CHUNK,
    Answer,
    Engine,
    Request,
    Wire,
    answer_ok,
    chunk,
    event,
    whole,
)
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

FIRST, SECOND = "chat/0@n1", "chat/1@n1"


def with_status(status: str) -> Answer:
    return lambda _request, wire: wire.send(whole(b"{}", status))


FAILS = with_status("500 Internal Server Error")


def cut(_request: Request, wire: Wire) -> None:
    wire.send(CHUNKED + chunk(event("a")))
    wire.reset()


def resets(_request: Request, wire: Wire) -> None:
    wire.reset()


def error_event(_request: Request, wire: Wire) -> None:
    wire.send(CHUNKED + chunk(event("a")) + chunk(b'data: {"error":{"message":"out of memory"}}\n\n'))
    wire.send(chunk(DONE) + LAST_CHUNK)


def ask(gateway: RunningGateway, *, stream: bool = False) -> None:
    with Client(gateway.url) as client:
        client.send(post(asking(stream=stream), headers="connection: close\r\n"))
        client.rest()


def ask_until(gateway: RunningGateway, check: Callable[[], bool], what: str, *, stream: bool = False) -> None:
    """Requests, one after the other, until it is true."""

    def asked() -> bool:
        ask(gateway, stream=stream)
        return check()

    eventually(asked, what, 15)


def detail(gateway: RunningGateway, name: str = FIRST) -> str:
    found = {one["id"]: one["detail"] for one in gateway.get("/api/v1/endpoints")["endpoints"]}
    return str(found[name])


@pytest.fixture
def pair(gateway: RunningGateway, engine: MakeEngine) -> tuple[Engine, Engine]:
    """Two engines, of which the first one may fail."""
    first, second = engine(), engine()
    gateway.publish([route([endpoint(first, 0), endpoint(second, 1)], policy="round-robin")])
    return first, second


@pytest.mark.parametrize("answer", [FAILS, cut, resets, error_event])
def test_an_endpoint_that_fails_in_a_row_is_out_though_its_probes_are_good(
    gateway: RunningGateway, pair: tuple[Engine, Engine], answer: Answer
) -> None:
    first, second = pair
    first.answer = answer
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected", stream=answer in (cut, error_event))
    assert gateway.states()[SECOND] == "ready"
    assert "requests in a row failed" in detail(gateway)
    asked = len(first.requests)
    assert asked >= FAILURES_IN_A_ROW
    for _again in range(5):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    assert len(first.requests) == asked
    assert len(second.requests) >= 5


def test_it_comes_back_by_one_request_that_it_answers_well(
    gateway: RunningGateway, pair: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_PAUSE_S", 0.3)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE_S", 0.3)
    first, _second = pair
    first.answer = FAILS
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    first.answer = answer_ok
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ready", "ready again")


def test_one_request_at_a_time_tries_it(
    gateway: RunningGateway, pair: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_PAUSE_S", 0.3)
    first, _second = pair
    first.answer = FAILS
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    answers = threading.Event()

    def late(request: Request, wire: Wire) -> None:
        assert answers.wait(10)
        answer_ok(request, wire)

    first.answer = late
    asked = len(first.requests)
    eventually(lambda: "the next request tries it" in detail(gateway), "a trial is due")
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: len(first.requests) == asked + 1, "the trial")
        for _again in range(6):
            assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
        assert len(first.requests) == asked + 1
        assert "one request tries it now" in detail(gateway)
        answers.set()
        assert client.answer()[0] == 200
    eventually(lambda: gateway.states()[FIRST] == "ready", "ready again")


def test_a_client_that_leaves_its_trial_does_not_keep_the_endpoint_out(
    gateway: RunningGateway, pair: tuple[Engine, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_PAUSE_S", 0.3)
    monkeypatch.setattr(breaker, "NEUTRAL_AGAIN_S", 0.1)
    first, _second = pair
    first.answer = FAILS
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    first.answer = lambda _request, wire: wire.close() if wire.client_left(10) is not None else None
    asked = len(first.requests)
    eventually(lambda: "the next request tries it" in detail(gateway), "a trial is due")
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: len(first.requests) == asked + 1, "the trial")
    gateway.assert_nothing_held()
    first.answer = answer_ok
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ready", "ready again")


@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable Entity", "429 Too Many Requests", "501 No"])
def test_what_the_client_did_wrong_and_a_full_engine_are_no_failures(
    gateway: RunningGateway, pair: tuple[Engine, Engine], status: str
) -> None:
    for one in pair:
        one.answer = with_status(status)
    for _again in range(4 * FAILURES_IN_A_ROW):
        ask(gateway)
    time.sleep(0.6)
    assert gateway.states() == {FIRST: "ready", SECOND: "ready"}


def test_the_only_endpoint_of_a_service_stays_in_and_says_why(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine(answer=FAILS))])])
    for _again in range(2 * FAILURES_IN_A_ROW):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 500
    assert gateway.states() == {FIRST: "ready"}
    assert "it stays in rotation" in detail(gateway)


def test_of_three_that_fail_one_is_out_and_the_others_are_asked(gateway: RunningGateway, engine: MakeEngine) -> None:
    engines = [engine(answer=FAILS) for _number in range(3)]
    gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)], policy="round-robin")])
    for _again in range(6 * FAILURES_IN_A_ROW):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 500
    assert sorted(gateway.states().values()) == ["ejected", "ready", "ready"]


def test_an_endpoint_that_fails_often_among_peers_that_do_not_is_out(
    gateway: RunningGateway, pair: tuple[Engine, Engine]
) -> None:
    first, _second = pair

    def every_third(request: Request, wire: Wire) -> None:
        (answer_ok if len(first.requests) % 3 else FAILS)(request, wire)

    first.answer = every_third
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    assert "of its peers' 0%" in detail(gateway)


def test_a_new_process_behind_the_address_begins_with_a_closed_breaker(
    gateway: RunningGateway, pair: tuple[Engine, Engine]
) -> None:
    first, _second = pair
    first.answer = FAILS
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    first.stop()
    eventually(lambda: gateway.states()[FIRST] == "failed", "failed")
    first.answer = answer_ok
    first.start()
    eventually(lambda: gateway.states()[FIRST] == "ready", "ready")


def test_new_routes_do_not_let_an_ejected_endpoint_back_in(
    gateway: RunningGateway, pair: tuple[Engine, Engine]
) -> None:
    first, second = pair
    first.answer = FAILS
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    gateway.publish(
        [route([endpoint(first, 0), endpoint(second, 1)])], gateway=GatewaySpec(probe_interval_s=0.2), ready=False
    )
    assert gateway.states()[FIRST] == "ejected"


def test_routes_that_name_another_process_let_an_ejected_endpoint_back_in(
    gateway: RunningGateway, pair: tuple[Engine, Engine]
) -> None:
    first, second = pair
    first.answer = FAILS
    ask_until(gateway, lambda: gateway.states()[FIRST] == "ejected", "ejected")
    gateway.publish([route([endpoint(first, 0, process_digest="sha256:next"), endpoint(second, 1)])])
    assert gateway.states()[FIRST] == "ready"

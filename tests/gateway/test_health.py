# SPDX-License-Identifier: Apache-2.0
"""States of endpoints: as values, and as probed on sockets (R6, R7, G3)."""

from __future__ import annotations

import threading
import time

import pytest

from llmgw.gateway.endpoints.health import (
    Answered,
    Health,
    Probe,
    Refused,
    Silent,
    State,
    after_failure,
    after_probe,
    restarted,
    unknown,
)
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

GOOD = Answered(200, ("m",), 200)
LOADING = Answered(503, None)
REFUSED = Refused("connection refused")


def after(*probes: Probe, start: Health | None = None) -> Health:
    health = start or unknown(0.0)
    for second, probe in enumerate(probes, start=1):
        health = after_probe(health, probe, "m", float(second))
    return health


@pytest.mark.parametrize(
    ("probes", "state", "since"),
    [
        ([REFUSED], State.STARTING, 0),
        ([REFUSED, REFUSED, LOADING], State.LOADING, 3),
        ([LOADING, GOOD], State.READY, 2),
        ([GOOD, GOOD, GOOD], State.READY, 1),
        ([GOOD, REFUSED], State.FAILED, 2),
        ([GOOD, REFUSED, REFUSED], State.FAILED, 2),
        ([GOOD, REFUSED, LOADING], State.LOADING, 3),
        ([GOOD, REFUSED, GOOD], State.READY, 3),
        ([LOADING, REFUSED], State.STARTING, 2),
        ([Answered(200, ("other",), 200)], State.LOADING, 1),
        ([GOOD, Answered(200, ("other",), 200)], State.FAILED, 2),
        ([Answered(200, None, 401)], State.LOADING, 1),
        ([Answered(404, None)], State.LOADING, 1),
        ([GOOD, Answered(500, None)], State.FAILED, 2),
        ([GOOD, LOADING], State.LOADING, 2),
        ([Silent(bytes_flow=False)], State.LOADING, 1),
        ([GOOD, Silent(bytes_flow=False)], State.READY, 1),
        ([GOOD, Silent(bytes_flow=False), Silent(bytes_flow=False)], State.FAILED, 3),
        ([GOOD, Silent(bytes_flow=False), GOOD, Silent(bytes_flow=False)], State.READY, 1),
        ([GOOD, *[Silent(bytes_flow=True)] * 9], State.READY, 1),
        ([GOOD, Silent(bytes_flow=False), Silent(bytes_flow=True), Silent(bytes_flow=False)], State.READY, 1),
    ],
)
def test_probes_move_an_endpoint_between_states(probes: list[Probe], state: State, since: float) -> None:
    health = after(*probes)
    assert (health.state, health.since) == (state, since)
    assert (health.detail is None) == (state is State.READY)


def test_an_engine_that_refuses_the_gateways_key_says_which_variable_to_set() -> None:
    assert "LLMGW_SECRET_" in (after(Answered(200, None, 401)).detail or "")
    assert "LLMGW_SECRET_" in (after(GOOD, Answered(200, None, 403)).detail or "")


def test_a_failed_request_takes_a_ready_endpoint_out_and_the_next_good_probe_brings_it_back() -> None:
    out = after_failure(after(GOOD), "connection_lost", 5.0)
    assert (out.state, out.since, out.detail) == (State.FAILED, 5.0, "a request failed: connection lost")
    assert after(GOOD, start=out).state is State.READY
    assert after_failure(after(LOADING), "connection_lost", 5.0).state is State.LOADING


def test_a_replica_restarted_by_plan_starts_instead_of_failing() -> None:
    assert after(REFUSED, start=restarted(after(GOOD))).state is State.STARTING


def test_an_engine_goes_through_its_states(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine(health="503 Service Unavailable")
    port = one.port
    one.stop()
    gateway.publish([route([endpoint(one)])], ready=False)

    def state() -> str:
        return gateway.states()["chat/0@n1"]

    assert state() == "starting"
    one.start()
    assert one.port == port
    eventually(lambda: state() == "loading", "loading")
    one.health, one.model = "200 OK", "another"
    eventually(
        lambda: "serves another, not m" in (gateway.get("/api/v1/endpoints")["endpoints"][0]["detail"] or ""),
        "wrong model",
    )
    one.model = "m"
    eventually(lambda: state() == "ready", "ready")
    one.stop()
    eventually(lambda: state() == "failed", "failed")


def test_an_engine_that_dies_is_noticed_before_the_next_probe(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=GatewaySpec(probe_interval_s=30))
    time.sleep(0.25)
    moment = time.monotonic()
    one.stop()
    eventually(lambda: gateway.states()["chat/0@n1"] == "failed", "failed")
    assert time.monotonic() - moment < 10


def test_a_port_taken_over_by_another_model_is_not_ready(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=GatewaySpec(probe_interval_s=30))
    one.stop()
    one.model = "impostor"
    one.start()
    eventually(lambda: gateway.states()["chat/0@n1"] == "failed", "failed")
    assert gateway.get("/api/v1/endpoints")["endpoints"][0]["detail"] == "serves impostor, not m"


def test_an_engine_that_closes_after_every_answer_is_ready_and_not_asked_without_end(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    def answer(request: Request, wire: Wire) -> None:
        wire.send(whole(b'{"data":[{"id":"m"}]}' if "models" in request.line else b"{}"))
        wire.close()

    one = engine(answer_health=answer)
    gateway.publish([route([endpoint(one)])], gateway=GatewaySpec(probe_interval_s=30))
    before = len(one.probes)
    time.sleep(1)
    assert len(one.probes) - before <= 2 * 6
    assert gateway.states() == {"chat/0@n1": "ready"}


def test_a_slow_health_answer_while_bytes_flow_is_life(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgw.gateway.endpoints.prober.ANSWER_TIMEOUT_S", 0.2)
    silent, streaming = threading.Event(), threading.Event()

    def health(request: Request, wire: Wire) -> None:
        if silent.is_set():
            wire.client_left()
            wire.close()
        else:
            wire.send(whole(b'{"data":[{"id":"m"}]}' if "models" in request.line else b"{}"))

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        while not streaming.wait(0.05):
            wire.send(chunk(event("a")))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer, answer_health=health))])])
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        client.until(event("a"))
        silent.set()
        time.sleep(1)
        assert gateway.states() == {"chat/0@n1": "ready"}
        streaming.set()
        client.until(LAST_CHUNK)
    eventually(lambda: gateway.states() == {"chat/0@n1": "failed"}, "no bytes, no answer")
    silent.clear()
    eventually(lambda: gateway.states() == {"chat/0@n1": "ready"}, "answers again")
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200


def test_a_huge_or_strange_models_answer_is_no_answer(gateway: RunningGateway, engine: MakeEngine) -> None:
    words = [b"[]"]

    def answer(request: Request, wire: Wire) -> None:
        wire.send(whole(words[0] if "models" in request.line else b"{}"))

    gateway.publish([route([endpoint(engine(answer_health=answer))])], ready=False)
    for strange in (b"", b"null", b'{"data":5}', b'{"data":[5]}', b"[" * 50_000, b"\xff", b" " * 2_000_000):
        words[0] = strange
        time.sleep(0.15)
        assert gateway.states()["chat/0@n1"] in {"loading", "starting"}
    words[0] = b'{"data":[{"id":"m"}]}'
    eventually(lambda: gateway.states() == {"chat/0@n1": "ready"}, "ready")

# SPDX-License-Identifier: Apache-2.0
"""Engines that answer the health question and compute nothing, and such that only look like it (G3, case 38)."""

from __future__ import annotations

import threading
import time

import pytest

from llmgw.gateway.endpoints import breaker, load_poller, progress
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Engine, Request, Wire, answer_ok, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

FIRST = "chat/0@n1"
SILENT = 0.8
LONGER = 2.0
"""Where something happens all the while, and the machine may be slow at it."""
PATIENT = GatewaySpec(probe_interval_s=0.1, idle_timeout_s=30, first_byte_timeout_s=30)


@pytest.fixture(autouse=True)
def _short_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENT_S", SILENT)
    monkeypatch.setattr(progress, "SILENT_BLIND_S", SILENT)
    monkeypatch.setattr(progress, "MEAN_WAIT_S", 0.1)
    monkeypatch.setattr(breaker, "FIRST_PAUSE_HUNG_S", 0.3)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE_HUNG_S", 0.3)


@pytest.fixture
def longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENT_S", LONGER)
    monkeypatch.setattr(progress, "SILENT_BLIND_S", LONGER)


class Stuck(threading.Event):
    """An answer that does not come until it is set; the probes' questions are answered all the while."""

    def __call__(self, request: Request, wire: Wire) -> None:
        assert self.wait(20)
        answer_ok(request, wire)


def detail(gateway: RunningGateway) -> str:
    return str(gateway.get("/api/v1/endpoints")["endpoints"][0]["detail"])


def hung(gateway: RunningGateway) -> bool:
    return gateway.states()[FIRST] == "ejected" and "hung" in detail(gateway)


def test_an_engine_that_answers_only_probes_is_out_until_bytes_flow(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_PAUSE_HUNG_S", 60.0)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE_HUNG_S", 60.0)
    stuck = Stuck()
    one = engine(answer=stuck)
    gateway.publish([route([endpoint(one)])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: hung(gateway), "hung")
        assert "1 request waits" in detail(gateway)
        status, headers, body = fetch(gateway.url + CHAT, "POST", asking())
        assert status == 503
        assert headers["retry-after"]
        assert b"ejected" in body
        stuck.set()
        assert client.answer()[0] == 200
    eventually(lambda: gateway.states()[FIRST] == "ready", "ready again")
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200


def test_an_engine_that_hung_is_tried_again_after_all_its_clients_left(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    stuck = Stuck()
    one = engine(answer=stuck)
    gateway.publish([route([endpoint(one)])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: hung(gateway), "hung")
    stuck.set()
    one.answer = answer_ok
    eventually(lambda: fetch(gateway.url + CHAT, "POST", asking())[0] == 200, "a trial")
    eventually(lambda: gateway.states()[FIRST] == "ready", "ready again")


def test_a_restart_of_a_hung_engine_lets_it_in_again(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "FIRST_PAUSE_HUNG_S", 60.0)
    monkeypatch.setattr(breaker, "LONGEST_PAUSE_HUNG_S", 60.0)
    stuck = Stuck()
    one = engine(answer=stuck)
    gateway.publish([route([endpoint(one)])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: hung(gateway), "hung")
        stuck.set()
    one.answer = answer_ok
    gateway.assert_nothing_held()
    one.stop()
    eventually(lambda: gateway.states()[FIRST] == "failed", "failed")
    one.start()
    eventually(lambda: gateway.states()[FIRST] == "ready", "ready")


def test_comments_in_a_stream_are_life_but_no_progress(gateway: RunningGateway, engine: MakeEngine) -> None:
    ends = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        while not ends.wait(0.05):
            wire.send(chunk(b": ping\n\n"))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        eventually(lambda: hung(gateway), "hung")
        ends.set()
        client.until(LAST_CHUNK)


@pytest.mark.usefixtures("longer")
def test_an_engine_that_streams_is_never_taken_for_hung(gateway: RunningGateway, engine: MakeEngine) -> None:
    ends = threading.Event()
    stuck = Stuck()

    def answer(request: Request, wire: Wire) -> None:
        if b'"stream": true' not in request.body:
            stuck(request, wire)
            return
        wire.send(CHUNKED)
        while not ends.wait(0.05):
            wire.send(chunk(event("a")))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as waiting, Client(gateway.url) as client:
        waiting.send(post(asking()))
        client.send(post(asking(stream=True)))
        until = time.monotonic() + 2 * LONGER
        while time.monotonic() < until:
            client.until(event("a"))
            assert gateway.states()[FIRST] == "ready"
        ends.set()
        client.until(LAST_CHUNK)
        stuck.set()
        assert waiting.answer()[0] == 200


@pytest.mark.usefixtures("longer")
def test_an_engine_whose_own_numbers_move_works_on_a_long_answer(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_poller, "POLL_S", 0.2)
    stands_still = threading.Event()
    pages = 0

    def asked(request: Request, wire: Wire) -> None:
        nonlocal pages
        if "/metrics" in request.line:
            pages += not stands_still.is_set()
            wire.send(whole(b"vllm:num_requests_running 1\nvllm:generation_tokens_total %d\n" % pages))
        else:
            wire.send(whole(b'{"data":[{"id":"m"}]}'))

    stuck = Stuck()
    gateway.publish([route([endpoint(engine(answer=stuck, answer_health=asked))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking()))
        until = time.monotonic() + 2 * LONGER
        while time.monotonic() < until:
            assert gateway.states()[FIRST] == "ready"
            time.sleep(0.05)
        stands_still.set()
        eventually(lambda: hung(gateway), "hung")
        stands_still.clear()
        eventually(lambda: gateway.states()[FIRST] == "ready", "it works again")
        stuck.set()
        assert client.answer()[0] == 200


def test_a_client_that_does_not_read_does_not_make_its_engine_look_hung(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        for _again in range(300):
            wire.send(chunk(event("x" * 65536)))
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url, receive_buffer=4096) as client:
        client.send(post(asking(stream=True)))
        client.until(b"x" * 1000)
        until = time.monotonic() + 4 * SILENT
        while time.monotonic() < until:
            assert gateway.states()[FIRST] == "ready"
            time.sleep(0.05)
    gateway.assert_nothing_held()


def test_bad_requests_refused_at_once_do_not_make_an_engine_look_hung(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "MEAN_WAIT_S", 1.5)
    gateway.publish(
        [route([endpoint(engine(answer=lambda _request, wire: wire.send(whole(b"{}", "400 Bad Request"))))])],
        gateway=PATIENT,
    )
    ends = threading.Event()

    def bad() -> None:
        while not ends.is_set():
            fetch(gateway.url + CHAT, "POST", asking())

    clients = [threading.Thread(target=bad) for _number in range(4)]
    for client in clients:
        client.start()
    try:
        until = time.monotonic() + 3 * SILENT
        while time.monotonic() < until:
            assert gateway.states()[FIRST] == "ready"
            time.sleep(0.05)
    finally:
        ends.set()
        for client in clients:
            client.join(5)


def test_refusals_do_not_hide_an_engine_that_hangs(gateway: RunningGateway, engine: MakeEngine) -> None:
    stuck = Stuck()

    def answer(request: Request, wire: Wire) -> None:
        if b'"bad"' in request.body:
            wire.send(whole(b"{}", "400 Bad Request"))
        else:
            stuck(request, wire)

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=PATIENT)
    with Client(gateway.url) as client:
        client.send(post(asking()))

        def found() -> bool:
            fetch(gateway.url + CHAT, "POST", asking(bad=True))
            time.sleep(0.2)
            return hung(gateway)

        eventually(found, "hung", 10)
        stuck.set()
        assert client.answer()[0] == 200


def test_an_engine_of_another_service_is_not_touched(gateway: RunningGateway, engine: MakeEngine) -> None:
    stuck = Stuck()
    one: Engine = engine(answer=stuck)
    other: Engine = engine(model="o")
    gateway.publish(
        [route([endpoint(one)]), route([endpoint(other, service="code")], service="code", served_name="o")],
        gateway=PATIENT,
    )
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: hung(gateway), "hung")
        assert gateway.states()["code/0@n1"] == "ready"
        stuck.set()
        assert client.answer()[0] == 200

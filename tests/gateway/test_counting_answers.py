# SPDX-License-Identifier: Apache-2.0
"""What an endpoint answered, well or not, as canaries are judged by it (R4, G7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import gateway_trials
from ansible_collections.llmgw.fleet.plugins.module_utils.gateway_api import Answers
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from llmgw.model.replica import GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, DONE, LAST_CHUNK, WAIT_S, Request, Wire, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route


class Repeating:
    """A client that asks again and again on a thread of its own."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._ends = threading.Event()
        self._url = gateway.url + CHAT
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            fetch(self._url, "POST", asking())

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(WAIT_S)


SELDOM = GatewaySpec(probe_interval_s=30)
ONE = "chat/0@n1"
Answer = Callable[[Request, Wire], None]


def counted(gateway: RunningGateway, name: str = ONE) -> tuple[int, int]:
    found = {one["id"]: (one["good"], one["bad"]) for one in gateway.get("/api/v1/endpoints")["endpoints"]}
    return found[name]


def growth(gateway: RunningGateway, name: str = ONE) -> Callable[[], tuple[int, int]]:
    """Good and bad answers from now on."""
    before = counted(gateway, name)

    def grown() -> tuple[int, int]:
        now = counted(gateway, name)
        return now[0] - before[0], now[1] - before[1]

    return grown


def with_status(status: str) -> Answer:
    return lambda _request, wire: wire.send(whole(b"{}", status))


def streamed(_request: Request, wire: Wire) -> None:
    wire.send(CHUNKED + chunk(event("a")) + chunk(DONE) + LAST_CHUNK)


def cut(_request: Request, wire: Wire) -> None:
    wire.send(CHUNKED + chunk(event("a")))
    wire.reset()


def resets(_request: Request, wire: Wire) -> None:
    wire.reset()


def unreadable(_request: Request, wire: Wire) -> None:
    wire.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "good", "bad"),
    [
        (with_status("200 OK"), 1, 0),
        (streamed, 1, 0),
        (with_status("400 Bad Request"), 1, 0),
        (with_status("404 Not Found"), 1, 0),
        (with_status("429 Too Many Requests"), 0, 0),
        (with_status("503 Service Unavailable"), 0, 0),
        (with_status("500 Internal Server Error"), 0, 1),
        (with_status("502 Bad Gateway"), 0, 1),
        (cut, 0, 1),
        (resets, 0, 1),
        (unreadable, 0, 1),
    ],
)
def test_every_answer_is_good_or_bad_or_says_nothing(
    gateway: RunningGateway, engine: MakeEngine, answer: Answer, good: int, bad: int
) -> None:
    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=SELDOM)
    grown = growth(gateway)
    with Client(gateway.url) as client:
        client.socket.sendall(post(asking(stream=answer is streamed), headers="connection: close\r\n"))
        while client.socket.recv(65536):
            pass
    gateway.assert_nothing_held()
    assert grown() == (good, bad)


def test_an_answer_that_does_not_come_in_time_is_a_bad_one(gateway: RunningGateway, engine: MakeEngine) -> None:
    def begins(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))

    impatient = GatewaySpec(probe_interval_s=30, first_byte_timeout_s=0.2, idle_timeout_s=0.2)
    for silent in (lambda _request, _wire: None, begins):
        gateway.publish([route([endpoint(engine(answer=silent))])], gateway=impatient)
        grown = growth(gateway)
        with Client(gateway.url) as client:
            client.socket.sendall(post(asking(), headers="connection: close\r\n"))
            while client.socket.recv(65536):
                pass
        gateway.assert_nothing_held()
        assert grown() == (0, 1)


def test_a_client_that_leaves_says_nothing_of_the_engine(gateway: RunningGateway, engine: MakeEngine) -> None:
    def begins(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))

    one = engine(answer=begins)
    gateway.publish([route([endpoint(one)])], gateway=SELDOM)
    grown = growth(gateway)
    with Client(gateway.url) as client:
        client.socket.sendall(post(asking(stream=True)))
        assert client.socket.recv(65536)
    gateway.assert_nothing_held()
    assert grown() == (0, 0)


def test_a_request_that_another_endpoint_saves_is_a_bad_answer_of_the_first(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    broken, good = endpoint(engine(answer=resets), 0), endpoint(engine(), 1)
    gateway.publish([route([broken, good], policy="round-robin")], gateway=SELDOM)
    first, second = growth(gateway), growth(gateway, "chat/1@n1")
    for _either_first in range(2):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    assert second() == (2, 0)
    assert first()[0] == 0
    assert first()[1] >= 1


def test_counts_go_on_under_new_routes(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=SELDOM)
    grown = growth(gateway)
    fetch(gateway.url + CHAT, "POST", asking())
    gateway.publish([route([endpoint(one, process_digest="sha256:next")])], gateway=SELDOM)
    fetch(gateway.url + CHAT, "POST", asking())
    assert grown() == (2, 0)


def test_canaries_are_counted_through_a_gateway_that_serves(gateway: RunningGateway, engine: MakeEngine) -> None:
    def every_third_fails(_request: Request, wire: Wire) -> None:
        seen.append(None)
        wire.send(whole(b"{}", "200 OK" if len(seen) % 3 else "500 Internal Server Error"))

    seen: list[Any] = []
    gateway.publish([route([endpoint(engine(answer=every_third_fails))])], gateway=SELDOM)
    statuses = [fetch(gateway.url + CHAT, "POST", asking())[0] for _before in range(3)]
    assert statuses == [200, 200, 500]
    client = Repeating(gateway)
    try:
        trial = gateway_trials.Trial((ONE,), 4, 100, 30)
        tried = gateway_trials.count(Host(), gateway.admin_url, None, gateway.generation, [trial])
    finally:
        client.stop()
    answers = tried.answers[ONE]
    assert isinstance(answers, Answers)
    assert (answers.good >= 4, answers.bad >= 1, tried.detail) == (True, True, "counted")
    eventually(lambda: sum(counted(gateway)) == len(seen), "every answer was counted")

# SPDX-License-Identifier: Apache-2.0
"""Requests that wait for their turn, and keys that have used up what they may: through real sockets (G5)."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator

import pytest

from llmgw.model.replica import AdmissionSpec, ApiKeySpec, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import Engine, Request, Wire, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route


def key(name: str, **more: object) -> ApiKeySpec:
    """A key whose secret is its name."""
    return ApiKeySpec(name, hashlib.sha256(name.encode()).hexdigest(), **more)  # type: ignore[arg-type]


def bearing(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


class OneByOne:
    """An engine's answers, each of which comes when it is let go; in which order the requests came in."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self._go = threading.Semaphore(0)

    def __call__(self, request: Request, wire: Wire) -> None:
        self.came.append(json.loads(request.body)["user"])
        assert self._go.acquire(timeout=20)
        wire.send(whole(b'{"usage": {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}}'))

    def let_go(self, count: int = 1) -> None:
        self._go.release(count)


@pytest.fixture
def answers() -> Iterator[OneByOne]:
    answers = OneByOne()
    yield answers
    answers.let_go(100)


class Senders:
    """Sends requests, each over a connection of its own, and waits until the gateway has each of them."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.clients: dict[str, Client] = {}

    def send(self, user: str, key_name: str | None = None) -> None:
        client = self.clients[user] = Client(self.gateway.url)
        before = self.inside() + self.waiting()
        headers = "" if key_name is None else f"authorization: Bearer {key_name}\r\n"
        client.send(post(asking(user=user), headers=headers))
        eventually(lambda: self.inside() + self.waiting() > before, f"{user} has come in")

    def answer(self, user: str) -> tuple[int, str | None]:
        """Status and the gateway's reason."""
        status, headers, _body = self.clients[user].answer()
        return status, dict(headers).get("x-llmgw-reason")

    def waiting(self) -> int:
        return self.gateway.in_loop(lambda: len(self.gateway.gateway.table.routes["chat"].line))

    def inside(self) -> int:
        return self.gateway.in_loop(lambda: self.gateway.gateway.table.routes["chat"].in_flight)


@pytest.fixture
def senders(gateway: RunningGateway) -> Iterator[Senders]:
    senders = Senders(gateway)
    yield senders
    for client in senders.clients.values():
        client.socket.close()


def publish(
    gateway: RunningGateway, one: Engine, *keys: ApiKeySpec, timeout_s: float = 30.0, max_queue: int = 4
) -> None:
    admission = AdmissionSpec(max_concurrency=1, max_queue=max_queue, queue_timeout_s=timeout_s)
    served = route([endpoint(one)], admission=admission)
    gateway.publish([served], gateway=GatewaySpec(probe_interval_s=0.1, keys=keys))


def came_in_order(answers: OneByOne, *users: str) -> None:
    """Lets one after the other go, and looks at who comes next."""
    for number in range(len(users)):
        eventually(lambda number=number: len(answers.came) > number, f"number {number} has reached the engine")  # type: ignore[misc]
        answers.let_go()
    assert tuple(answers.came) == users


def test_a_request_waits_for_its_turn_and_is_answered(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders
) -> None:
    publish(gateway, engine(answer=answers))
    for user in ("first", "second", "third"):
        senders.send(user)
    assert (senders.inside(), senders.waiting()) == (1, 2)
    came_in_order(answers, "first", "second", "third")
    assert [senders.answer(user)[0] for user in ("first", "second", "third")] == [200] * 3


def test_a_higher_priority_goes_first_and_keys_take_turns(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders
) -> None:
    publish(gateway, engine(answer=answers), key("a"), key("b"), key("vip", priority=5), max_queue=9)
    for user in ("a0", "a1", "a2", "a3", "b1", "b2", "vip1"):
        senders.send(user, user.rstrip("0123456789"))
    came_in_order(answers, "a0", "vip1", "a1", "b1", "a2", "b2", "a3")


def test_a_full_line_refuses_with_the_time_to_come_again(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders
) -> None:
    publish(gateway, engine(answer=answers), max_queue=2)
    for user in ("in", "one", "two"):
        senders.send(user)
    status, headers, body = fetch(gateway.url + CHAT, "POST", asking(user="three"))
    assert (status, json.loads(body)["error"]["type"]) == (429, "rate_limit_error")
    assert headers["x-llmgw-reason"] == "queue_full"
    assert 1 <= int(headers["retry-after"]) <= 60
    came_in_order(answers, "in", "one", "two")


def test_a_full_line_of_one_key_gives_way_to_another(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders
) -> None:
    publish(gateway, engine(answer=answers), key("greedy"), key("modest"), max_queue=3)
    for user in ("greedy0", "greedy1", "greedy2", "greedy3"):
        senders.send(user, "greedy")
    client = senders.clients["modest"] = Client(gateway.url)
    client.send(post(asking(user="modest"), headers="authorization: Bearer modest\r\n"))
    assert senders.answer("greedy3") == (429, "queue_full")
    came_in_order(answers, "greedy0", "greedy1", "modest", "greedy2")
    assert senders.answer("modest")[0] == 200


def test_who_waits_too_long_is_told_so_and_never_reaches_an_engine(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders
) -> None:
    publish(gateway, engine(answer=answers), timeout_s=0.3)
    senders.send("in")
    client = senders.clients["late"] = Client(gateway.url)
    client.send(post(asking(user="late")))
    assert senders.answer("late") == (429, "queue_timeout")
    answers.let_go()
    assert senders.answer("in")[0] == 200
    assert answers.came == ["in"]


def test_who_is_late_just_as_the_last_place_becomes_free_is_told_so(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(gateway, engine(answer=answers), timeout_s=0.05)
    swept = gateway.in_loop(lambda: gateway.gateway.table.routes["chat"].line)
    monkeypatch.setattr(type(swept), "expired", lambda _line, _now: [])  # as between two sweeps
    senders.send("in")
    senders.send("late")
    time.sleep(0.1)
    answers.let_go()
    assert senders.answer("in")[0] == 200
    eventually(lambda: not senders.waiting(), "its time is over")
    monkeypatch.undo()
    assert senders.answer("late") == (429, "queue_timeout")


def test_who_waits_for_a_service_that_is_removed_is_told_at_once(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders
) -> None:
    publish(gateway, engine(answer=answers), key("a", max_concurrency=2))
    senders.send("in", "a")
    senders.send("waiting", "a")
    gateway.publish([], ready=False)
    assert senders.answer("waiting") == (503, "no_replica_placed")
    answers.let_go()
    assert senders.answer("in")[0] == 200
    assert answers.came == ["in"]


@pytest.mark.parametrize("leave", ["close", "reset"])
def test_who_leaves_the_line_frees_the_place_and_what_was_reserved(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne, senders: Senders, leave: str
) -> None:
    # What a key has used outlives a bundle, and the gateway outlives a test.
    name = f"who-leaves-by-{leave}"
    publish(gateway, engine(answer=answers), key(name, requests_per_minute=2, max_concurrency=2), max_queue=1)
    senders.send("in", name)
    senders.send("left", name)
    if leave == "reset":
        senders.clients["left"].reset()
    else:
        senders.clients["left"].socket.close()
    eventually(lambda: not senders.waiting(), "the line is empty")
    senders.send("next", name)
    came_in_order(answers, "in", "next")
    assert [senders.answer(user)[0] for user in ("in", "next")] == [200, 200]
    assert fetch(gateway.url + CHAT, "POST", asking(user="more"), bearing(name))[0] == 429


def test_a_key_makes_no_more_requests_a_minute_than_it_may_and_a_reload_forgives_nothing(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine()
    publish(gateway, one, key("minutely", requests_per_minute=3), key("b"))
    statuses = [fetch(gateway.url + CHAT, "POST", asking(), bearing("minutely"))[0] for _each in range(2)]
    publish(gateway, one, key("b"), key("minutely", requests_per_minute=3, priority=1))
    statuses += [fetch(gateway.url + CHAT, "POST", asking(), bearing("minutely"))[0] for _each in range(2)]
    assert statuses == [200, 200, 200, 429]
    status, headers, _body = fetch(gateway.url + CHAT, "POST", asking(), bearing("minutely"))
    assert (status, headers["x-llmgw-reason"]) == (429, "key_requests_per_minute")
    assert 1 <= int(headers["retry-after"]) <= 20
    assert fetch(gateway.url + CHAT, "POST", asking(), bearing("b"))[0] == 200
    assert len(one.requests) == 4


def test_tokens_are_settled_by_what_the_engine_counted(
    gateway: RunningGateway, engine: MakeEngine, answers: OneByOne
) -> None:
    publish(gateway, engine(answer=answers), key("talker", tokens_per_minute=1000))
    answers.let_go(50)

    def asked() -> tuple[int, str | None]:
        status, headers, _body = fetch(gateway.url + CHAT, "POST", asking(user="x"), bearing("talker"))
        return status, headers["x-llmgw-reason"]

    served = 0
    while (answer := asked())[0] == 200 and served < 50:
        served += 1
    # Each takes 100 of 1,000 and reserves more: by what is reserved alone, the fourth would be refused.
    assert 7 <= served < 50
    assert answer == (429, "key_tokens_per_minute")


def test_a_client_of_anthropic_is_known_by_its_own_header(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    publish(gateway, one, key("a"))
    assert fetch(gateway.url + CHAT, "POST", asking(), {"x-api-key": "a"})[0] == 200
    assert fetch(gateway.url + CHAT, "POST", asking(), {"x-api-key": "b"})[0] == 401
    assert one.requests[0].values("x-api-key") == []

# SPDX-License-Identifier: Apache-2.0
"""However a request ends, its place at key, service and endpoint is free again, once (cases 1 to 3 and 6 to 11)."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from llmgw.model.replica import ApiKeySpec, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Engine, Request, Wire, answer_ok, chunk, event, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

SECRET = "one-at-a-time"
AUTH = f"authorization: Bearer {SECRET}\r\n"
SPEC = GatewaySpec(
    probe_interval_s=0.05,
    first_byte_timeout_s=0.4,
    idle_timeout_s=0.4,
    max_body_bytes=1_000_000,
    keys=(ApiKeySpec("narrow", hashlib.sha256(SECRET.encode()).hexdigest(), max_concurrency=1),),
)

Act = Callable[[Client, Engine], None]


def sends(data: bytes, then: str = "close") -> Callable[[Request, Wire], None]:
    def answer(_request: Request, wire: Wire) -> None:
        wire.send(data)
        if then == "hang":
            wire.client_left()
        if then == "reset":
            wire.reset()
        wire.close()

    return answer


def asks(client: Client, _engine: Engine) -> None:
    client.send(post(asking(stream=True), headers=AUTH + "connection: close\r\n"))
    client.rest()


def asked_and(leave: Callable[[Client], None]) -> Act:
    """Asks, and when the engine has the request, leaves."""

    def act(client: Client, engine: Engine) -> None:
        before = len(engine.requests)
        client.send(post(asking(stream=True), headers=AUTH))
        eventually(lambda: len(engine.requests) > before, "the engine was asked")
        leave(client)

    return act


def closes(client: Client) -> None:
    client.socket.close()


def stops_sending(client: Client) -> None:
    client.socket.shutdown(socket.SHUT_WR)
    client.rest()


def sends_garbage(client: Client) -> None:
    client.send(b"\x00\r\n\r\n")
    client.rest()


def half_a_body(client: Client, _engine: Engine) -> None:
    client.send(post(asking(user="x" * 1000), headers=AUTH)[:-100])


def sends_whole(data: bytes) -> Act:
    def act(client: Client, _engine: Engine) -> None:
        client.send(data)
        client.answer()

    return act


STREAM = CHUNKED + chunk(event("a"))
BROKEN = post(b"{", headers=AUTH)
ENDS: dict[str, tuple[Callable[[Request, Wire], None], Act]] = {
    "an answer": (answer_ok, asks),
    "a stream": (sends(STREAM + LAST_CHUNK), asks),
    "a refusal of the engine": (sends(whole(b"no", "400 Bad Request")), asks),
    "an engine that is full": (sends(whole(b"no", "429 Too Many Requests")), asks),
    "an engine that is not ready": (sends(whole(b"no", "503 Service Unavailable")), asks),
    "an error of the engine": (sends(whole(b"no", "500 Oops")), asks),
    "no answer": (sends(b""), asks),
    "a reset": (sends(b"", "reset"), asks),
    "garbage": (sends(b"\x00garbage\r\n\r\n"), asks),
    "a cut stream": (sends(STREAM), asks),
    "a stream that is reset": (sends(STREAM, "reset"), asks),
    "a cut length": (sends(whole(b"x" * 10)[:-5]), asks),
    "no first byte in time": (sends(b"", "hang"), asks),
    "no next byte in time": (sends(STREAM, "hang"), asks),
    "a client that closes before a byte": (sends(b"", "hang"), asked_and(closes)),
    "a client that resets before a byte": (sends(b"", "hang"), asked_and(Client.reset)),
    "a client that closes within a stream": (sends(STREAM, "hang"), asked_and(closes)),
    "a client that resets within a stream": (sends(STREAM, "hang"), asked_and(Client.reset)),
    "a client that closes within an answer": (sends(whole(b"x" * 10)[:-5], "hang"), asked_and(closes)),
    "a client that stops sending": (sends(STREAM, "hang"), asked_and(stops_sending)),
    "a client that sends garbage": (sends(STREAM, "hang"), asked_and(sends_garbage)),
    "half a body": (answer_ok, half_a_body),
    "a body that is no JSON": (answer_ok, sends_whole(BROKEN)),
    "a body too large": (answer_ok, sends_whole(post(b" " * 1_000_001, headers=AUTH))),
    "an unknown model": (answer_ok, sends_whole(post(asking("nobody"), headers=AUTH))),
    "a wrong key": (answer_ok, sends_whole(post(asking(), headers="authorization: Bearer wrong\r\n"))),
}


@pytest.mark.parametrize(("answer", "act"), ENDS.values(), ids=ENDS)
def test_a_key_and_a_service_of_one_place_have_it_free_again_after(
    gateway: RunningGateway, engine: MakeEngine, answer: Callable[[Request, Wire], None], act: Act
) -> None:
    one = engine(answer=answer)
    gateway.publish([route([endpoint(one)], max_concurrency=1)], gateway=SPEC)
    for _again in range(2):
        with Client(gateway.url) as client:
            act(client, one)
        gateway.assert_nothing_held()
        eventually(lambda: set(gateway.states().values()) == {"ready"}, "asked again")
    one.answer = answer_ok
    for _again in range(2):
        with Client(gateway.url) as client:
            client.send(post(asking(), headers=AUTH))
            assert client.answer()[0] == 200
    gateway.assert_nothing_held()


def test_requests_that_are_refused_take_no_place(gateway: RunningGateway, engine: MakeEngine) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        assert go.wait(10)
        wire.send(whole(b"{}"))

    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=SPEC)
    with Client(gateway.url) as first, Client(gateway.url) as second:
        first.send(post(asking(), headers=AUTH))
        eventually(lambda: gateway.held().get("keys") == 1, "one in flight")
        for _number in range(20):
            second.send(post(asking(), headers=AUTH))
            assert second.answer()[0] == 429
        assert gateway.held()["endpoints"] == 1
        go.set()
        assert first.answer()[0] == 200
        second.send(post(asking(), headers=AUTH))
        assert second.answer()[0] == 200


def test_routes_that_change_while_requests_end_lose_no_place(gateway: RunningGateway, engine: MakeEngine) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(STREAM)
        assert go.wait(10)
        wire.send(LAST_CHUNK)

    engines = [engine(answer=answer), engine(answer=answer)]
    routes = [route([endpoint(one, number)], max_concurrency=4) for number, one in enumerate(engines)]
    gateway.publish([routes[0]])
    clients = [Client(gateway.url) for _number in range(4)]
    try:
        for client in clients[:2]:
            client.send(post(asking(stream=True)))
            client.until(event("a"))
        gateway.publish([routes[1]])
        for client in clients[2:]:
            client.send(post(asking(stream=True)))
            client.until(event("a"))
        clients[0].reset()
        gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)], max_concurrency=4)])
        go.set()
        for client in clients[1:]:
            client.until(LAST_CHUNK)
    finally:
        for client in clients:
            client.socket.close()
    gateway.assert_nothing_held()
    assert {one["in_flight"] for one in gateway.get("/api/v1/endpoints")["endpoints"]} == {0}


def test_every_request_is_counted_once_however_it_ends(gateway: RunningGateway, engine: MakeEngine) -> None:
    def total(name: str) -> float:
        return sum(value for key, value in gateway.metrics().items() if key.startswith(name + "{"))

    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=SPEC)
    names = ("llmgw_requests_total", "llmgw_request_duration_seconds_count", "llmgw_client_aborts_total")
    before = {name: total(name) for name in names}
    chosen = (
        "an answer",
        "a stream",
        "an error of the engine",
        "a cut stream",
        "garbage",
        "no first byte in time",
        "a client that resets before a byte",
        "a client that closes within a stream",
    )
    for name in chosen:
        one.answer, act = ENDS[name]
        eventually(lambda: set(gateway.states().values()) == {"ready"}, "asked again")
        with Client(gateway.url) as client:
            act(client, one)
        gateway.assert_nothing_held()
    grown = {name: total(name) - before[name] for name in names}
    assert grown == dict(zip(names, (len(chosen), len(chosen), 2), strict=True))


def test_clients_that_come_and_go_leave_no_task_and_no_socket(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine(answer=sends(STREAM, "hang"))
    gateway.publish([route([endpoint(one)])])

    def open_things() -> tuple[int, int]:
        tasks = gateway.in_loop(lambda: len(asyncio.all_tasks()))
        return tasks, len(list(Path("/proc/self/fd").iterdir()))

    def come_and_go(count: int) -> None:
        for number in range(count):
            with Client(gateway.url) as client:
                client.send(post(asking(stream=True, user=str(number))))
                client.until(event("a"))
                if number % 2:
                    client.reset()
        gateway.assert_nothing_held()

    come_and_go(5)
    before = open_things()
    come_and_go(60)
    eventually(lambda: all(a <= b + 4 for a, b in zip(open_things(), before, strict=True)), "nothing is left open")


def test_a_name_that_was_never_served_leaves_no_series_behind(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    fetch(gateway.url + CHAT, "POST", asking("nobody"))
    before = set(gateway.metrics())
    for number in range(50):
        for path in (CHAT, f"/v1/odd-{number}"):
            fetch(gateway.url + path, "POST", asking(f"nobody-{number}"), {"authorization": f"Bearer k{number}"})
    grown = set(gateway.metrics()) - before
    assert [name for name in grown if "nobody-" in name or "odd-" in name or "k1" in name] == []
    assert len(grown) < 10


def test_answers_belong_to_their_requests_however_clients_share_connections(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    def answer(request: Request, wire: Wire) -> None:
        wire.send(whole(request.body))

    gateway.publish([route([endpoint(engine(answer=answer), number) for number in range(3)])])
    wrong: list[bytes] = []

    def ask(worker: int) -> None:
        numbers = itertools.count()
        with Client(gateway.url) as client:
            for size in (1, 5000, 1, 200_000, 1) * 4:
                bodies = [asking(user=f"{worker}-{next(numbers)}-" + "x" * size) for _ahead in range(3)]
                client.send(b"".join(map(post, bodies)))
                wrong.extend(body for body in bodies if client.answer()[2] != body)

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [json.loads(body)["user"][:20] for body in wrong] == []

# SPDX-License-Identifier: Apache-2.0
"""A client that leaves ends its engine's work within 100 ms, and a slow one costs bounded memory (G6)."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

import pytest

from llmgw.model.replica import GatewaySpec
from tests.gateway.client import Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event, swallowing, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, route

SOON_S = 0.1


class Watching:
    """Answers `first` and then notes when its client was gone."""

    def __init__(self, first: bytes) -> None:
        self._first = first
        self.asked = threading.Event()
        self.left: queue.Queue[float | None] = queue.Queue()

    def __call__(self, _request: Request, wire: Wire) -> None:
        wire.send(self._first)
        self.asked.set()
        self.left.put(time.monotonic() if wire.client_left() is not None else None)
        wire.close()

    def left_after(self, moment: float) -> float:
        at = self.left.get(timeout=6)
        assert at is not None, "the engine's client never left"
        return at - moment


@pytest.mark.parametrize(
    "begun",
    [b"", b"HTTP/1.1 200 OK\r\n", whole(b"x" * 10)[:-5], CHUNKED, CHUNKED + chunk(event("a"))],
    ids=["before any byte", "within the head", "within a body", "before the first event", "within a stream"],
)
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_takes_its_engine_request_along(
    gateway: RunningGateway, engine: MakeEngine, begun: bytes, how: str
) -> None:
    watching = Watching(begun)
    gateway.publish([route([endpoint(engine(answer=watching))])])
    before = gateway.metrics()['llmgw_client_aborts_total{service="chat"}']
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        assert watching.asked.wait(5)
        time.sleep(0.05)
        moment = time.monotonic()
        client.reset() if how == "reset" else client.socket.close()
        assert watching.left_after(moment) < SOON_S
    gateway.assert_nothing_held()
    assert gateway.metrics()['llmgw_client_aborts_total{service="chat"}'] == before + 1


def test_a_client_that_sent_requests_ahead_takes_the_running_one_along(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    watching = Watching(b"")
    one = engine(answer=watching)
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        client.send(post(asking()) * 5)
        assert watching.asked.wait(5)
        time.sleep(0.05)
        moment = time.monotonic()
        client.socket.close()
        assert watching.left_after(moment) < SOON_S
    gateway.assert_nothing_held()
    assert len(one.requests) == 1


def test_requests_sent_ahead_of_an_answer_that_closes_leave_nothing_behind(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine(answer=lambda _request, wire: wire.client_left())
    gateway.publish([route([endpoint(one)])], gateway=GatewaySpec(probe_interval_s=0.1, total_timeout_s=0.4))
    with Client(gateway.url) as client:
        client.send(post(asking()) * 3)
        assert client.answer()[0] == 504
        assert client.rest() == b""
    gateway.assert_nothing_held()
    assert len(one.requests) == 1


def test_requests_sent_ahead_without_end_are_cut_off(gateway: RunningGateway, engine: MakeEngine) -> None:
    watching = Watching(b"")
    gateway.publish([route([endpoint(engine(answer=watching))])])
    with Client(gateway.url) as client:
        client.send(post(asking()) * 200)
        assert client.rest() == b""
    gateway.assert_nothing_held()


def test_garbage_of_a_client_that_reads_no_answer_does_not_keep_its_connection(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmgw.gateway.wire.client.LEAVE_S", 0.2)
    gateway.publish([route([endpoint(engine(answer=lambda _request, wire: wire.send(whole(b"x" * 10_000_000))))])])
    with Client(gateway.url, receive_buffer=4096) as client:
        client.send(post(asking()))
        clients = gateway.gateway.plane.clients
        eventually(lambda: gateway.in_loop(lambda: any(one.blocked for one in clients)), "its answer does not leave")
        client.send(b"\x00garbage\r\n\r\n")
        eventually(lambda: not gateway.in_loop(lambda: len(clients)), "its connection is cut")


def test_a_client_that_leaves_within_its_body_reaches_no_engine(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        client.send(post(asking(user="x" * 200_000))[:100_000])
        eventually(lambda: gateway.held().get("body bytes"), "some of the body is held")
    gateway.assert_nothing_held()
    assert one.requests == []


def test_a_client_that_leaves_while_the_gateway_connects_is_forgotten(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=GatewaySpec(probe_interval_s=30, connect_timeout_s=20))
    pool = gateway.gateway.table.endpoints["chat/0@n1"].pool
    tasks = gateway.in_loop(lambda: len(asyncio.all_tasks()))
    with swallowing() as port, Client(gateway.url) as client:
        gateway.in_loop(lambda: setattr(pool, "port", port))
        client.send(post(asking()))
        eventually(lambda: gateway.held().get("endpoints") == 1, "it connects")
        time.sleep(0.1)
        assert gateway.held()["endpoints"] == 1
        client.socket.close()
        began = time.monotonic()
        gateway.assert_nothing_held()
        assert time.monotonic() - began < 10
        eventually(lambda: gateway.in_loop(lambda: len(asyncio.all_tasks())) <= tasks, "it no longer connects")


def test_a_slow_client_stops_the_engine_from_sending_and_loses_nothing(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    size = 64 * 1024 * 1024
    piece = bytes(range(256)) * 1024
    sent = [0]

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        while sent[0] < size:
            wire.send(chunk(piece))
            sent[0] += len(piece)
        wire.send(LAST_CHUNK)

    gateway.publish([route([endpoint(engine(answer=answer))])])
    with Client(gateway.url, receive_buffer=32 * 1024) as client:
        client.send(post(asking(stream=True)))
        client.head()
        stuck_at = -1
        while stuck_at != sent[0]:
            stuck_at = sent[0]
            time.sleep(0.3)
        assert stuck_at < 24 * 1024 * 1024, "the engine sends into the gateway although the client reads nothing"
        got = 0
        while True:
            length = int(client.until(b"\r\n"), 16)
            if not length:
                break
            data = client.exactly(length)
            assert data == (piece + piece)[got % 256 : got % 256 + min(256, length)] + data[256:]
            got += length
            client.exactly(2)
        assert got == size


def test_a_client_that_stops_reading_is_let_go(gateway: RunningGateway, engine: MakeEngine) -> None:
    watching_done = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED)
        try:
            while True:
                wire.send(chunk(b"x" * 65536))
        finally:
            watching_done.set()

    gateway.publish(
        [route([endpoint(engine(answer=answer))])], gateway=GatewaySpec(probe_interval_s=0.1, idle_timeout_s=0.3)
    )
    with Client(gateway.url, receive_buffer=16 * 1024) as client:
        client.send(post(asking(stream=True)))
        client.head()
        assert watching_done.wait(5), "the engine was never let go"
        gateway.assert_nothing_held()

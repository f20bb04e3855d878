# SPDX-License-Identifier: Apache-2.0
"""A gateway with worker processes: what they share, and what becomes of clients when one goes (G6b, G12)."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from llmgw.model.replica import AdmissionSpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Engine, Request, Wire, chunk, event, whole
from tests.gateway.harness import endpoint, eventually, fetch, route, write
from tests.gateway.workers import LONG_S, Asking, Workers, workers

STREAMS = 16
"""Connections enough for both workers to have some: the system spreads them by chance."""


class Held:
    """An engine's answers that stream until told to end."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self, request: Request, wire: Wire) -> None:
        if b'"stream"' not in request.body:
            wire.send(whole(b'{"id":"x","choices":[]}'))
            return
        wire.send(CHUNKED + chunk(event("a")))
        self.go.wait(10 * LONG_S)
        wire.send(chunk(event("b")) + LAST_CHUNK)


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, held: Held) -> Iterator[Workers]:
    engine = Engine(answer=held)
    with workers(tmp_path_factory.mktemp("workers"), [route([endpoint(engine)])]) as running:
        running.engine = engine  # type: ignore[attr-defined]
        yield running
    engine.stop()


@pytest.fixture
def gateway(shared: Workers, held: Held) -> Iterator[Workers]:
    held.go.clear()
    eventually(shared.serving, "two workers serve", LONG_S)
    shared.publish([route([endpoint(shared.engine)])])  # type: ignore[attr-defined]
    eventually(lambda: shared.get("status")["generation"] == shared.generation, "the bundle in force", LONG_S)
    yield shared
    held.go.set()
    eventually(lambda: shared.get("status")["requests_in_flight"] == 0, "nothing in flight", LONG_S)


def stream(stack: ExitStack, gateway: Workers) -> Client:
    """A client that has got the first event of a stream."""
    client = stack.enter_context(Client(gateway.url))
    client.socket.settimeout(LONG_S)
    client.send(post(asking(stream=True)))
    client.until(event("a"))
    return client


def test_what_is_told_is_the_sum_over_the_workers(gateway: Workers, held: Held) -> None:
    duration = 'llmgw_request_duration_seconds_count{service="chat"}'
    before = gateway.settled(), gateway.endpoint()["good"], gateway.metrics().get(duration, 0.0)
    with ExitStack() as stack:
        streams = [stream(stack, gateway) for _number in range(STREAMS)]
        eventually(lambda: gateway.endpoint()["in_flight"] == STREAMS, "all in flight at the endpoint")
        assert gateway.get("services")["services"][0]["in_flight"] == STREAMS
        assert gateway.get("status")["requests_in_flight"] == STREAMS
        assert gateway.metrics()['llmgw_inflight_requests{service="chat"}'] == STREAMS
        held.go.set()
        for client in streams:
            client.until(LAST_CHUNK)
        eventually(lambda: gateway.endpoint()["in_flight"] == 0, "none in flight")
        eventually(lambda: gateway.served() == before[0] + STREAMS, "all counted")
        eventually(lambda: gateway.endpoint()["good"] == before[1] + STREAMS, "all counted as good")
        eventually(lambda: gateway.metrics()[duration] == before[2] + STREAMS, "all measured")


def test_a_killed_worker_cuts_its_own_connections_only_and_is_replaced_with_its_totals_kept(
    gateway: Workers, held: Held
) -> None:
    for _number in range(20):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    served, restarts = gateway.settled(), gateway.metrics()["llmgw_worker_restarts_total"]
    assert served >= 20
    with ExitStack() as stack:
        streams = [stream(stack, gateway) for _number in range(STREAMS)]
        eventually(lambda: gateway.endpoint()["in_flight"] == STREAMS, "all in flight")
        victim = min(gateway.pids())
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: 0 < gateway.endpoint()["in_flight"] < STREAMS, "only those of the other in flight")
        left = gateway.endpoint()["in_flight"]
        held.go.set()
        whole_ones = sum(client.rest_ends_well() for client in map(Ending, streams))
        assert whole_ones == left
    eventually(gateway.serving, "two workers serve again", LONG_S)
    assert victim not in gateway.pids()
    assert gateway.metrics()["llmgw_worker_restarts_total"] == restarts + 1
    eventually(lambda: gateway.served() == served + left, "totals are kept, and the rest is counted")
    assert all(fetch(gateway.url + CHAT, "POST", asking())[0] == 200 for _number in range(20))


class Ending:
    """What becomes of a stream."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def rest_ends_well(self) -> bool:
        try:
            self._client.until(LAST_CHUNK)
        except (AssertionError, ConnectionError):
            return False
        return True


def test_a_reload_under_load_loses_no_request_and_lets_streams_end(gateway: Workers, held: Held) -> None:
    eventually(lambda: gateway.endpoint()["in_flight"] == 0, "quiet")
    served, status = gateway.settled(), gateway.get("status")
    restarts = gateway.metrics()["llmgw_worker_restarts_total"]
    with ExitStack() as stack:
        streams = [stream(stack, gateway) for _number in range(4)]
        clients = Asking(gateway.url, keeping=2, anew=2)
        before = gateway.pids()
        os.kill(gateway.pid, signal.SIGHUP)
        eventually(lambda: len(gateway.pids() - before) == 2 and serving(gateway) == 2, "new workers serve", LONG_S)
        so_far = clients.answered
        eventually(lambda: clients.answered > so_far + 20, "clients go on", LONG_S)
        clients.stop()
        assert clients.failures == []
        eventually(lambda: gateway.get("status")["requests_in_flight"] == 4, "only the streams in flight", LONG_S)
        held.go.set()
        assert all(Ending(client).rest_ends_well() for client in streams)
    eventually(lambda: not before & gateway.pids(), "the old workers are gone", LONG_S)
    eventually(lambda: gateway.served() == served + clients.answered + 4, "each request counted once", LONG_S)
    assert gateway.metrics()["llmgw_worker_restarts_total"] == restarts
    assert gateway.get("status")["started_at"] == status["started_at"]


def serving(gateway: Workers) -> float | None:
    """How many workers serve; None while nobody says."""
    try:
        return gateway.metrics()['llmgw_workers{stage="serving"}']
    except OSError:
        return None


def test_the_generation_told_is_that_of_the_slowest_worker_and_one_that_hangs_is_told_of(gateway: Workers) -> None:
    slow = max(gateway.pids())
    os.kill(slow, signal.SIGSTOP)
    try:
        before = gateway.generation
        gateway.publish([route([endpoint(gateway.engine, draining=True)])])  # type: ignore[attr-defined]
        eventually(lambda: gateway.get("status")["loaded_at"] and gateway.endpoint()["state"] == "draining", "taken in")
        eventually(lambda: gateway.metrics()['llmgw_workers{stage="hanging"}'] == 1, "told in metrics", LONG_S)
        assert gateway.get("status")["generation"] == before
        assert any("hang" in one["message"] for one in gateway.get("findings")["findings"])
    finally:
        os.kill(slow, signal.SIGCONT)
    eventually(lambda: gateway.get("status")["generation"] == gateway.generation, "in force everywhere", LONG_S)
    eventually(lambda: gateway.metrics()['llmgw_workers{stage="hanging"}'] == 0, "it hangs no more", LONG_S)
    assert slow in gateway.pids()


def test_an_engine_that_dies_is_out_at_every_worker_and_back_at_every_worker(gateway: Workers) -> None:
    engine = gateway.engine  # type: ignore[attr-defined]
    engine.stop()
    eventually(lambda: gateway.endpoint()["state"] == "failed", "failed")
    statuses = [fetch(gateway.url + CHAT, "POST", asking())[0] for _number in range(STREAMS)]
    assert set(statuses) <= {502, 503}
    engine.start()
    eventually(lambda: gateway.endpoint()["state"] == "ready", "ready")
    answers = [fetch(gateway.url + CHAT, "POST", asking()) for _number in range(STREAMS)]
    assert [(status, body) for status, _headers, body in answers if status != 200] == []


def _states(gateway: Workers) -> set[str]:
    return {one["state"] for one in gateway.get("endpoints")["endpoints"]}


def test_a_prompt_goes_where_it_is_cached_whichever_worker_gets_it(gateway: Workers) -> None:
    engines = [Engine(model="m") for _number in range(3)]
    try:
        gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)])])
        eventually(lambda: gateway.get("status")["generation"] == gateway.generation, "the bundle in force", LONG_S)
        eventually(lambda: _states(gateway) == {"ready"}, "all ready at both workers", LONG_S)
        for conversation in range(3):
            beginning = f"{conversation} " + "a long beginning that all turns have " * 400
            prompt = asking(messages=[{"role": "user", "content": beginning}])
            before = [len(one.requests) for one in engines]
            assert fetch(gateway.url + CHAT, "POST", prompt)[0] == 200
            time.sleep(0.5)  # more than workers take to tell one another
            for _turn in range(12):
                assert fetch(gateway.url + CHAT, "POST", prompt)[0] == 200
            asked = [len(one.requests) - many for one, many in zip(engines, before, strict=True)]
            assert sorted(asked) == [0, 0, 13]
    finally:
        for one in engines:
            one.stop()


def test_sigterm_lets_the_streams_of_all_workers_finish(tmp_path: Path, engine: MakeEngine) -> None:
    held = Held()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, ExitStack() as stack:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(LONG_S)
        routes = [route([endpoint(engine(answer=held))])]
        gateway = stack.enter_context(workers(tmp_path, routes, environ={"NOTIFY_SOCKET": str(tmp_path / "notify")}))
        assert manager.recv(200).startswith(b"READY=1\nSTATUS=Clients are served by 2 workers")
        streams = [stream(stack, gateway) for _number in range(STREAMS)]
        pids = gateway.pids()
        os.kill(gateway.pid, signal.SIGTERM)
        assert manager.recv(200) == b"STOPPING=1"
        eventually(lambda: not accepted(gateway.url), "no new connections", LONG_S)
        assert gateway.get("status")["draining"] is True
        assert gateway.pids() == pids
        held.go.set()
        assert all(Ending(client).rest_ends_well() for client in streams)
        eventually(lambda: not alive(pids), "all workers ended", LONG_S)


def test_workers_end_after_their_requests_when_the_control_process_is_killed(
    tmp_path: Path, engine: MakeEngine
) -> None:
    held = Held()
    with workers(tmp_path, [route([endpoint(engine(answer=held))])]) as gateway, ExitStack() as stack:
        gateway.reload()  # so that none of them has got hold of another one's channel by it
        streams = [stream(stack, gateway) for _number in range(4)]
        pids = gateway.pids()
        os.kill(gateway.pid, signal.SIGKILL)
        eventually(lambda: not accepted(gateway.url), "no new connections", LONG_S)
        held.go.set()
        assert all(Ending(client).rest_ends_well() for client in streams)
        eventually(lambda: not alive(pids), "all workers ended", LONG_S)


def accepted(url: str) -> bool:
    try:
        fetch(url + "/healthz")
    except OSError:
        return False
    return True


def alive(pids: set[int]) -> set[int]:
    """Those that run; one whose parent was killed may wait for ever to be asked how it ended."""
    return {pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_an_endpoint_that_comes_back_is_not_asked_by_what_was_known_of_it_before(
    tmp_path: Path, engine: MakeEngine
) -> None:
    gone = engine()
    served = [route([endpoint(gone)])]
    with workers(tmp_path, served) as gateway:
        eventually(lambda: gateway.endpoint()["state"] == "ready", "ready", LONG_S)
        found = set()
        for routes in ([route([])], served) * 4:
            gateway.publish(routes)
            if routes is served:  # workers see the bundle a moment before or after the control process
                until = time.monotonic() + 0.6
                while time.monotonic() < until:
                    found.add(fetch(gateway.url + CHAT, "POST", asking())[0])
            eventually(lambda: gateway.get("status")["generation"] == gateway.generation, "in force", LONG_S)
            gone.stop()  # nobody probes it any more
        assert found == {503}


def test_clients_of_every_worker_get_their_turn(tmp_path: Path, engine: MakeEngine) -> None:
    def slow(_request: Request, wire: Wire) -> None:
        time.sleep(0.1)
        wire.send(whole(b'{"id":"x","choices":[]}'))

    limits = AdmissionSpec(max_concurrency=2, max_queue=64, queue_timeout_s=4.0)
    with workers(tmp_path, [route([endpoint(engine(answer=slow))], admission=limits)]) as gateway:
        clients = Asking(gateway.url, STREAMS, 0)
        time.sleep(12.0)
        clients.stop()
        assert clients.answered > 100
        assert clients.failures == []


def test_a_reload_and_a_worker_that_dies_beside_a_broken_bundle_leave_the_last_good_one_in_force(
    tmp_path: Path, engine: MakeEngine
) -> None:
    served = [route([endpoint(engine(answer=whole_answer))])]
    with workers(tmp_path, served) as gateway:
        before = gateway.pids()
        write(tmp_path / "bundle.json", b"{")
        eventually(lambda: any("stays in force" in line for line in gateway.log), "read", LONG_S)
        os.kill(gateway.pid, signal.SIGHUP)
        eventually(lambda: any("not reloaded" in line for line in gateway.log), "refused", LONG_S)
        assert gateway.pids() == before
        assert {fetch(gateway.url + CHAT, "POST", asking())[0] for _number in range(20)} == {200}
        os.kill(min(before), signal.SIGKILL)
        eventually(lambda: any("does not start" in line for line in gateway.log), "not started", LONG_S)
        eventually(lambda: gateway.metrics()['llmgw_workers{stage="serving"}'] == 1, "one serves", LONG_S)
        gateway.publish(served)
        eventually(gateway.serving, "two workers serve again", LONG_S)
        assert {fetch(gateway.url + CHAT, "POST", asking())[0] for _number in range(20)} == {200}


def test_a_ready_file_that_cannot_be_written_again_ends_no_gateway(tmp_path: Path, engine: MakeEngine) -> None:
    with workers(tmp_path, [route([endpoint(engine(answer=whole_answer))])]) as gateway:
        (tmp_path / f".ready.json.{gateway.pid}").mkdir()
        gateway.reload()
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200


def whole_answer(_request: Request, wire: Wire) -> None:
    wire.send(whole(b'{"id":"x","choices":[]}'))

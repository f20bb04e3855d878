# SPDX-License-Identifier: Apache-2.0
"""What engines report of their load, asked through real sockets (G4, cases 39 and 41)."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from llmgw.gateway.endpoints import load_poller
from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.inquiry import MOST_BYTES
from llmgw.model.ids import EngineKind
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import Engine, Request, Wire, answer_ok, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

FIRST = "chat/0@n1"
PAGE = b"vllm:num_requests_running 3\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n"


class Reporting:
    """Answers the health and the models question, and the metrics page as it is set."""

    def __init__(self, page: bytes | None = PAGE) -> None:
        self.page = page
        self.pages = 0
        self.closes = False

    def __call__(self, request: Request, wire: Wire) -> None:
        if "/metrics" not in request.line:
            wire.send(whole(b'{"data":[{"id":"m"}]}'))
            return
        self.pages += 1
        if self.page is None:
            wire.client_left(20)
            wire.close()
            return
        wire.send(self.page if self.page.startswith(b"HTTP") else whole(self.page))
        if self.closes:
            wire.close()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_poller, "POLL_S", 0.1)


def load(gateway: RunningGateway) -> EngineLoad | None:
    return gateway.in_loop(lambda: gateway.gateway.table.endpoints[FIRST].load)


def known(gateway: RunningGateway) -> EngineLoad:
    found = eventually(lambda: load(gateway), "a report")
    assert found is not None
    return found


def test_a_ready_engines_report_is_taken(gateway: RunningGateway, engine: MakeEngine) -> None:
    reporting = Reporting()
    gateway.publish([route([endpoint(engine(answer_health=reporting))])])
    found = known(gateway)
    assert (found.running, found.waiting, found.kv_usage) == (3, 2, 0.5)
    reporting.page = b"vllm:num_requests_running 0\n"
    eventually(lambda: known(gateway).running == 0, "the next report")
    assert known(gateway).waiting is None


def test_an_engine_that_stops_reporting_is_unknown_soon_and_never_idle(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    reporting = Reporting()
    gateway.publish([route([endpoint(engine(answer_health=reporting))])])
    assert known(gateway).running == 3
    reporting.page = None
    eventually(lambda: load(gateway) is None, "unknown")
    assert gateway.states() == {FIRST: "ready"}
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    reporting.page = PAGE
    assert known(gateway).running == 3


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"null",
        b"\xff\x00" * 1000,
        b"vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\nvllm:kv_cache_usage_perc 100\n",
        b"#" * (MOST_BYTES - 20) + b"\nvllm:num_requests_running 3\nvllm:num_requests_waiting 2\n",
        b"vllm:num_requests_running 1\n" * 30_000,
        b"HTTP/1.1 200 OK\r\ncontent-length: nine\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n" % len(PAGE) + PAGE,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_nonsense_is_no_report_and_does_not_stop_the_asking(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, nonsense: bytes
) -> None:
    monkeypatch.setattr(load_poller, "SELDOM", 1.0)
    reporting = Reporting(nonsense)
    gateway.publish([route([endpoint(engine(answer_health=reporting))])])
    eventually(lambda: reporting.pages >= 3, "asked again and again")
    assert load(gateway) is None
    assert gateway.states() == {FIRST: "ready"}
    reporting.page = PAGE
    assert known(gateway).running == 3


def test_an_engine_that_reports_nothing_is_asked_seldom(gateway: RunningGateway, engine: MakeEngine) -> None:
    reporting = Reporting(b"HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\n\r\n")
    gateway.publish([route([endpoint(engine(answer_health=reporting))])])
    eventually(lambda: reporting.pages >= load_poller.MISSES, "asked")
    time.sleep(1)
    assert reporting.pages <= load_poller.MISSES + 1


def test_an_engine_that_closes_after_every_answer_is_read_all_the_same(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    reporting = Reporting()
    reporting.closes = True
    gateway.publish([route([endpoint(engine(answer_health=reporting))])])
    assert known(gateway).running == 3
    before = reporting.pages
    eventually(lambda: reporting.pages > before + 2, "asked again")


def test_an_engine_that_is_not_ready_is_not_asked(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine(health="503 Service Unavailable")
    gateway.publish([route([endpoint(one)])], ready=False)
    eventually(lambda: len(one.probes) > 5, "probed")
    assert not [request for request in one.probes if "/metrics" in request.line]


def test_a_llama_cpp_that_may_sleep_is_asked_only_while_it_has_requests(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    reporting = Reporting(b"llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n")
    answers = threading.Event()

    def late(request: Request, wire: Wire) -> None:
        assert answers.wait(10)
        answer_ok(request, wire)

    one: Engine = engine(answer=late, answer_health=reporting)
    gateway.publish([route([replace(endpoint(one), engine=EngineKind("llama.cpp"))])])
    time.sleep(0.5)
    assert reporting.pages == 0
    with Client(gateway.url) as client:
        client.send(post(asking()))
        assert known(gateway).running == 1
        answers.set()
        assert client.answer()[0] == 200
    gateway.assert_nothing_held()
    eventually(lambda: load(gateway) is None, "unknown again")
    before = reporting.pages
    time.sleep(0.5)
    assert reporting.pages == before


def test_an_engine_of_a_kind_that_is_not_known_is_not_asked(gateway: RunningGateway, engine: MakeEngine) -> None:
    reporting = Reporting()
    gateway.publish([route([replace(endpoint(engine(answer_health=reporting)), engine=EngineKind("other"))])])
    time.sleep(0.5)
    assert reporting.pages == 0


def test_many_endpoints_are_asked_less_often_each(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.publish([route([endpoint(engine(answer_health=Reporting()))])])
    poller = gateway.gateway._poller
    assert poller.interval_s() == pytest.approx(0.1)
    monkeypatch.setattr(load_poller, "MOST_POLLS_PER_S", 0.5)
    assert poller.interval_s() == pytest.approx(2.0)

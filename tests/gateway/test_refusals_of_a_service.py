# SPDX-License-Identifier: Apache-2.0
"""Requests that a service refuses, by limits or for want of a replica, are told of as its own (G9)."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.model.ids import ServiceName
from llmgw.model.replica import AdmissionSpec, ApiKeySpec, CanarySplit, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import Request, Wire, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

LOADING = "503 Service Unavailable"


class Held:
    """An engine's answers, which come when all are let go."""

    def __init__(self) -> None:
        self._go = threading.Event()

    def __call__(self, _request: Request, wire: Wire) -> None:
        assert self._go.wait(20)
        wire.send(whole(b"{}"))

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.let_go()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def spec(log: Path, *keys: ApiKeySpec) -> GatewaySpec:
    return GatewaySpec(probe_interval_s=0.1, access_log=str(log), explain_share=0.0, keys=keys)


def key(**more: Any) -> ApiKeySpec:
    """A key whose secret is its name."""
    return ApiKeySpec("k", hashlib.sha256(b"k").hexdigest(), **more)


def ask(gateway: RunningGateway, request_id: str, model: str = "m") -> tuple[int, str | None]:
    """Status and reason of a request that is to be explained."""
    headers = {"authorization": "Bearer k", "x-request-id": request_id, "x-llmgw-explain": "1"}
    status, got, _body = fetch(gateway.url + CHAT, "POST", asking(model=model), headers)
    return status, got["x-llmgw-reason"]


def line_of(log: Path, request_id: str) -> dict[str, Any]:
    def lines() -> list[dict[str, Any]]:
        text = log.read_text() if log.exists() else ""
        return [line for line in map(json.loads, text.splitlines()) if line["request_id"] == request_id]

    (line,) = eventually(lines, "a line in the access log")
    return line


def explained(gateway: RunningGateway, request_id: str) -> Any:
    return eventually(
        lambda: (found := gateway.get(f"/api/v1/explain/{request_id}"))["record"] and found, "the request is over"
    )


def told(gateway: RunningGateway, log: Path, request_id: str, reason: str, service: str = "chat") -> dict[str, Any]:
    """The log's line, after a look at what it and the explanation say."""
    line, explanation = line_of(log, request_id), explained(gateway, request_id)
    assert (line["reason"], line["service"], line["end"]) == (reason, service, "refused")
    assert (explanation["attempts"], explanation["record"]["reason"]) == ([], reason)
    assert explanation["record"]["service"] == service
    return line


def counted(gateway: RunningGateway, status: int, service: str = "chat") -> float:
    return gateway.metrics().get(f'llmgw_requests_total{{code="{status}",service="{service}"}}', 0)


def occupy(gateway: RunningGateway) -> Client:
    """One request at the engine."""
    client = Client(gateway.url)
    before = gateway.held().get("endpoints", 0)
    client.send(post(asking(), headers="authorization: Bearer k\r\n"))
    eventually(lambda: gateway.held().get("endpoints", 0) > before, "it is at the engine")
    return client


@pytest.mark.parametrize(
    ("reason", "limits", "admission"),
    [
        ("key_requests_per_minute", {"requests_per_minute": 1}, {}),
        ("key_tokens_per_minute", {"tokens_per_minute": 10}, {}),
        ("key_concurrency", {"max_concurrency": 1}, {}),
        ("service_concurrency", {}, {"max_concurrency": 1}),
        ("queue_timeout", {}, {"max_concurrency": 1, "max_queue": 1, "queue_timeout_s": 0.2}),
    ],
)
def test_who_is_over_a_limit_is_told_of_with_the_service(
    gateway: RunningGateway,
    engine: MakeEngine,
    held: Held,
    log: Path,
    *,
    reason: str,
    limits: dict[str, int],
    admission: dict[str, Any],
) -> None:
    one = endpoint(engine(answer=held))
    gateway.publish([route([one], admission=AdmissionSpec(**admission))], gateway=spec(log, key(**limits)))
    before = counted(gateway, 429)
    with occupy(gateway) as client:
        assert ask(gateway, reason) == (429, reason)
        line = told(gateway, log, reason, reason)
        assert counted(gateway, 429) == before + 1
        assert (line.get("queue_s", 0.0) >= 0.2) is (reason == "queue_timeout")
        held.let_go()
        assert client.answer()[0] == 200


def test_who_finds_the_line_full_is_told_of_with_the_service(
    gateway: RunningGateway, engine: MakeEngine, held: Held, log: Path
) -> None:
    admission = AdmissionSpec(max_concurrency=1, max_queue=1, queue_timeout_s=30.0)
    gateway.publish([route([endpoint(engine(answer=held))], admission=admission)], gateway=spec(log, key()))
    before = counted(gateway, 429)
    with occupy(gateway) as first, Client(gateway.url) as second:
        second.send(post(asking(), headers="authorization: Bearer k\r\n"))
        eventually(lambda: gateway.metrics()['llmgw_waiting_requests{service="chat"}'] == 1, "one waits")
        assert ask(gateway, "full") == (429, "queue_full")
        assert "queue_s" not in told(gateway, log, "full", "queue_full")
        assert counted(gateway, 429) == before + 1
        held.let_go()
        assert [client.answer()[0] for client in (first, second)] == [200, 200]


@pytest.mark.parametrize(
    ("reason", "health", "placed"),
    [("model_loading", LOADING, True), ("no_replica_ready", "200 OK", True), ("no_replica_placed", "200 OK", False)],
)
def test_who_finds_no_replica_is_told_of_with_the_service(
    gateway: RunningGateway, engine: MakeEngine, log: Path, reason: str, health: str, *, placed: bool
) -> None:
    one = endpoint(engine(health=health), draining=reason == "no_replica_ready")
    gateway.publish([route([one] if placed else [])], ready=False, gateway=spec(log, key()))
    eventually(lambda: "unknown" not in gateway.states().values(), "probed")
    before = counted(gateway, 503)
    assert ask(gateway, reason) == (503, reason)
    told(gateway, log, reason, reason)
    assert counted(gateway, 503) == before + 1


def test_a_request_that_names_no_service_is_not_kept(gateway: RunningGateway, engine: MakeEngine, log: Path) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=spec(log, key()))
    assert ask(gateway, "nothing", model="nope") == (404, "model_not_found")
    assert "service" not in line_of(log, "nothing")
    assert fetch(gateway.admin_url + "/api/v1/explain/nothing")[0] == 404


def test_an_explanation_says_that_a_fallback_answers_and_for_whom(
    gateway: RunningGateway, engine: MakeEngine, log: Path
) -> None:
    small, away = engine(), engine(health=LOADING)
    routes = [
        route([endpoint(away)], fallbacks=(ServiceName("small"),)),
        route([endpoint(small, service="small")], service="small", served_name="s"),
    ]
    gateway.publish(routes, ready=False, gateway=spec(log, key()))
    eventually(lambda: gateway.states() == {"chat/0@n1": "loading", "small/0@n1": "ready"}, "the fallback is ready")
    assert ask(gateway, "fell-back") == (200, None)
    document = explained(gateway, "fell-back")
    assert (document["service"], document["via"]) == ("chat", "fallback")
    assert [attempt["service"] for attempt in document["attempts"]] == ["small"] == [document["record"]["service"]]
    assert ask(gateway, "own", model="s") == (200, None)
    assert (explained(gateway, "own")["service"], explained(gateway, "own")["via"]) == ("small", None)
    for service in ("chat", "small"):
        listed = gateway.get(f"/api/v1/requests?service={service}&limit=2")["requests"]
        assert ("fell-back", "fallback") in {(one["request_id"], one["via"]) for one in listed}


def test_an_explanation_says_that_a_split_decided_even_where_the_other_service_refuses(
    gateway: RunningGateway, engine: MakeEngine, held: Held, log: Path
) -> None:
    routes = [
        route([endpoint(engine())], split=CanarySplit(ServiceName("next"), 1.0)),
        route([endpoint(engine(answer=held), service="next")], service="next", served_name="n", max_concurrency=1),
    ]
    gateway.publish(routes, gateway=spec(log, key()))
    with occupy(gateway) as client:
        assert ask(gateway, "split") == (429, "service_concurrency")
        document = explained(gateway, "split")
        assert (document["service"], document["via"], document["record"]["service"]) == ("chat", "split", "next")
        assert "split" in {one["request_id"] for one in gateway.get("/api/v1/requests?service=next")["requests"]}
        held.let_go()
        assert client.answer()[0] == 200


def test_a_model_that_a_fallback_answers_for_is_listed(gateway: RunningGateway, engine: MakeEngine, log: Path) -> None:
    small = engine()
    routes = [
        route([], desired=1, fallbacks=(ServiceName("small"),)),
        route([], service="alone", served_name="a", desired=1),
        route([endpoint(small, service="small")], service="small", served_name="s"),
    ]
    gateway.publish(routes, gateway=spec(log))

    def names() -> list[str]:
        return [one["id"] for one in json.loads(fetch(gateway.url + "/v1/models")[2])["data"]]

    assert names() == ["m", "s"]
    assert [fetch(f"{gateway.url}/v1/models/{name}")[0] for name in ("m", "s", "a")] == [200, 200, 503]
    small.health = LOADING
    eventually(lambda: not names(), "the fallback is away too")
    assert fetch(f"{gateway.url}/v1/models/m")[0] == 503

# SPDX-License-Identifier: Apache-2.0
"""Requests through real sockets, as the access log and the admin API tell of them afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmgw.model.replica import ApiKeySpec, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, Request, Wire, chunk, event
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route

SECRET = "sk-a-secret-that-shows-nowhere"
KEY = ApiKeySpec("search-team", hashlib.sha256(SECRET.encode()).hexdigest())
PROMPT = "what the client asks, which shows nowhere"


def spec(path: Path | None, **more: Any) -> GatewaySpec:
    return GatewaySpec(probe_interval_s=0.1, access_log=None if path is None else str(path), **more)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def line_of(path: Path, holds: Callable[[dict[str, Any]], bool] = lambda _line: True) -> dict[str, Any]:
    """The one line that is so, once it is there."""
    found = eventually(lambda: [line for line in lines_of(path) if holds(line)], "a line in the access log")
    assert len(found) == 1
    return found[0]


def waits(_request: Request, wire: Wire) -> None:
    wire.client_left()
    wire.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def test_a_whole_answer_is_one_line_with_what_is_known_and_nothing_secret(
    gateway: RunningGateway, engine: MakeEngine, log: Path
) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=spec(log, keys=(KEY,)))
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": PROMPT}]}).encode()
    headers = {"authorization": f"Bearer {SECRET}", "x-request-id": "mine", "cookie": "crumb"}
    status, _headers, answer = fetch(gateway.url + CHAT + "?token=query-secret", "POST", body, headers)
    assert status == 200
    line = line_of(log)
    wanted = {
        "request_id": "mine",
        "method": "POST",
        "path": CHAT,
        "service": "chat",
        "model": "m",
        "key": "search-team",
        "status": 200,
        "stream": False,
        "attempts": 1,
        "bytes_in": len(body),
        "bytes_out": len(answer),
        "end": "complete",
    }
    assert {name: line.get(name) for name in wanted} == wanted
    assert line["endpoint"].startswith("chat/0@")
    assert 0 <= line["first_byte_s"] <= line["duration_s"]
    assert "reason" not in line
    text = log.read_text()
    for secret in (SECRET, PROMPT, "query-secret", "crumb", KEY.sha256):
        assert secret not in text


def test_a_refusal_is_a_line_with_its_reason(gateway: RunningGateway, engine: MakeEngine, log: Path) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=spec(log))
    status, _headers, body = fetch(gateway.url + CHAT, "POST", asking(model="no-such-model"))
    assert status == 404
    line = line_of(log)
    assert (line["status"], line["end"], line["model"]) == (404, "refused", "no-such-model")
    assert line["reason"] == json.loads(body)["error"]["code"]
    assert not {"service", "endpoint", "first_byte_s", "prompt_tokens"} & set(line)


def test_a_client_that_leaves_shows_as_one(gateway: RunningGateway, engine: MakeEngine, log: Path) -> None:
    one = engine(answer=waits)
    gateway.publish([route([endpoint(one)])], gateway=spec(log))
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: one.requests, "the engine has it")
    line = line_of(log)
    assert line["end"] == "client_left"
    assert "status" not in line
    assert line["endpoint"].startswith("chat/0@")


def test_an_answer_that_breaks_off_shows_as_cut(gateway: RunningGateway, engine: MakeEngine, log: Path) -> None:
    def breaks_off(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        wire.close()

    gateway.publish([route([endpoint(engine(answer=breaks_off))])], gateway=spec(log))
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        client.rest()
    line = line_of(log)
    assert (line["end"], line["status"], line["stream"]) == ("cut", 200, True)
    assert line["reason"]


def test_the_log_follows_the_bundle(gateway: RunningGateway, engine: MakeEngine, log: Path, tmp_path: Path) -> None:
    routes = [route([endpoint(engine())])]
    for path, name in ((log, "one"), (None, "none"), (tmp_path / "other.log", "other")):
        gateway.publish(routes, gateway=spec(path))
        assert fetch(gateway.url + CHAT, "POST", asking(), {"x-request-id": name})[0] == 200
        if path is not None:
            assert line_of(path)["request_id"] == name


def test_a_log_that_cannot_be_written_stops_no_request(
    gateway: RunningGateway, engine: MakeEngine, tmp_path: Path
) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=spec(tmp_path / "no-such-folder" / "access.log"))
    before = gateway.metrics().get("llmgw_access_log_dropped_total", 0)
    for _request in range(3):
        assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    eventually(lambda: gateway.metrics()["llmgw_access_log_dropped_total"] == before + 3, "three dropped lines")


def explained(gateway: RunningGateway, request_id: str) -> Any:
    return gateway.get(f"/api/v1/explain/{request_id}")


def test_a_request_that_asks_for_it_is_explained(gateway: RunningGateway, engine: MakeEngine) -> None:
    endpoints = [endpoint(engine()), endpoint(engine(), 1)]
    gateway.publish([route(endpoints)], gateway=spec(None, explain_share=0.0))
    for name, more in (("asked", {"x-llmgw-explain": "1"}), ("not-asked", {})):
        assert fetch(gateway.url + CHAT, "POST", asking(), {"x-request-id": name, **more})[0] == 200
    eventually(lambda: explained(gateway, "asked")["record"], "the request is over")
    document = explained(gateway, "asked")
    (attempt,) = document["attempts"]
    assert (document["service"], document["asked"], attempt["considered"]) == ("chat", True, 2)
    assert {one["endpoint"] for one in attempt["candidates"]} == {one.id for one in endpoints}
    assert attempt["endpoint"] == document["record"]["endpoint"]
    assert (document["record"]["status"], document["record"]["end"]) == (200, "complete")
    status, _headers, body = fetch(gateway.admin_url + "/api/v1/explain/not-asked")
    assert (status, json.loads(body)["error"]["code"]) == (404, "not-found")


def test_the_sample_is_the_catalogs_share(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=spec(None, explain_share=1.0))
    names = [f"sampled-{number}" for number in range(5)]
    for name in names:
        assert fetch(gateway.url + CHAT, "POST", asking(), {"x-request-id": name})[0] == 200
    document = gateway.get("/api/v1/requests?limit=3&service=chat")
    assert document["share"] == 1.0
    assert [one["request_id"] for one in document["requests"]] == names[:1:-1]
    assert not any(one["asked"] for one in document["requests"])


def test_an_attempt_that_failed_is_told_and_left_out_of_the_next(gateway: RunningGateway, engine: MakeEngine) -> None:
    def dies(_request: Request, wire: Wire) -> None:
        wire.close()

    # All go to the one that dies first: it is the only one with weight.
    bad, good = endpoint(engine(answer=dies)), endpoint(engine(), 1, weight=0.001)
    gateway.publish([route([bad, good])], gateway=spec(None, explain_share=0.0))
    headers = {"x-request-id": "tried-twice", "x-llmgw-explain": "1"}
    assert fetch(gateway.url + CHAT, "POST", asking(), headers)[0] == 200
    document = explained(gateway, "tried-twice")
    assert [attempt["endpoint"] for attempt in document["attempts"]] == [bad.id, good.id]
    assert document["attempts"][1]["left_out"] in ({bad.id: "tried"}, {bad.id: "failed"})


def test_a_request_that_runs_shows_before_it_is_over(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine(answer=waits)
    gateway.publish([route([endpoint(one)])], gateway=spec(None))
    with Client(gateway.url) as client:
        client.send(post(asking(), headers="x-request-id: running\r\nx-llmgw-explain: 1\r\n"))
        eventually(lambda: one.requests, "the engine has it")
        assert explained(gateway, "running")["record"] is None
    assert eventually(lambda: explained(gateway, "running")["record"], "it is over")["end"] == "client_left"

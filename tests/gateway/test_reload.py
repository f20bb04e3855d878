# SPDX-License-Identifier: Apache-2.0
"""A new bundle comes into force without a request noticing, and a bad one not at all (G2, G6b, R11, Q2)."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from llmgw.routes.codec import dump_bundle
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import CHUNKED, LAST_CHUNK, Request, Wire, chunk, event, whole
from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, fetch, route, write


def test_swaps_under_load_drop_no_request(gateway: RunningGateway, engine: MakeEngine) -> None:
    def answer(_request: Request, wire: Wire) -> None:
        time.sleep(0.005)
        wire.send(CHUNKED + chunk(event("a")))
        time.sleep(0.005)
        wire.send(chunk(event("b")) + LAST_CHUNK)

    engines = [engine(answer=answer) for _number in range(3)]
    endpoints = [endpoint(one, number) for number, one in enumerate(engines)]
    gateway.publish([route(endpoints)])
    stop = threading.Event()

    def ask() -> list[int]:
        statuses = []
        with Client(gateway.url) as client:
            while not stop.is_set():
                client.send(post(asking(stream=True)))
                status, _headers, body = client.answer()
                statuses.append(status if body == event("a") + event("b") else -1)
        return statuses

    with ThreadPoolExecutor(4) as threads:
        asking_all = [threads.submit(ask) for _number in range(4)]
        for number in range(50):
            kept = [one for place, one in enumerate(endpoints) if place != number % 3]
            gateway.publish([route(kept)], ready=False)
            eventually(lambda: "ready" in gateway.states().values(), "one is ready")
        stop.set()
        statuses = [status for future in asking_all for status in future.result()]
    assert len(statuses) > 100
    assert set(statuses) == {200}


def test_endpoints_that_stay_keep_their_state(gateway: RunningGateway, engine: MakeEngine) -> None:
    stays, goes = engine(), engine()
    gateway.publish([route([endpoint(stays, 0), endpoint(goes, 1)])])
    before = {one["id"]: one["since"] for one in gateway.get("/api/v1/endpoints")["endpoints"]}
    live = gateway.gateway.table.endpoints["chat/0@n1"]
    gateway.publish([route([endpoint(stays, 0, weight=2.0), endpoint(engine(), 2)])])
    after = {one["id"]: one["since"] for one in gateway.get("/api/v1/endpoints")["endpoints"]}
    assert gateway.gateway.table.endpoints["chat/0@n1"] is live
    assert live.spec.weight == 2.0
    assert after["chat/0@n1"] == before["chat/0@n1"]
    assert set(after) == {"chat/0@n1", "chat/2@n1"}
    assert not any("chat/1@n1" in name for name in gateway.metrics())


@pytest.mark.parametrize("how", ["draining", "removed"])
def test_an_endpoint_that_leaves_finishes_its_requests_and_gets_no_new_one(
    gateway: RunningGateway, engine: MakeEngine, how: str
) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        wire.send(CHUNKED + chunk(event("a")))
        assert go.wait(5)
        wire.send(chunk(event("b")) + LAST_CHUNK)

    leaves, stays = engine(answer=answer), engine()
    gateway.publish([route([endpoint(leaves, 0)])])
    with Client(gateway.url) as client:
        client.send(post(asking(stream=True)))
        client.until(event("a"))
        old = [endpoint(leaves, 0, draining=True)] if how == "draining" else []
        gateway.publish([route([*old, endpoint(stays, 1)])])
        assert [fetch(gateway.url + CHAT, "POST", asking())[0] for _number in range(6)] == [200] * 6
        assert len(stays.requests) == 6
        seen = {one["id"]: one for one in gateway.get("/api/v1/endpoints")["endpoints"]}["chat/0@n1"]
        assert (seen["state"], seen["in_flight"], seen["leaving"]) == ("draining", 1, how == "removed")
        go.set()
        client.until(event("b"))
        client.until(LAST_CHUNK)
    expected = {"chat/0@n1": 0, "chat/1@n1": 0} if how == "draining" else {"chat/1@n1": 0}
    eventually(
        lambda: {one["id"]: one["in_flight"] for one in gateway.get("/api/v1/endpoints")["endpoints"]} == expected,
        "idle or gone",
    )


def test_an_endpoint_that_returns_before_its_last_request_ended_is_the_same_one(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        assert go.wait(5)
        wire.send(whole(b"{}"))

    one = endpoint(engine(answer=answer))
    gateway.publish([route([one])])
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: gateway.held().get("endpoints") == 1, "in flight")
        gateway.publish([route([])])
        gateway.publish([route([one])])
        assert [found["in_flight"] for found in gateway.get("/api/v1/endpoints")["endpoints"]] == [1]
        go.set()
        assert client.answer()[0] == 200


def test_an_endpoint_at_a_new_address_is_a_new_one(gateway: RunningGateway, engine: MakeEngine) -> None:
    old, new = engine(), engine()
    gateway.publish([route([endpoint(old)])])
    gateway.publish([route([endpoint(new)])])
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    assert (len(old.requests), len(new.requests)) == (0, 1)


def test_a_request_of_a_removed_service_is_not_tried_at_what_is_gone(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        assert go.wait(5)
        wire.reset()

    gateway.publish([route([endpoint(engine(answer=answer), 0), endpoint(engine(answer=answer), 1)])])
    with Client(gateway.url) as client:
        client.send(post(asking()))
        eventually(lambda: gateway.held().get("endpoints") == 1, "in flight")
        gateway.publish([])
        go.set()
        assert client.answer()[0] == 502
    assert gateway.get("/api/v1/endpoints")["endpoints"] == []


BROKEN = {
    "empty": b"",
    "half": b'{"format_version": 1, "generation": 99',
    "not an object": b"[]",
    "binary": bytes(range(256)),
    "another shape": b'{"format_version":1,"generation":"x","routes_digest":1,"routes":[]}',
    "newer format": b'{"format_version":999,"generation":99}',
    "no text": dump_bundle(bundle(10**6, [route([], served_name="half")])).replace("half", "\\ud800").encode(),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_bundle_leaves_the_last_good_one_in_force(
    gateway: RunningGateway, engine: MakeEngine, content: bytes
) -> None:
    gateway.publish([route([endpoint(engine())])])
    failures = gateway.metrics()["llmgw_reload_failures_total"]
    write(gateway.bundle_path, content)
    eventually(lambda: gateway.metrics()["llmgw_reload_failures_total"] == failures + 1, "counted")
    status = gateway.get("/api/v1/status")
    assert (status["generation"], "bundle.json" in status["bundle_problem"]) == (gateway.generation, True)
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    time.sleep(0.2)
    assert gateway.metrics()["llmgw_reload_failures_total"] == failures + 1, "one failure a content, not one a look"
    gateway.publish([route([endpoint(engine())])])
    assert gateway.get("/api/v1/status")["bundle_problem"] is None


def test_a_bundle_that_breaks_the_gateway_does_not_keep_the_next_one_out(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.publish([route([endpoint(engine())])])
    failures = gateway.metrics()["llmgw_reload_failures_total"]
    with monkeypatch.context() as patch:
        patch.setattr(gateway.gateway.table, "swap", lambda *_: 1 / 0)
        write(gateway.bundle_path, dump_bundle(bundle(gateway.generation + 1, [])))
        eventually(lambda: gateway.metrics()["llmgw_reload_failures_total"] == failures + 1, "counted")
    gateway.generation += 1
    gateway.publish([route([endpoint(engine())])])
    assert gateway.get("/api/v1/status")["bundle_problem"] is None


def test_a_bundle_written_in_place_is_taken_once_it_is_whole(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    gateway.generation += 1
    text = dump_bundle(bundle(gateway.generation, [route([], served_name="slowly")])).encode()
    with gateway.bundle_path.open("wb", buffering=0) as file:
        for at in range(0, len(text), 400):
            file.write(text[at : at + 400])
            time.sleep(0.05)
            assert gateway.get("/api/v1/status")["generation"] in {gateway.generation - 1, gateway.generation}
    eventually(lambda: gateway.get("/api/v1/status")["generation"] == gateway.generation, "taken")


def problem_has(gateway: RunningGateway, word: str) -> bool:
    return word in (gateway.get("/api/v1/status")["bundle_problem"] or "")


def test_an_older_generation_and_a_second_one_of_the_same_number_are_not_taken(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = endpoint(engine())
    gateway.publish([route([one])])
    gateway.publish([route([one])])
    older = bundle(gateway.generation - 1, [route([one])])
    other = bundle(gateway.generation, [route([])])
    for wrong, word in ((older, "older"), (other, "other routes")):
        write(gateway.bundle_path, dump_bundle(wrong))
        eventually(partial(problem_has, gateway, word), word)
        assert gateway.get("/api/v1/routes")["routes"][0]["endpoints"] == ["chat/0@n1"]
    findings = gateway.get("/api/v1/findings")["findings"]
    assert [finding["code"] for finding in findings] == ["bundle-not-taken"]
    same = replace(bundle(gateway.generation, [route([one])]), fleet={"nodes": [{"name": "n7"}]})
    write(gateway.bundle_path, dump_bundle(same))
    eventually(
        lambda: [node["name"] for node in gateway.get("/api/v1/nodes")["nodes"]] == ["n7"], "a newer fleet document"
    )


def test_a_bundle_that_goes_away_changes_nothing(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])])
    gateway.bundle_path.unlink()
    eventually(lambda: gateway.get("/api/v1/status")["bundle_problem"], "noticed")
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200


def test_without_a_bundle_the_gateway_runs_and_says_so(tmp_path: Path, engine: MakeEngine) -> None:
    running = RunningGateway(tmp_path)
    try:
        assert json.loads(fetch(running.url + "/v1/models")[2])["data"] == []
        status, headers, body = fetch(running.url + CHAT, "POST", asking())
        assert (status, headers["retry-after"], json.loads(body)["error"]["code"]) == (503, "5", "no_routes")
        assert json.loads(fetch(running.url + "/healthz")[2]) == {"status": "ok", "generation": None}
        assert running.get("/api/v1/status")["generation"] is None
        assert "llmgw_generation" not in running.metrics()
        assert fetch(running.admin_url + "/admin")[0] == 200
        write(running.bundle_path, dump_bundle(bundle(1, [route([endpoint(engine())])])))
        eventually(lambda: fetch(running.url + CHAT, "POST", asking())[0] == 200, "served", 2)
    finally:
        running.stop()


def test_a_restarted_gateway_has_probed_before_it_serves(tmp_path: Path, engine: MakeEngine) -> None:
    running = RunningGateway(tmp_path, bundle(7, [route([endpoint(engine())])]))
    try:
        assert fetch(running.url + CHAT, "POST", asking())[0] == 200
    finally:
        running.stop()

# SPDX-License-Identifier: Apache-2.0
"""Who may ask for what: names, keys, limits, and how the reasons are told apart (G1, G5, G8)."""

from __future__ import annotations

import hashlib
import json
import threading

import pytest

from llmgw.model.replica import ApiKeySpec, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import Request, Wire, whole
from tests.gateway.harness import RunningGateway, endpoint, eventually, fetch, route


def key(name: str, secret: str, **more: object) -> ApiKeySpec:
    return ApiKeySpec(name, hashlib.sha256(secret.encode()).hexdigest(), **more)  # type: ignore[arg-type]


def with_keys(*keys: ApiKeySpec) -> GatewaySpec:
    return GatewaySpec(probe_interval_s=0.1, keys=keys)


def reason(answer: tuple[int, object, bytes]) -> tuple[int, str]:
    return answer[0], json.loads(answer[2])["error"]["code"]


def test_an_alias_is_replaced_by_the_engines_name_and_nothing_else_changes(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    one = engine(model='/srv/weights "x"')
    gateway.publish([route([endpoint(one)], aliases=("short", "m2"))])
    body = b'{"messages":[ {"role":"user", "content":"the model is \\"model\\": \\u00e9"}],"model"  :\t"%b", "x":1.50}'
    for name in (b"m", b"short", b"m2", b"sh\\u006frt"):
        assert fetch(gateway.url + CHAT, "POST", body % name)[0] == 200
        assert one.requests[-1].body == body.replace(b'"%b"', b'"/srv/weights \\"x\\""')


def test_the_engines_key_replaces_the_clients(
    gateway: RunningGateway, engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_KEY_FOR_TEST", "engine-secret")
    one = engine()
    gateway.publish([route([endpoint(one, api_key_env="ENGINE_KEY_FOR_TEST")])])
    assert fetch(gateway.url + CHAT, "POST", asking(), {"authorization": "Bearer client-secret"})[0] == 200
    assert one.requests[0].values("authorization") == ["Bearer engine-secret"]
    assert {tuple(probe.values("authorization")) for probe in one.probes} == {("Bearer engine-secret",)}


def test_an_engines_key_that_is_not_there_is_a_finding(gateway: RunningGateway, engine: MakeEngine) -> None:
    one = engine()
    gateway.publish([route([endpoint(one, api_key_env="NO_SUCH_ENGINE_KEY")])])
    assert fetch(gateway.url + CHAT, "POST", asking(), {"authorization": "Bearer client-secret"})[0] == 200
    assert one.requests[0].values("authorization") == []
    findings = gateway.get("/api/v1/findings")["findings"]
    assert [(one["code"], "NO_SUCH_ENGINE_KEY" in one["message"]) for one in findings] == [("engine-key-missing", True)]


def test_models_lists_what_can_be_served_now(gateway: RunningGateway, engine: MakeEngine) -> None:
    up, down = engine(), engine(model="org/big", health="503 Service Unavailable")
    gateway.publish(
        [
            route([endpoint(up)], aliases=("also-m",)),
            route([endpoint(down, service="big")], service="big", served_name="org/big"),
        ],
        ready=False,
    )
    eventually(lambda: gateway.states() == {"chat/0@n1": "ready", "big/0@n1": "loading"}, "one ready, one loading")

    def names() -> list[str]:
        return [one["id"] for one in json.loads(fetch(gateway.url + "/v1/models")[2])["data"]]

    assert names() == ["also-m", "m"]
    assert reason(fetch(gateway.url + "/v1/models/org/big")) == (503, "model_loading")
    assert reason(fetch(gateway.url + "/v1/models/nope")) == (404, "model_not_found")
    down.health = "200 OK"
    eventually(lambda: names() == ["also-m", "m", "org/big"], "the second is listed")
    status, headers, body = fetch(gateway.url + "/v1/models/org/big")
    assert (status, json.loads(body)["id"], headers["content-type"]) == (200, "org/big", "application/json")
    assert fetch(gateway.url + "/v1/models", "HEAD")[2] == b""


def test_unknown_loading_and_unplaced_models_are_told_apart(gateway: RunningGateway, engine: MakeEngine) -> None:
    loading = engine(health="503 Service Unavailable")
    gateway.publish(
        [route([endpoint(loading)]), route([], service="none", served_name="none", desired=1)],
        ready=False,
    )
    eventually(lambda: gateway.states() == {"chat/0@n1": "loading"}, "loading")
    for model, expected in {
        "nope": (404, "model_not_found"),
        "m": (503, "model_loading"),
        "none": (503, "no_replica_placed"),
    }.items():
        answer = fetch(gateway.url + CHAT, "POST", asking(model))
        assert reason(answer) == expected
        assert (answer[1]["retry-after"] is not None) == (expected[0] == 503)
        assert answer[1]["x-llmgw-reason"] == expected[1]


def hold() -> tuple[threading.Event, object]:
    """An answer that comes only after the event is set."""
    go = threading.Event()

    def answer(_request: Request, wire: Wire) -> None:
        assert go.wait(5)
        wire.send(whole(b"{}"))

    return go, answer


def test_a_service_at_its_limit_answers_429_and_recovers(gateway: RunningGateway, engine: MakeEngine) -> None:
    go, answer = hold()
    gateway.publish([route([endpoint(engine(answer=answer))], max_concurrency=2)])
    counted = 'llmgw_requests_total{code="429",service="chat"}'
    before = gateway.metrics().get(counted, 0)
    with Client(gateway.url) as first, Client(gateway.url) as second:
        for client in (first, second):
            client.send(post(asking()))
        eventually(lambda: gateway.held().get("routes") == 2, "two in flight")
        refused = fetch(gateway.url + CHAT, "POST", asking())
        assert reason(refused) == (429, "service_concurrency")
        assert refused[1]["retry-after"] == "1"
        go.set()
        assert [client.answer()[0] for client in (first, second)] == [200, 200]
    assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
    assert gateway.metrics()[counted] == before + 1


def test_a_key_at_its_limit_leaves_others_alone(gateway: RunningGateway, engine: MakeEngine) -> None:
    go, answer = hold()
    keys = with_keys(key("small", "s1", max_concurrency=1), key("big", "s2"))
    gateway.publish([route([endpoint(engine(answer=answer))])], gateway=keys)
    with Client(gateway.url) as first:
        first.send(post(asking(), headers="authorization: Bearer s1\r\n"))
        eventually(lambda: gateway.held().get("keys") == 1, "one in flight")
        assert reason(fetch(gateway.url + CHAT, "POST", asking(), {"authorization": "Bearer s1"})) == (
            429,
            "key_concurrency",
        )
        go.set()
        assert fetch(gateway.url + CHAT, "POST", asking(), {"authorization": "Bearer s2"})[0] == 200
        assert first.answer()[0] == 200
    eventually(
        lambda: fetch(gateway.url + CHAT, "POST", asking(), {"authorization": "Bearer s1"})[0] == 200, "free again"
    )


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "missing_api_key"),
        ("Basic c2VjcmV0", "missing_api_key"),
        ("Bearer", "missing_api_key"),
        ("Bearer ", "missing_api_key"),
        ("Bearer wrong", "invalid_api_key"),
        ("Bearer secre", "invalid_api_key"),
        ("Bearer secret2", "invalid_api_key"),
        ("Bearer \xe9", "invalid_api_key"),
    ],
)
def test_no_key_or_a_wrong_one_reaches_nothing(
    gateway: RunningGateway, engine: MakeEngine, header: str | None, code: str
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])], gateway=with_keys(key("a", "secret")))
    headers = {} if header is None else {"authorization": header}
    assert reason(fetch(gateway.url + CHAT, "POST", asking(), headers)) == (401, code)
    assert reason(fetch(gateway.url + "/v1/models", headers=headers)) == (401, code)
    assert fetch(gateway.url + "/healthz", headers=headers)[0] == 200
    assert one.requests == []


def test_two_authorization_headers_are_no_key(gateway: RunningGateway, engine: MakeEngine) -> None:
    gateway.publish([route([endpoint(engine())])], gateway=with_keys(key("a", "secret")))
    with Client(gateway.url) as client:
        client.send(post(asking(), headers="authorization: Bearer secret\r\nauthorization: Bearer secret\r\n"))
        assert client.answer()[0] == 401
        client.send(post(asking(), headers="AUTHORIZATION: bearer  secret\r\n"))
        assert client.answer()[0] == 200


def test_a_key_sees_only_its_services(gateway: RunningGateway, engine: MakeEngine) -> None:
    routes = [
        route([endpoint(engine())]),
        route([endpoint(engine(model="b"), service="b")], service="b", served_name="b"),
    ]
    gateway.publish(routes, gateway=with_keys(key("a", "s1", services=("b",)), key("c", "s2")))
    mine, all_of_it = {"authorization": "Bearer s1"}, {"authorization": "Bearer s2"}
    assert fetch(gateway.url + CHAT, "POST", asking("b"), mine)[0] == 200
    assert reason(fetch(gateway.url + CHAT, "POST", asking("m"), mine)) == (404, "model_not_found")
    assert [one["id"] for one in json.loads(fetch(gateway.url + "/v1/models", headers=mine)[2])["data"]] == ["b"]
    assert reason(fetch(gateway.url + "/v1/models/m", headers=mine)) == (404, "model_not_found")
    assert fetch(gateway.url + CHAT, "POST", asking("m"), all_of_it)[0] == 200


def test_requests_are_spread_over_replicas(gateway: RunningGateway, engine: MakeEngine) -> None:
    engines = [engine(), engine(), engine()]
    for policy in ("least-inflight", "round-robin", "random"):
        gateway.publish([route([endpoint(one, number) for number, one in enumerate(engines)], policy=policy)])
        before = [len(one.requests) for one in engines]
        for _number in range(60):
            assert fetch(gateway.url + CHAT, "POST", asking())[0] == 200
        given = [len(one.requests) - count for one, count in zip(engines, before, strict=True)]
        assert sum(given) == 60
        assert given == [20, 20, 20] if policy != "random" else min(given) > 5

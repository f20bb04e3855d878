# SPDX-License-Identifier: Apache-2.0
"""What a gateway host tells: which bundle it holds and how its gateway sees the endpoints (R11, P9)."""

from __future__ import annotations

import json

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
    EndpointHealth,
    GatewayFacts,
    PublishedBundle,
    PublishedEndpoint,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gateway_facts
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response
from tests.support.fake_host import FakeHost

PATH = "/var/lib/llmgw/bundle.json"
URL = "http://127.0.0.1:8081"
BUNDLE = json.dumps({"generation": 7, "routes_digest": "sha256:ab", "written_at": 1.5, "routes": {"secret": "no"}})
ENDPOINTS = json.dumps(
    {
        "format_version": 1,
        "generation": 7,
        "endpoints": [
            {"id": "chat/0@n1", "state": "ready", "in_flight": 3, "since": 12, "url": "http://n1:18000"},
            {"state": "ready"},
            "nonsense",
            {"id": "chat/1@n2", "state": None, "in_flight": True},
        ],
    }
).encode()


def answering(response: Response, **files: str) -> FakeHost:
    return FakeHost(files, answers={f"{URL}/api/v1/endpoints": response})


def test_the_bundle_is_identified_and_its_routes_stay_where_they_are() -> None:
    facts, findings = gateway_facts.read_gateway(FakeHost({PATH: BUNDLE}), PATH, None, None)
    assert facts == GatewayFacts(bundle=PublishedBundle(PATH, 7, "sha256:ab", 1.5))
    assert findings == ()
    assert "secret" not in repr(facts)


def test_of_its_routes_the_endpoints_are_told_sorted() -> None:
    endpoint = {
        "id": "chat/0@n1",
        "address": "10.0.0.1",
        "port": 18000,
        "engine": "vllm",
        "draining": True,
        "weight": 1,
    }
    routes = {"routes": [{"service": "chat", "endpoints": [endpoint | {"id": "chat/1@n2"}, endpoint], "admission": {}}]}
    text = json.dumps({"generation": 7, "routes": routes})
    facts, findings = gateway_facts.read_gateway(FakeHost({PATH: text}), PATH, None, None)
    assert facts.bundle is not None
    assert facts.bundle.endpoints is not None
    assert [one.id for one in facts.bundle.endpoints] == ["chat/0@n1", "chat/1@n2"]
    first = PublishedEndpoint("chat/0@n1", "chat", "10.0.0.1", 18000, "vllm", draining=True)
    assert facts.bundle.endpoints[0] == first
    assert findings == ()


@pytest.mark.parametrize(
    "routes", [None, [], {"routes": [{}]}, {"routes": [{"service": "chat", "endpoints": [{"id": "chat/0@n1"}]}]}]
)
def test_endpoints_that_cannot_all_be_told_are_unknown(routes: object) -> None:
    facts, _ = gateway_facts.read_gateway(FakeHost({PATH: json.dumps({"routes": routes})}), PATH, None, None)
    assert facts.bundle == PublishedBundle(PATH)


def test_no_bundle_yet_is_nothing_wrong() -> None:
    assert gateway_facts.read_gateway(FakeHost(), PATH, None, None) == (GatewayFacts(), ())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"generation": 7', "\xff"])
def test_a_bundle_that_cannot_be_read_is_a_finding(text: str) -> None:
    facts, findings = gateway_facts.read_gateway(FakeHost({PATH: text}), PATH, None, None)
    assert facts.bundle == PublishedBundle(PATH)
    assert [one.code for one in findings] == ["bundle-unreadable"]


def test_endpoints_are_told_with_what_is_known_of_them() -> None:
    facts, findings = gateway_facts.read_gateway(answering(Response(200, ENDPOINTS)), None, f"{URL}/", None)
    assert facts.reachable is True
    assert facts.generation == 7
    assert facts.endpoints == (EndpointHealth("chat/0@n1", "ready", 3, 12.0), EndpointHealth("chat/1@n2"))
    assert findings == ()


def test_a_gateway_that_does_not_answer_is_unreachable_and_its_endpoints_are_not_dead() -> None:
    facts, findings = gateway_facts.read_gateway(FakeHost(), None, URL, None)
    assert (facts.reachable, facts.endpoints) == (False, ())
    assert [one.code for one in findings] == ["gateway-unreachable"]


@pytest.mark.parametrize("response", [Response(401, b""), Response(200, b"<html>"), Response(200, b'{"endpoints": 3}')])
def test_a_gateway_that_does_not_tell_is_reachable_and_a_finding(response: Response) -> None:
    facts, findings = gateway_facts.read_gateway(answering(response), None, URL, None)
    assert (facts.reachable, facts.endpoints) == (True, ())
    assert [one.code for one in findings] == ["gateway-refuses"]


def test_the_token_is_sent_and_appears_in_no_fact() -> None:
    host = answering(Response(200, ENDPOINTS), **{"/token": "t0ps3cret\n"})
    facts, findings = gateway_facts.read_gateway(host, None, URL, "/token")
    assert host.fetched == [(f"{URL}/api/v1/endpoints", {"Authorization": "Bearer t0ps3cret"})]
    assert "t0ps3cret" not in repr((facts, findings))


def test_a_token_that_cannot_be_read_is_a_finding() -> None:
    _facts, findings = gateway_facts.read_gateway(answering(Response(200, ENDPOINTS)), None, URL, "/none")
    assert [one.code for one in findings] == ["gateway-token-missing"]

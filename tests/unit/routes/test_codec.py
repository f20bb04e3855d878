# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.errors import LlmgwError
from llmgw.model.replica import ApiKeySpec, GatewaySpec
from llmgw.model.route import BUNDLE_FORMAT, Bundle, RouteTable
from llmgw.routes.codec import dump_bundle, load_bundle, routes_digest
from tests.support.fleets import catalog, fleet, node, profile, service, with_facts
from tests.support.world import World

WORLD = World(fleet(node("n1"), node("n2")))
ROUTES = WORLD.apply(catalog(service(replicas=2))).routes
GATEWAY = GatewaySpec(keys=(ApiKeySpec("app", "0" * 64, ("chat",)),), probe_interval_s=0.25)
BUNDLE = Bundle(
    BUNDLE_FORMAT,
    7,
    routes_digest(ROUTES),
    replace(ROUTES, gateway=GATEWAY),
    1000.5,
    {"nodes": []},
    {},
    ({"code": "x"},),
)
DATA = dump_bundle(BUNDLE).encode()


def refusal(data: bytes) -> LlmgwError:
    with pytest.raises(LlmgwError) as caught:
        load_bundle(data, "/var/lib/llmgw/bundle.json")
    assert str(caught.value.where) == "/var/lib/llmgw/bundle.json"
    assert caught.value.fix is not None
    return caught.value


def changed(**values: object) -> bytes:
    return json.dumps(json.loads(DATA) | values).encode()


def test_a_bundle_comes_back_as_it_was() -> None:
    assert load_bundle(DATA) == BUNDLE
    assert DATA.endswith(b"}\n")


def test_every_truncated_bundle_is_refused() -> None:
    for length in range(len(DATA) - 1):
        assert refusal(DATA[:length]).code == "bundle-broken"


def test_routes_are_the_same_whether_or_not_the_cards_of_a_node_can_be_read() -> None:
    world = World(fleet(node("n1", gpus=1)))
    wanted = catalog(service("chat", 1, (profile("g", classes=("h200-141g",), gpus=1),)))
    known = world.apply(wanted).routes
    nodes = tuple(with_facts(one, replace(one.facts, gpus=None)) for one in world.fleet.nodes if one.facts)
    decision = decide(wanted, replace(world.fleet, nodes=nodes))
    assert decision.routes != known
    assert routes_digest(decision.routes) == routes_digest(known)
    assert not decision.plan.waves


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"null", b"[]", b'"x"', b"7", b"{}", b"[" * 100_000, b"{" + DATA])
def test_what_is_no_bundle_is_refused(data: bytes) -> None:
    assert refusal(data).code == "bundle-broken"


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"generation": "seven"}, "generation"),
        ({"generation": None}, "generation"),
        ({"routes": {"routes": [{"service": "chat"}]}}, "routes.routes.0.served_name"),
        ({"routes": {"routes": [], "gateway": {"listen": 8080}}}, "routes.gateway.listen"),
        ({"fleet": []}, "fleet"),
        ({"format_version": None}, "format_version"),
    ],
)
def test_what_has_another_shape_is_refused_with_its_place(values: dict[str, object], place: str) -> None:
    error = refusal(changed(**values))
    assert error.code == "bundle-broken"
    assert f"wrong at {place}: " in error.why


def test_a_bundle_of_a_newer_llmgw_is_refused_by_its_format() -> None:
    error = refusal(json.dumps({"format_version": BUNDLE_FORMAT + 1, "routes": "something new"}).encode())
    assert error.code == "bundle-format"
    assert "upgrade llmgw on the gateway host" in (error.fix or "")


def test_what_a_later_version_adds_is_passed_over() -> None:
    assert load_bundle(changed(later={"x": 1})) == BUNDLE


def test_the_digest_is_of_the_routes_and_of_all_they_say() -> None:
    digest = routes_digest(ROUTES)
    assert digest == routes_digest(load_bundle(dump_bundle(replace(BUNDLE, routes=ROUTES)).encode()).routes)
    (route,) = ROUTES.routes
    first, second = route.endpoints
    others = [
        replace(ROUTES, routes=()),
        replace(ROUTES, gateway=GATEWAY),
        replace(ROUTES, routes=(replace(route, desired=3),)),
        replace(ROUTES, routes=(replace(route, endpoints=(first,)),)),
        replace(ROUTES, routes=(replace(route, endpoints=(replace(first, draining=True), second)),)),
    ]
    assert len({digest, *map(routes_digest, others)}) == len(others) + 1


def test_the_digest_changes_only_when_routes_say_something_else() -> None:
    """When this fails, an upgrade of llmgw publishes to every fleet once more: is it meant?"""
    assert routes_digest(RouteTable(())) == "sha256:895774c897c17d7506ff3325eb77381bf8ca59ebf03205eed011e82cfad84dd2"

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from dataclasses import replace

import pytest

from llmgw.model.ids import EngineKind, ModelName, NodeName, ReplicaId
from llmgw.model.node import NodeState
from llmgw.model.replica import AdmissionSpec, ModelSpec
from llmgw.model.unit import Readiness
from llmgw.nodekit import contract
from llmgw.routes.build import Routes, Serving, build_routes, endpoint_id
from llmgw.routes.now import routes_now
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World

KINDS = ("sim", "vllm", "sglang", "llama.cpp")
ENGINES = tuple(contract.Engine(kind, (f"/opt/{kind}",), "1.0", runnable=True) for kind in KINDS)


def serving(number: int = 0, on: str = "n1", port: int | None = 18000, of: str = "chat") -> Serving:
    health = Readiness("http", "10.0.0.1", port, health_path="/h", models_path="/m", expect_model="org/chat")
    name = ReplicaId(f"{of}/{number}")
    return Serving(of, name, NodeName(on), EngineKind("sim"), "org/chat", health, "sha256:p", "h200-141g", 2)


def test_a_route_names_every_serving_replica_once_and_sorted() -> None:
    wanted = catalog(service("chat", 3), service("code", 1))
    table = build_routes(wanted, [serving(1, "n2"), serving(0, "n9"), serving(0, "n1"), serving(0, of="code")])
    assert [(one.service, [endpoint.id for endpoint in one.endpoints]) for one in table.routes] == [
        ("chat", ["chat/0@n1", "chat/0@n9", "chat/1@n2"]),
        ("code", ["code/0@n1"]),
    ]


def test_an_endpoint_is_asked_where_and_what_its_unit_is_asked() -> None:
    (route,) = build_routes(catalog(service("chat", 1)), [serving()]).routes
    (endpoint,) = route.endpoints
    assert (endpoint.address, endpoint.port) == ("10.0.0.1", 18000)
    assert (endpoint.health_path, endpoint.models_path, endpoint.model) == ("/h", "/m", "org/chat")
    assert (endpoint.process_digest, endpoint.device_class, endpoint.devices) == ("sha256:p", "h200-141g", 2)
    assert not endpoint.draining


def test_an_endpoint_without_a_port_is_not_routed_to() -> None:
    (route,) = build_routes(catalog(service("chat", 1)), [serving(port=None)]).routes
    assert route.endpoints == ()


def test_a_service_with_nothing_to_serve_it_still_has_its_route() -> None:
    (route,) = build_routes(catalog(service("chat", 2)), []).routes
    assert (route.service, route.desired, route.endpoints) == ("chat", 2, ())


def test_replicas_of_a_service_that_is_gone_are_routed_nowhere() -> None:
    assert build_routes(catalog(), [serving()]).routes == ()


def test_draining_endpoints_stay_named_and_get_nothing_new() -> None:
    draining = frozenset({endpoint_id("chat/1", "n2")})
    (route,) = build_routes(catalog(service("chat", 2)), [serving(0), serving(1, "n2")], draining).routes
    assert [(one.id, one.draining) for one in route.endpoints] == [("chat/0@n1", False), ("chat/1@n2", True)]


def test_routes_that_change_step_by_step_are_those_built_at_once() -> None:
    wanted = catalog(service("chat", 3), service("code", 1))
    everything = [serving(0), serving(1, "n2"), serving(2, port=None), serving(0, of="code"), serving(0, of="gone")]
    named: dict[str, Serving] = {}
    routes = Routes(wanted)
    seed = random.Random(7)
    for _step in range(300):
        one = seed.choice(everything)
        name = endpoint_id(one.replica, one.node)
        if seed.random() < 0.5:
            one = replace(one, process_digest=seed.choice(["sha256:p", "sha256:q"]))
            assert routes.add(one) == name
            named[name] = one
        else:
            routes.remove(name)
            named.pop(name, None)
        draining = frozenset(endpoint_id(one.replica, one.node) for one in seed.sample(everything, seed.randint(0, 2)))
        assert (name in routes) == (name in named)
        assert routes.table(draining) == build_routes(wanted, named.values(), draining)
        assert routes.table() == build_routes(wanted, named.values())


def test_routes_that_nothing_changed_are_the_very_same() -> None:
    wanted = catalog(service("chat", 3), service("code", 1))
    routes = Routes(wanted, [serving(0), serving(0, of="code")])
    before = routes.table()
    routes.add(serving(1, "n2"))
    after = routes.table()
    assert [one is other for one, other in zip(before.routes, after.routes, strict=True)] == [False, True]


def test_what_the_catalog_says_of_a_service_reaches_its_route() -> None:
    limits = AdmissionSpec(max_concurrency=7)
    wanted = replace(
        service("chat", 1, served_name="org/chat", priority=3, admission=limits, policy="random"), aliases=("gpt",)
    )
    (route,) = build_routes(catalog(wanted), []).routes
    assert (route.served_name, route.aliases, route.priority, route.admission, route.policy) == (
        "org/chat",
        ("gpt",),
        3,
        limits,
        "random",
    )


def test_what_serves_now_is_what_runs_whatever_the_catalog_wants_next() -> None:
    world = World(fleet(node("n1", gpus=2), node("n2")))
    by_gpu = profile("g", classes=("h200-141g",), gpus=1)
    world.apply(catalog(service("chat", 2), service("big", 1, (by_gpu,))))
    more = catalog(service("chat", 9), service("new", 1))
    now = {one.service: [endpoint.id for endpoint in one.endpoints] for one in routes_now(more, world.fleet).routes}
    assert now == {"chat": ["chat/0@n2", "chat/1@n1"], "new": []}
    (big,) = routes_now(catalog(service("big", 1, (by_gpu,))), world.fleet).routes
    assert (big.endpoints[0].device_class, big.endpoints[0].devices) == ("h200-141g", 1)


@pytest.mark.parametrize("engine", KINDS)
def test_routes_now_and_routes_planned_are_the_same_once_all_is_done(engine: str) -> None:
    world = World(fleet(*(node(name, gpus=2, engines=ENGINES) for name in ("n1", "n2"))))
    weights = ModelSpec(ModelName("m"), path="m.gguf")
    keys = {"VLLM_API_KEY": "engine-key"}
    one = profile("g", engine, classes=("h200-141g",), gpus=1, model=weights, secrets=keys)
    wanted = catalog(service("chat", 2, (one,)))
    routes = world.apply(wanted).routes
    assert len(routes.routes[0].endpoints) == 2
    assert routes == routes_now(wanted, world.fleet)


def test_gateways_are_told_by_name_which_key_an_engine_asks_for() -> None:
    world = World(fleet(node("n1", gpus=1, engines=ENGINES)))
    keys = {"VLLM_API_KEY": "engine-key.2", "HF_TOKEN": "hub"}
    one = profile("g", "vllm", classes=("h200-141g",), gpus=1, secrets=keys)
    wanted = catalog(service("chat", 1, (one,)))
    world.apply(wanted)
    (endpoint,) = routes_now(wanted, world.fleet).routes[0].endpoints
    assert endpoint.api_key_env == "LLMGW_SECRET_ENGINE_KEY_2"


def test_sglang_is_asked_by_the_question_that_costs_it_nothing() -> None:
    world = World(fleet(node("n1", gpus=1, engines=ENGINES)))
    wanted = catalog(service("chat", 1, (profile("g", "sglang", classes=("h200-141g",), gpus=1),)))
    world.apply(wanted)
    assert routes_now(wanted, world.fleet).routes[0].endpoints[0].health_path == "/ready"


def test_what_is_stopped_failed_or_on_a_lost_node_does_not_serve() -> None:
    world = World(fleet(node("n1"), node("n2"), node("n3")))
    wanted = catalog(service("chat", 3))
    world.apply(wanted)
    world.change("llmgw-chat.0.0.service", lambda unit: replace(unit, active_state="failed"))
    world.change("llmgw-chat.1.0.service", lambda unit: replace(unit, port=None))
    world.state("n3", NodeState.LOST)
    assert routes_now(wanted, world.fleet).routes[0].endpoints == ()


def test_a_node_that_does_not_answer_now_keeps_its_routes() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service("chat", 1))
    world.apply(wanted)
    world.state("n1", NodeState.UNREACHABLE)
    assert [one.id for one in routes_now(wanted, world.fleet).routes[0].endpoints] == ["chat/0@n1"]

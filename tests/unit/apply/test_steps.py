# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from llmgw.apply.publishing import Publishing
from llmgw.apply.steps import steps_of, undo_of
from llmgw.decide import Options, decide
from llmgw.model.ids import EndpointId, ServiceName
from llmgw.model.node import FleetSnapshot, GatewayHost, NodeState
from llmgw.model.plan import Publish, StartMembers, Step, StopMembers, Trial, Wave
from llmgw.model.replica import Catalog
from llmgw.model.route import RouteTable
from llmgw.model.unit import UnitFile
from llmgw.nodekit import unitfile
from llmgw.routes.codec import load_bundle, routes_digest
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.joined_machines import Machine
from tests.support.placement_fleets import A100, Site, cards_for, of
from tests.support.world import World

ALL = frozenset({"n1", "n2", "n3", "gw"})


def running(replicas: int = 2, **more: Any) -> World:
    world = World(fleet(node("n1"), node("n2"), node("n3")))
    world.apply(catalog(service(replicas=replicas, **more)))
    return world


def steps(world: World, wanted: Catalog, options: Options | None = None, **more: Any) -> list[dict[str, Any]]:
    decision = decide(wanted, world.fleet, options)
    return list(steps_of(decision, Publishing(decision, world.fleet, more.get("in_play", ALL))))


def whole(step: dict[str, Any]) -> str:
    """The bundle of a step."""
    return f"{step['bundle'][:-1]},{step['bundle_rest'][1:]}"


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [step["kind"] for step in found]


def other_argument(replicas: int = 2) -> Catalog:
    return catalog(service(replicas=replicas, profiles=(profile(args=("--x",)),)))


def test_nothing_to_do_is_no_step() -> None:
    world = running()
    assert steps(world, catalog(service(replicas=2))) == []


def test_steps_are_plain_json_with_everything_that_a_module_needs() -> None:
    world = World(fleet(node("n1"), node("n2")))
    found = steps(world, catalog(service(replicas=2)))
    assert json.loads(json.dumps(found)) == found
    assert kinds(found) == ["units", "publish"]
    start, publish = found
    assert (start["title"], start["wave"], start["waves"]) == ("start chat/0, chat/1", 1, 1)
    (unit,) = start["hosts"]["n1"]["present"]
    assert unit["name"] == "llmgw-chat.0.0.service"
    assert unit["text_digest"] == unitfile.text_digest(unit["text"])
    assert unit["readiness"]["expect_model"] == "chat"
    assert unit["stop_timeout_s"] == 40
    assert publish["hosts"] == ["gw"]
    assert (publish["drain"], publish["drain_timeout_s"]) == ([], 0)


def test_a_published_step_carries_a_whole_bundle() -> None:
    world = World(fleet(node("n1")))
    decision = decide(catalog(service(replicas=1)), world.fleet)
    *_before, publish = steps_of(decision, Publishing(decision, world.fleet, ALL))
    bundle = load_bundle(whole(publish).encode())
    assert bundle.generation == publish["generation"] == decision.plan.generation
    assert bundle.routes == decision.routes
    assert bundle.routes_digest == publish["routes_digest"] == routes_digest(decision.routes)
    assert [one["name"] for one in (bundle.fleet or {})["nodes"]] == ["n1"]
    assert (bundle.plan or {})["generation"] == bundle.generation
    assert "ExecStart" not in whole(publish), "units' texts are no business of gateways"
    assert bundle.written_at == world.fleet.taken_at


def test_generations_of_bundles_grow_within_a_plan_and_nodes_see_one() -> None:
    found = steps(running(), other_argument())
    published = [step["generation"] for step in found if step["kind"] == "publish"]
    assert published == list(range(published[0], published[0] + len(published)))
    assert len(published) == 4
    assert {step["generation"] for step in found if step["kind"] == "units"} == {published[0]}


def test_a_host_is_told_what_it_holds_when_the_steps_before_went_well() -> None:
    world = World(fleet(node("n1")))
    world.apply(catalog(service(replicas=2)))
    first, second = (unit.actual_text_digest for unit in world.units("n1"))
    names = ["llmgw-chat.0.0.service", "llmgw-chat.1.0.service"]
    mine = [step["hosts"]["n1"] for step in steps(world, other_argument()) if step["kind"] == "units"]
    assert [one["expected"] for one in mine] == [
        {names[0]: first, names[1]: second},
        {names[0]: mine[0]["present"][0]["text_digest"], names[1]: second},
    ]
    assert [one["first"] for one in mine] == [True, False]


def test_after_a_stop_a_host_is_expected_to_hold_the_unit_no_more() -> None:
    world = World(fleet(node("n1")))
    world.apply(catalog(service(replicas=2)))
    first, second = units_of(world)
    stop, update = (
        step["hosts"]["n1"]
        for step in with_waves(
            world,
            Wave("stop chat/1", (StopMembers(((second.node, second.name),)),)),
            Wave("update chat/0", (StartMembers((first,)),)),
        )[0]
    )
    assert (stop["absent"], stop["present"]) == (["llmgw-chat.1.0.service"], [])
    assert sorted(stop["expected"]) == ["llmgw-chat.0.0.service", "llmgw-chat.1.0.service"]
    assert sorted(update["expected"]) == ["llmgw-chat.0.0.service"]


def test_a_host_with_nothing_on_it_is_expected_to_hold_nothing() -> None:
    world = World(fleet(node("n1")))
    (start, _publish) = steps(world, catalog(service(replicas=1)))
    assert start["hosts"]["n1"]["expected"] == {}
    assert start["hosts"]["n1"]["first"]


def test_scaling_down_takes_out_of_the_routes_drains_and_then_stops() -> None:
    world = running(3)
    found = steps(world, catalog(service(replicas=1, drain_timeout_s=17)))
    assert kinds(found) == ["publish", "units"]
    publish, stop = found
    assert (publish["drain"], publish["drain_timeout_s"]) == (["chat/1@n2", "chat/2@n3"], 17)
    assert sorted(stop["hosts"]) == ["n2", "n3"]


def with_gateways(world: World, **states: NodeState) -> FleetSnapshot:
    gateways = tuple(GatewayHost(name, state) for name, state in states.items())  # type: ignore[arg-type]
    return replace(world.fleet, gateways=gateways)


def test_routes_go_to_gateways_that_answer_and_are_in_this_run() -> None:
    world = running()
    world.fleet = with_gateways(
        world, up=NodeState.OK, away=NodeState.UNREACHABLE, outside=NodeState.OK, kept=NodeState.FROZEN
    )
    in_play = frozenset({"n1", "n2", "n3", "up", "away", "kept"})
    found = steps(world, other_argument(), in_play=in_play)
    assert {tuple(step["hosts"]) for step in found if step["kind"] == "publish"} == {("up",)}


def test_a_step_tells_how_many_hosts_wait_for_one_another() -> None:
    site = Site(*(Machine(name, (A100,), fabric="ib-a") for name in ("n1", "n2", "n3", "n4", "n5")))
    pair = of("pair", cards_for(1, A100, nodes=2), 2)
    alone = of("alone", cards_for(1, A100), 1)
    decision = decide(catalog(pair, alone), site.fleet)
    in_play = frozenset(one.name for one in site.fleet.nodes)
    found = list(steps_of(decision, Publishing(decision, site.fleet, in_play)))
    assert [step["at_once"] for step in found if step["kind"] == "units"] == [4]
    assert len(found[0]["hosts"]) == 5


def test_a_drain_that_some_gateway_cannot_answer_for_is_followed_by_a_wait_for_the_deadline() -> None:
    world = running(3)
    wanted = catalog(service(replicas=1, drain_timeout_s=17))
    assert kinds(steps(world, wanted)) == ["publish", "units"]
    world.fleet = with_gateways(world, up=NodeState.OK, away=NodeState.UNREACHABLE)
    found = steps(world, wanted, in_play=ALL | {"up", "away"})
    assert kinds(found) == ["publish", "wait", "units"]
    assert (found[1]["seconds"], found[1]["hosts"]) == (17, [])


def test_a_host_that_hangs_is_given_up_after_the_longest_that_its_step_may_take() -> None:
    world = World(fleet(node("n1")))
    start, publish = steps(world, catalog(service(replicas=1)))
    (unit,) = start["hosts"]["n1"]["present"]
    ready = max(unit["readiness"]["start_timeout_s"], unit["readiness"]["ready_timeout_s"])
    assert start["timeout_s"] > 2 * unit["stop_timeout_s"] + 3 * ready
    assert publish["timeout_s"] > 40
    trial = Trial((EndpointId("chat/0@n1"),), 20, 0, 600)
    tried = with_waves(world, Wave("canary", (Publish(RouteTable(()), trials=(trial,), drain_timeout_s=30),)))
    (step,) = tried[0]
    assert step["timeout_s"] > 670
    assert step["trials"] == [{"endpoints": ["chat/0@n1"], "answers": 20, "max_errors": 0, "timeout_s": 600}]


def with_waves(world: World, *waves: Wave) -> tuple[list[dict[str, Any]], list[tuple[str, str, dict[str, Any]]]]:
    """The steps of these waves and what puts them back."""
    decision = decide(catalog(service(replicas=2)), world.fleet)
    decision = replace(decision, plan=replace(decision.plan, generation=7, waves=waves))
    publishing = Publishing(decision, world.fleet, ALL)
    return list(steps_of(decision, publishing)), list(undo_of(decision, publishing))


def units_of(world: World) -> tuple[UnitFile, ...]:
    return decide(catalog(service(replicas=2)), world.fleet).units


def test_what_a_wave_touched_of_a_service_can_be_put_back_from_any_point_of_it() -> None:
    world = World(fleet(node("n1"), node("n2")))
    first, second = units_of(world)
    routes = RouteTable(())
    back = (StartMembers((first,)), Publish(routes), StopMembers(((second.node, second.name),)))
    waves = (
        Wave("update chat/0", (Publish(routes), StartMembers((first,)), Publish(routes))),
        Wave("update chat/1", (Publish(routes), StartMembers((second,))), {ServiceName("chat"): back}),
    )
    made, undone = with_waves(world, *waves)
    assert [(wave, service) for wave, service, _step in undone] == [("2", "chat")] * 3
    start, publish, stop = (step for _wave, _service, step in undone)
    assert json.loads(json.dumps(undone[0][2])) == start
    assert start["title"] == "put back chat (wave 2: update chat/1)"
    assert (start["kind"], start["wave"], start["generation"]) == ("units", 2, 7)
    assert set(start["hosts"]["n1"]) == {"present", "absent"}, "the host is somewhere in the middle of the wave"
    assert [unit["name"] for unit in start["hosts"]["n1"]["present"]] == [first.name]
    assert stop["hosts"][second.node]["absent"] == [second.name]
    published = [step["generation"] for step in made if step["kind"] == "publish"]
    assert published == [7, 8, 9]
    assert publish["generation"] == load_bundle(whole(publish).encode()).generation == 10


def test_routes_that_are_put_back_for_several_services_outrank_one_another_in_order() -> None:
    world = World(fleet(node("n1"), node("n2")))
    undo: dict[ServiceName, tuple[Step, ...]] = {
        ServiceName(name): (Publish(RouteTable(())),) for name in ("zeta", "alpha")
    }
    _made, undone = with_waves(world, Wave("a", (), undo), Wave("b", (), undo))
    assert [(wave, service, step["generation"]) for wave, service, step in undone] == [
        ("1", "alpha", 7),
        ("1", "zeta", 8),
        ("2", "alpha", 9),
        ("2", "zeta", 10),
    ]


def test_a_plan_that_puts_nothing_back_has_no_steps_for_it() -> None:
    assert with_waves(World(fleet(node("n1"))), Wave("start chat/0", ()))[1] == []

# SPDX-License-Identifier: Apache-2.0
"""Plans as people read them; whole plans are in tests/scenarios."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.ids import DeviceId, EndpointId, NodeName, ReplicaId, ServiceName
from llmgw.model.placement import Rejection, Unplaced
from llmgw.model.plan import PLAN_FORMAT, Action, ActionKind, Floor, MarkDevices, Plan, Publish, Quarantine, Wave
from llmgw.model.replica import CanarySpec, RolloutSpec
from llmgw.model.route import RouteTable
from llmgw.plan.text import SYMBOLS, plan_lines, summary_line, wave_lines
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World


def action(kind: ActionKind, number: int = 0, **more: object) -> Action:
    return Action(kind, ReplicaId(f"chat/{number}"), ServiceName("chat"), (NodeName("n1"),), **more)  # type: ignore[arg-type]


def plan(*actions: Action, **more: object) -> Plan:
    return Plan(PLAN_FORMAT, 7, actions, (), **more)  # type: ignore[arg-type]


def rejection(on: str, message: str, profile_name: str = "cpu") -> Rejection:
    return Rejection(ServiceName("chat"), profile_name, NodeName(on), "memory", message)  # type: ignore[arg-type]


def unplaced(*rejections: Rejection, held: str | None = None) -> Unplaced:
    return Unplaced(ReplicaId("chat/0"), ServiceName("chat"), rejections, held)


def test_every_kind_of_action_has_a_symbol_of_its_own() -> None:
    assert set(SYMBOLS) == set(ActionKind)
    assert len(set(SYMBOLS.values())) == len(SYMBOLS)


def test_an_action_says_where_from_where_to_on_what_by_what_and_why() -> None:
    move = action(
        ActionKind.MOVE, from_nodes=("n9",), devices=("0 (h200-141g)",), profile="gpu", reasons=("n9 is lost", "again")
    )
    assert plan_lines(plan(move))[:3] == [
        "> chat/0  move    n9 -> n1 on 0 (h200-141g) by gpu",
        "    n9 is lost",
        "    again",
    ]


def test_what_stays_is_counted_and_shown_only_when_asked_for() -> None:
    kept = plan(action(ActionKind.KEEP), action(ActionKind.KEEP, 11))
    assert plan_lines(kept) == ["", "Nothing to do: 2 replicas are as the catalog wants them."]
    assert plan_lines(kept, every_action=True)[:2] == ["  chat/0   keep    n1", "  chat/11  keep    n1"]
    assert summary_line(plan(action(ActionKind.KEEP))) == "Nothing to do: 1 replica is as the catalog wants it."


@pytest.mark.parametrize("kind", [kind for kind in ActionKind if kind is not ActionKind.KEEP])
def test_every_kind_of_action_is_counted_in_the_summary(kind: ActionKind) -> None:
    world = World(fleet(node("n1")))
    waves = decide(catalog(service(replicas=1)), world.fleet).plan.waves
    changing = Plan(PLAN_FORMAT, 7, (action(kind), action(ActionKind.KEEP, 1)), waves)
    assert summary_line(changing).startswith("Plan: 1 to ")
    assert summary_line(changing).endswith(", 1 unchanged.")


def test_routes_alone_are_a_change_too() -> None:
    world = World(fleet(node("n1")))
    world.apply(catalog())
    waves = decide(catalog(service(replicas=1)), world.fleet).plan.waves
    assert summary_line(Plan(PLAN_FORMAT, 7, (action(ActionKind.KEEP),), waves)) == (
        "Plan: 1 unchanged, routes to publish."
    )


def test_rejections_that_say_the_same_of_many_nodes_are_told_once() -> None:
    same = [rejection(f"n{number:02}", "has 8 GB of memory left, needs 24") for number in range(10)]
    own = [
        rejection("n77", "n77 is cordoned"),
        rejection("n78", "n78 is cordoned"),
        rejection("n78", "n78 is cordoned"),
    ]
    assert plan_lines(plan(unplaced=(unplaced(*same, *own),)))[:3] == [
        "! chat/0 cannot be placed:",
        "    n00, n01, n02, n03, n04, n05, n06, n07 and 2 more: has 8 GB of memory left, needs 24",
        "    n77, n78: is cordoned",
    ]


def alone(replica: str, *rejections: Rejection, **more: object) -> Unplaced:
    return Unplaced(ReplicaId(replica), ServiceName(replica.partition("/")[0]), rejections, **more)  # type: ignore[arg-type]


def test_replicas_that_fail_alike_are_told_together() -> None:
    lines = plan_lines(
        plan(
            unplaced=(
                alone("fast/3", rejection("n1", "n1 is cordoned")),
                alone("fast/4", like="fast/3"),
                alone("other/0", rejection("n1", "n1 is drained")),
                *(alone(f"fast/{number}", like="fast/3") for number in range(5, 15)),
            )
        )
    )
    assert lines[:4] == [
        "! fast/3, fast/4, fast/5, fast/6, fast/7, fast/8, fast/9, fast/10 and 4 more cannot be placed:",
        "    n1: is cordoned",
        "! other/0 cannot be placed:",
        "    n1: is drained",
    ]


def test_replicas_that_are_held_back_for_one_reason_are_told_together() -> None:
    held = "it may run on n2"
    lines = plan_lines(plan(unplaced=tuple(alone(f"chat/{number}", held=held) for number in range(2))))
    assert lines[0] == "! each of chat/0, chat/1 is held back: it may run on n2"


def test_what_gave_way_says_to_whom() -> None:
    low = (
        alone("low/0", rejection("n1", "n1 has no free device"), gave_way_to="high/0"),
        alone("low/1", like="low/0", gave_way_to="high/1"),
        alone("low/2", like="low/0"),
    )
    assert plan_lines(plan(unplaced=low))[:4] == [
        "! low/0, low/1, low/2 cannot be placed:",
        "    low/0 gave way to high/0",
        "    low/1 gave way to high/1",
        "    n1: has no free device",
    ]


def test_of_very_many_reasons_those_of_most_nodes_are_told_and_the_rest_counted() -> None:
    own = [rejection(f"n{number:02}", f"has {number} GB of memory left, needs 64") for number in range(30)]
    same = [rejection(f"m{number}", "is cordoned") for number in range(3)]
    twice = rejection("m0", "has 29 GB of memory left, needs 64")
    lines = plan_lines(plan(unplaced=(unplaced(*own, *same, twice),)))[:-2]
    assert len(lines) == 18
    assert "    m0, m1, m2: is cordoned" in lines
    assert "    n29, m0: has 29 GB of memory left, needs 64" in lines
    assert lines[-1] == "    15 more nodes have other reasons: `llmgw plan --why chat/0` tells it all"


def test_very_many_nodes_that_are_left_alone_take_one_line() -> None:
    untouched = {NodeName(f"n{number}"): "has no usable facts" for number in range(9)} | {NodeName("n3"): "is lost"}
    few = {name: why for name, why in untouched.items() if name != "n8"}
    assert len(plan_lines(plan(untouched=few))) == 8 + 2
    lines = plan_lines(plan(untouched=untouched | {NodeName("n9"): "has no usable facts"}))
    assert lines[:2] == [
        "! n0, n1, n2, n4, n5, n6, n7, n8 and 1 more: each has no usable facts",
        "! n3 is lost",
    ]


def test_nodes_with_devices_of_the_class_come_before_those_of_other_hardware() -> None:
    far = [replace(rejection(f"a{number}", "needs h200-141g, has l40s-45g"), constraint="class") for number in range(3)]
    near = rejection("z1", "has 0 free of 8 h200-141g, needs 1")
    assert plan_lines(plan(unplaced=(unplaced(*far, near),)))[:3] == [
        "! chat/0 cannot be placed:",
        "    z1: has 0 free of 8 h200-141g, needs 1",
        "    a0, a1, a2: needs h200-141g, has l40s-45g",
    ]


def test_one_node_more_that_lacks_something_is_one() -> None:
    own = [rejection(f"n{number:02}", f"has {number} GB of memory left, needs 64") for number in range(16)]
    first = replace(rejection("m0", "has 1 GB of memory left, needs 64"), constraint="other")
    lines = plan_lines(plan(unplaced=(unplaced(*own, first, rejection("m0", "is cordoned")),)))
    assert "    1 more node lacks more: `llmgw plan --why chat/0` tells it all" in lines


def test_a_fleet_without_nodes_says_so() -> None:
    lines = plan_lines(decide(catalog(service(replicas=1)), fleet()).plan)
    assert "    the inventory's group `fleet` has no nodes" in lines


def test_what_is_held_back_frozen_or_left_alone_is_told_first_or_last() -> None:
    lines = plan_lines(
        plan(
            unplaced=(unplaced(held="it may run on n2"),),
            untouched={NodeName("n3"): "is lost", NodeName("n2"): "has no usable facts"},
            frozen="2 of 3 nodes are lost at once",
        )
    )
    assert lines == [
        "! frozen: 2 of 3 nodes are lost at once (override with --allow-mass-loss)",
        "! chat/0 is held back: it may run on n2",
        "! n2 has no usable facts",
        "! n3 is lost",
        "",
        "Plan: 1 cannot be placed.",
    ]


def test_waves_tell_their_steps_in_order() -> None:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(catalog(service(replicas=3, drain_timeout_s=9)))
    wanted = catalog(service(replicas=2, drain_timeout_s=9, profiles=(profile(args=("--x",)),)))
    assert wave_lines(decide(wanted, world.fleet).plan) == [
        "1. stop chat/2",
        "   publish routes to 2 endpoints, drain chat/2@n1 (up to 9 s) while at least 1 other serves",
        "   stop 1 unit",
        "2. update chat/0",
        "   publish routes to 2 endpoints, drain chat/0@n1 (up to 9 s) while at least 1 other serves",
        "   write 1 unit on 1 node, wait until ready",
        "   publish routes to 2 endpoints, wait until gateways see chat/0@n1",
        (
            "   if chat fails: publish routes to 2 endpoints, drain chat/0@n1 (up to 9 s); put back 1 unit on 1 node, "
            "wait until ready"
        ),
        "3. update chat/1",
        "   publish routes to 2 endpoints, drain chat/1@n2 (up to 9 s) while at least 1 other serves",
        "   write 1 unit on 1 node, wait until ready",
        "   publish routes to 2 endpoints, wait until gateways see chat/1@n2",
        (
            "   if chat fails: publish routes to 2 endpoints, drain chat/1@n2 (up to 9 s); put back 1 unit on 1 node, "
            "wait until ready"
        ),
    ]


def test_waves_tell_how_many_others_must_serve_while_endpoints_drain() -> None:
    def told(*floors: tuple[str, int]) -> str:
        those = tuple(Floor(ServiceName(name), (), (), at_least) for name, at_least in floors)
        routes = RouteTable(())
        step = Publish(routes, (EndpointId("chat/0@n1"),), 60, floors=those)
        return wave_lines(Plan(PLAN_FORMAT, 1, (), (Wave("w", (step,)),)))[1].partition("(up to 60 s)")[2]

    assert told() == ""
    assert told(("chat", 1)) == " while at least 1 other serves"
    assert told(("chat", 2)) == " while at least 2 others serve"
    assert told(("code", 1), ("chat", 3)) == " while at least 3 others of chat and 1 other of code serve"


def test_waves_tell_what_a_canary_must_do_and_how_they_are_put_back() -> None:
    world = World(fleet(node("n1")))
    world.apply(catalog(service(replicas=2)))
    wanted = catalog(
        service(
            replicas=2,
            profiles=(profile(args=("--x",)),),
            rollout=RolloutSpec(max_surge=0, canary=CanarySpec(answers=5, max_errors=1, timeout_s=90)),
        )
    )
    assert wave_lines(decide(wanted, world.fleet).plan)[:7] == [
        "1. canary chat/0",
        "   publish routes to 2 endpoints, drain chat/0@n1 (up to 60 s) while at least 1 other serves",
        "   write 1 unit on 1 node, wait until ready",
        "   publish routes to 2 endpoints, wait until gateways see chat/0@n1",
        "   wait for 5 good answers of chat/0@n1, with at most 1 error, for up to 90 s",
        (
            "   if chat fails: publish routes to 2 endpoints, drain chat/0@n1 (up to 60 s); put back 1 unit on 1 node, "
            "wait until ready"
        ),
        "2. update chat/1",
    ]


def test_devices_that_are_quarantined_are_told_with_their_cause() -> None:
    mark = Quarantine(NodeName("n1"), DeviceId("GPU-1"), "xid", "card 3 fell off the bus")
    lines = plan_lines(Plan(PLAN_FORMAT, 7, (), (Wave("quarantine", (MarkDevices((mark,)),)),)))
    assert lines == ["! n1: device GPU-1 is quarantined: card 3 fell off the bus", "", "Plan: 1 device to quarantine."]

# SPDX-License-Identifier: Apache-2.0
"""Why replicas are where they are, node by node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.ids import NodeName, ProfileName, ReplicaId
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.replica import Catalog
from llmgw.model.why import NodeWhy, Why, WhyState
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from llmgw.placement.why.explain import explain
from llmgw.placement.why.states import States, leaving
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.world import World

H200 = "h200-141g"


def asked(wanted: Catalog, seen: FleetSnapshot, name: str = "chat", number: int | None = None, *nodes: str) -> Why:
    return explain(wanted, place(wanted, seen), name, number, tuple(map(NodeName, nodes)) if nodes else None)


def on(why: Why, name: str) -> NodeWhy:
    return next(one for one in why.nodes if one.node == name)


def test_every_failing_constraint_of_a_node_is_told_with_its_amounts() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile(classes=(H200,), gpus=4, min_memory_bytes=96 * GB),)))
    why = asked(wanted, fleet(node("n1", gpus=2, memory_gb=64, labels={"pool": "dev"})))
    failing = {check.constraint: (check.has, check.needs, check.unit) for check in on(why, "n1").failing}
    assert failing == {"devices": (2, 4, "devices"), "memory": (64 * GB, 96 * GB, "bytes")}
    assert [one.state for one in why.replicas] == [WhyState.UNPLACED]
    assert why.replicas[0].reason == "does not fit on the one node"


def test_a_service_is_asked_about_by_its_first_replica_without_a_place() -> None:
    wanted = catalog(service(replicas=3, profiles=(profile(min_memory_bytes=40 * GB),)))
    why = asked(wanted, fleet(node("n1"), node("n2", memory_gb=8)))
    assert why.replica is None
    assert why.subject == "chat/1"
    assert [(one.replica, one.state) for one in why.replicas] == [
        ("chat/0", WhyState.PLACED),
        ("chat/1", WhyState.UNPLACED),
        ("chat/2", WhyState.UNPLACED),
    ]


def test_a_place_has_the_terms_of_its_score_and_the_others_are_compared_with_it() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile(classes=(H200,), gpus=2),)))
    busy = catalog(service("other", 1, (profile("one", classes=(H200,), gpus=2),)))
    world = World(fleet(node("n1", gpus=4), node("n2", gpus=4)))
    world.apply(busy)
    why = asked(Catalog((*wanted.services, *busy.services)), world.fleet)
    assert why.replicas[0].place is not None
    assert why.replicas[0].place.members[0].node == "n1"
    assert why.replicas[0].place.devices == ("2 (h200-141g)", "3 (h200-141g)")
    assert on(why, "n1").chosen
    assert on(why, "n1").total == pytest.approx(sum(one.value * one.weight for one in on(why, "n1").score))
    compared = on(why, "n2").compared or ""
    assert compared.startswith("it scores ")
    assert "less: node-whole -3.50" in compared


def test_a_kept_replica_stays_and_a_better_place_is_told() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    crowded = catalog(service(replicas=1), service("aside", 3))
    world.apply(crowded)
    wider = replace(world.fleet, nodes=(*world.fleet.nodes, node("n2")))
    why = asked(crowded, wider, "chat", 0)
    assert why.replicas[0].state is WhyState.KEPT
    assert why.replicas[0].reason == "runs on n1 and stays"
    assert why.fresh is not None
    assert [one.node for one in why.fresh.members] == ["n2"]
    assert (on(why, "n2").compared or "").startswith("it scores ")


def test_what_runs_where_it_would_go_anyway_has_no_other_place_told() -> None:
    world = World(fleet(node("n1"), node("n2", cordoned=True)))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    assert asked(wanted, world.fleet, "chat", 0).fresh is None


def test_a_move_says_where_from_and_why() -> None:
    world = World(fleet(node("n1"), node("n2", cordoned=True)))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    drained = tuple(replace(one, drained=one.name == "n1", cordoned=False) for one in world.fleet.nodes)
    why = asked(wanted, replace(world.fleet, nodes=drained), "chat", 0)
    assert why.replicas[0].reason == "moves from n1 to n2: n1 is drained"


def test_what_must_leave_and_fits_nowhere_goes_on_where_it_is() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    drained = replace(world.fleet, nodes=tuple(replace(one, drained=True) for one in world.fleet.nodes))
    why = asked(wanted, drained, "chat", 0)
    assert why.replicas[0].state is WhyState.UNPLACED
    assert why.replicas[0].reason == (
        "has to leave n1, because n1 is drained, and fits nowhere else: "
        "it goes on running there, this plan does not stop it"
    )
    assert [one.sentence for one in why.relaxations] == ["end the drain of n1"]


def test_who_gave_way_is_told_with_whom_for() -> None:
    low = service("low", 1, (profile("low", classes=(H200,), gpus=2),), priority=0)
    high = service("high", 1, (profile("high", classes=(H200,), gpus=2),), priority=9)
    world = World(fleet(node("n1", gpus=2)))
    world.apply(catalog(low))
    why = asked(catalog(low, high), world.fleet, "low")
    assert why.replicas[0].reason == (
        "has to leave n1, because it gives way to high/0 (priority 9 over 0), and fits nowhere else: "
        "this plan stops it there"
    )
    told = asked(catalog(low, high), world.fleet, "high").replicas[0]
    assert told.reason == "goes to n1; low/0 gave way"


def _where_everything_failed(world: World) -> FleetSnapshot:
    """The fleet of which no unit runs any more."""
    nodes = []
    for one in world.fleet.nodes:
        assert one.facts is not None
        units = tuple(replace(unit, active_state="failed", sub_state="failed") for unit in one.facts.units or ())
        nodes.append(replace(one, facts=replace(one.facts, units=units)))
    return replace(world.fleet, nodes=tuple(nodes))


def test_what_has_failed_keeps_its_place_and_is_not_said_to_run() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    why = asked(wanted, _where_everything_failed(world), "chat", 0)
    assert why.replicas[0].state is WhyState.DOWN
    assert why.replicas[0].reason == "has its place on n1 and does not run now (failed): apply starts it again"


def test_what_has_failed_on_a_node_that_does_not_answer_is_started_later() -> None:
    world = World(fleet(node("n1")))
    wanted = catalog(service(replicas=1))
    world.apply(wanted)
    failed = _where_everything_failed(world)
    away = replace(failed, nodes=tuple(replace(one, state=NodeState.UNREACHABLE) for one in failed.nodes))
    told = asked(wanted, away, "chat", 0).replicas[0].reason
    assert told.endswith("once n1 can be reached, apply starts it again")


def test_what_gave_way_twice_is_told_of_the_one_that_took_where_it_ran() -> None:
    one = profile("low", classes=(H200,), gpus=2)
    low, mid, high = (
        service(name, 1, (replace(one, name=ProfileName(name)),), priority=priority)
        for name, priority in (("low", 0), ("mid", 1), ("high", 9))
    )
    world = World(fleet(node("n1", gpus=2)))
    world.apply(catalog(low))
    wanted = catalog(low, mid, high)
    takers = [
        name for name in ("mid", "high") if "low/0 gave way" in asked(wanted, world.fleet, name).replicas[0].reason
    ]
    assert takers == ["high"]
    outcome = place(wanted, world.fleet)
    twice = replace(
        outcome.placement,
        assignments=tuple(
            replace(each, preempts=(ReplicaId("low/0"),)) if each.service.name == "high" else each
            for each in outcome.placement.assignments
        ),
    )
    other = tuple((instance, "it gives way to mid/0 (priority 1 over 0)") for instance, _reason in outcome.surplus)
    told = States(replace(outcome, placement=twice, surplus=other)).assigned(twice.assignments[-1])
    assert told.reason == "goes to n1"


def test_what_runs_and_is_in_no_catalog_is_told_where_it_runs_and_that_it_stops() -> None:
    world = World(fleet(node("n1")))
    world.apply(catalog(service("old", 2)))
    outcome = place(catalog(service(replicas=1)), world.fleet)
    why = leaving(outcome, "old")
    assert why is not None
    assert [(each.replica, each.state) for each in why.replicas] == [
        ("old/0", WhyState.STOPS),
        ("old/1", WhyState.STOPS),
    ]
    assert why.replicas[0].reason == "runs on n1; the catalog has no service old, so apply stops it"
    assert leaving(outcome, "old", 7) is None
    assert leaving(outcome, "chat") is None


def test_of_nodes_that_nobody_knows_the_facts_come_first_and_no_hardware_is_offered() -> None:
    unseen = [replace(node(name), state=NodeState.UNSEEN, facts=None, devices=None) for name in ("n1", "n2")]
    wanted = catalog(service(replicas=1, profiles=(profile(classes=(H200,), gpus=1),)))
    why = asked(wanted, fleet(*unseen))
    assert why.first == ("Nothing is known of n1 and n2: run `llmgw facts refresh` first",)
    assert (why.relaxations, why.hardware) == ((), False)


def test_a_mistake_in_the_catalog_is_told_with_how_to_mend_it_and_no_hardware_is_offered() -> None:
    wrong = profile("wrong", classes=(H200,), gpus=4, tensor_parallel=3)
    why = asked(catalog(service(replicas=1, profiles=(wrong,))), fleet(node("n1", gpus=4), node("n2", gpus=1)))
    assert [one.partition(": set ")[2] for one in why.first] == [
        "tensor_parallel to 4 or gpus to 3. The catalog has to be mended first (profiles.wrong)"
    ]
    assert why.first[0].startswith("No node can serve profile wrong: tensor_parallel 3 x pipeline_parallel 1 is 3")
    assert not why.hardware


def test_hardware_helps_where_nothing_but_devices_is_lacking() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile(classes=(H200,), gpus=4),)))
    assert asked(wanted, fleet(node("n1", gpus=2))).hardware
    labelled = catalog(service(replicas=1, profiles=(profile(classes=(H200,), gpus=4, node_selector={"a": "b"}),)))
    assert not asked(labelled, fleet(node("n1", gpus=2))).hardware


def test_devices_are_told_by_the_classes_that_the_node_has() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile(classes=("h100-80g", H200), gpus=4),)))
    why = asked(wanted, fleet(node("n1", gpus=2)))
    assert [check.message for check in on(why, "n1").failing] == ["has 2 free of 2 h200-141g, needs 4"]


def test_a_node_asked_about_tells_how_old_its_facts_are() -> None:
    old = replace(node("n1"), facts_age_s=10.0, oldest_age_s=10_800.0, stale=True)
    why = asked(catalog(service(replicas=1)), fleet(old), "chat", 0, "n1")
    told = next(check for check in on(why, "n1").checks or () if check.constraint == "node-state")
    assert told.message == "n1 is ok, by facts that are 3 h old: run `llmgw facts refresh`"


def test_ports_of_a_node_without_facts_and_heads_of_a_model_that_nobody_saw_are_unknown() -> None:
    wanted = catalog(
        service(replicas=1, profiles=(profile(engine="vllm", classes=(H200,), gpus=2, tensor_parallel=2),))
    )
    unseen = replace(node("n1"), state=NodeState.UNSEEN, facts=None, devices=None)
    why = asked(wanted, fleet(unseen), "chat", 0, "n1")
    known = {check.constraint: check.known for check in on(why, "n1").checks or ()}
    assert (known["ports"], known["heads"], known["engine-support"]) == (False, False, True)


def test_what_is_held_back_says_so_and_no_relaxation_is_tried() -> None:
    known = contract.NodeFacts(generation=3)
    seen = fleet(node("n1"), replace(node("n2"), facts=known, devices=None))
    why = asked(catalog(service(replicas=1)), seen)
    assert [one.state for one in why.replicas] == [WhyState.HELD]
    assert why.replicas[0].reason.startswith("it may run on n2, whose units cannot be seen")
    assert not why.relaxations


def test_a_node_asked_about_says_what_it_meets_too() -> None:
    wanted = catalog(
        service(replicas=1, profiles=(profile(classes=(H200,), gpus=2, tensor_parallel=2, min_memory_bytes=96 * GB),))
    )
    why = asked(wanted, fleet(node("n1", gpus=4, memory_gb=64), node("n2", gpus=4)), "chat", 0, "n1")
    assert [one.node for one in why.nodes] == ["n1"]
    told = {check.constraint: (check.passes, check.has, check.needs) for check in on(why, "n1").checks or ()}
    wanted_checks = {"memory": (False, 64 * GB, 96 * GB), "devices": (True, 4, 2), "node-state": (True, None, None)}
    assert {name: told[name] for name in wanted_checks} == wanted_checks
    topology = next(check for check in on(why, "n1").checks or () if check.constraint == "topology")
    assert topology.message == "unknown: how its devices are joined; they are taken by index"
    assert not topology.known


def test_unknown_memory_is_met_and_said_to_be_unknown() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile(min_memory_bytes=96 * GB),)))
    why = asked(wanted, fleet(node("n1", memory_gb=None)), "chat", 0, "n1")
    told = next(check for check in on(why, "n1").checks or () if check.constraint == "memory")
    assert (told.passes, told.has) == (True, None)
    assert "unknown" in told.message


def test_a_later_profile_is_not_taken_while_an_earlier_one_has_a_place() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile("first"), profile("second"))))
    why = asked(wanted, fleet(node("n1"), node("n2")))
    later = [one.compared for one in why.nodes if one.profile == "second"]
    assert later == ["profile first comes first"] * 2


def test_a_service_without_replicas_has_no_subject() -> None:
    why = asked(catalog(service(replicas=0)), fleet(node("n1")))
    assert (why.subject, why.replicas, why.nodes, why.relaxations) == (None, (), (), ())


def test_a_fleet_without_nodes_says_so() -> None:
    why = asked(catalog(service(replicas=1)), fleet())
    assert why.replicas[0].reason == "finds no nodes in the inventory"


@pytest.mark.parametrize(("name", "number"), [("none", None), ("chat", 7)])
def test_a_name_that_there_is_not_is_a_key_error(name: str, number: int | None) -> None:
    with pytest.raises(KeyError):
        asked(catalog(service(replicas=1)), fleet(node("n1")), name, number)


def test_a_lost_node_says_that_it_is_lost() -> None:
    why = asked(catalog(service(replicas=1)), fleet(node("n1", state=NodeState.LOST)))
    assert [check.message for check in on(why, "n1").failing] == ["is lost"]
    assert why.relaxations == ()

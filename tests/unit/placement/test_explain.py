# SPDX-License-Identifier: Apache-2.0
"""Why replicas are where they are, node by node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.replica import Catalog
from llmgw.model.why import NodeWhy, Why, WhyState
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from llmgw.placement.why.explain import explain
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
    assert why.replicas[0].reason == "has to leave n1 (n1 is drained), goes on there, and fits nowhere else"
    assert [one.sentence for one in why.relaxations] == ["end the drain of n1"]


def test_who_gave_way_is_told_with_whom_for() -> None:
    low = service("low", 1, (profile("low", classes=(H200,), gpus=2),), priority=0)
    high = service("high", 1, (profile("high", classes=(H200,), gpus=2),), priority=9)
    world = World(fleet(node("n1", gpus=2)))
    world.apply(catalog(low))
    why = asked(catalog(low, high), world.fleet, "low")
    assert why.replicas[0].reason == "gave way to high/0 and fits nowhere else"
    told = asked(catalog(low, high), world.fleet, "high").replicas[0]
    assert told.reason == "goes to n1; low/0 gave way"


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
    assert topology.message == "how its devices are joined is unknown: they are taken by index"


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

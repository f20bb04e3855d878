# SPDX-License-Identifier: Apache-2.0
"""Priorities: what matters more takes the place of what matters less, only when it must, and the plan says so (P8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.ids import DeviceClass
from llmgw.model.node import NodeState
from llmgw.model.placement import Assignment
from llmgw.model.plan import ActionKind
from llmgw.model.replica import Catalog, ServiceSpec
from llmgw.nodekit import contract
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, profile
from tests.support.joined_machines import Machine, busy
from tests.support.placement_fleets import H100, L40S, Site, cards_for, changed, done, of, removed, where

H200 = "h200-141g"


def small(name: str = "batch", replicas: int = 2, priority: int = 0, gpus: int = 1) -> ServiceSpec:
    return of(name, cards_for(gpus), replicas, priority=priority)


def big(priority: int = 10, gpus: int = 2, name: str = "chat") -> ServiceSpec:
    return of(name, cards_for(gpus), 1, priority=priority)


def running(*services: ServiceSpec, cards: tuple[int, ...] = (2,)) -> Site:
    site = Site(*(Machine(f"n{at}", (H100,) * count) for at, count in enumerate(cards, 1)))
    assert site.apply(catalog(*services)).plan.unplaced == ()
    return site


def found(site: Site, wanted: Catalog, replica: str) -> Assignment:
    (one,) = [one for one in site.plan(wanted).placement.assignments if one.replica == replica]
    return one


def test_a_replica_of_lower_priority_gives_way_when_there_is_no_other_place() -> None:
    site = running(small())
    decision = site.plan(catalog(small(), big()))
    assert where(decision.placement) == {"chat/0": ("n1",)}
    assert [one.replica for one in decision.plan.unplaced] == ["batch/0", "batch/1"]


def test_the_plan_names_who_gives_way_to_whom_and_why() -> None:
    site = running(small())
    wanted = catalog(small(), big())
    decision = site.plan(wanted)
    assert found(site, wanted, "chat/0").preempts == ("batch/0", "batch/1")
    assert done(decision, "batch/0").kind is ActionKind.STOP
    assert done(decision, "batch/0").reasons == ("it gives way to chat/0 (priority 10 over 0)",)
    assert {one.gave_way_to for one in decision.plan.unplaced} == {"chat/0"}
    lines = plan_lines(decision.plan)
    assert "    each: it gives way to chat/0 (priority 10 over 0)" in lines
    assert "    batch/0, batch/1 gave way to chat/0" in lines


def test_nobody_gives_way_while_there_is_another_place() -> None:
    site = running(small(replicas=1), cards=(2, 2))
    decision = site.plan(catalog(small(replicas=1), big()))
    assert decision.plan.unplaced == ()
    assert changed(decision) == [("create", "chat/0")]


@pytest.mark.parametrize("priority", [0, 5])
def test_equal_priority_never_gives_way(priority: int) -> None:
    site = running(small(priority=priority))
    decision = site.plan(catalog(small(priority=priority), big(priority)))
    assert changed(decision) == []
    assert [one.replica for one in decision.plan.unplaced] == ["chat/0"]


def test_higher_priority_never_gives_way_to_lower() -> None:
    site = running(small(priority=10))
    decision = site.plan(catalog(small(priority=10), big(0)))
    assert changed(decision) == []
    assert [one.replica for one in decision.plan.unplaced] == ["chat/0"]


def test_who_gives_way_gets_another_place_where_there_is_one() -> None:
    site = Site(Machine("n1", (H100,) * 2), Machine("n2", (H100,)))
    site.world.state("n2", NodeState.UNREACHABLE)
    site.apply(catalog(small(replicas=1)))
    site.world.state("n2", NodeState.OK)
    decision = site.plan(catalog(small(replicas=1), big()))
    assert decision.plan.unplaced == ()
    assert changed(decision) == [("move", "batch/0"), ("create", "chat/0")]
    assert done(decision, "batch/0").nodes == ("n2",)
    assert done(decision, "batch/0").reasons[0] == "it gives way to chat/0 (priority 10 over 0)"


def test_no_more_give_way_than_must() -> None:
    site = running(small(replicas=4), cards=(4,))
    decision = site.plan(catalog(small(replicas=4), big(gpus=2)))
    assert [one.gave_way_to for one in decision.plan.unplaced] == ["chat/0", "chat/0"]
    assert len(where(decision.placement, "batch")) == 2


def test_the_lowest_priority_gives_way_first() -> None:
    site = running(small("low", 1, 1), small("middle", 1, 5), cards=(1, 1))
    decision = site.plan(catalog(small("low", 1, 1), small("middle", 1, 5), big(gpus=1)))
    assert changed(decision) == [("create", "chat/0"), ("stop", "low/0")]


def test_one_large_replica_gives_way_rather_than_two_small_ones() -> None:
    services = (small("pair", 1, 0, gpus=2), small("single", 2, 0))
    site = running(*services, cards=(2, 2))
    decision = site.plan(catalog(*services, big(gpus=2)))
    assert [one.replica for one in decision.plan.unplaced] == ["pair/0"]


def test_what_waits_for_a_place_is_placed_by_priority() -> None:
    site = Site(Machine("n1", (H100,)))
    decision = site.plan(catalog(small("a", 1, 0), small("b", 1, 7)))
    assert where(decision.placement) == {"b/0": ("n1",)}
    (unplaced,) = decision.plan.unplaced
    assert (unplaced.replica, unplaced.gave_way_to) == ("a/0", None)


def test_after_a_loss_what_matters_more_is_placed_again_and_what_matters_less_waits() -> None:
    services = (small("batch", 1, 0), small("chat", 1, 10))
    site = Site(Machine("n1", (H100,)), Machine("n2", (H100,)))
    site.apply(catalog(*services))
    (home,) = where(site.plan(catalog(*services)).placement, "chat").values()
    site.world.state(home[0], NodeState.LOST)
    decision = site.plan(catalog(*services))
    assert list(where(decision.placement)) == ["chat/0"]
    assert done(decision, "batch/0").reasons[0] == "it gives way to chat/0 (priority 10 over 0)"


def test_a_replica_of_several_nodes_gives_way_as_one() -> None:
    wide = of("wide", cards_for(2, nodes=2), 1)
    site = Site(*(Machine(name, (H100,) * 2, fabric="ib-a") for name in ("n1", "n2")))
    site.apply(catalog(wide))
    decision = site.plan(catalog(wide, big()))
    assert changed(decision) == [("create", "chat/0"), ("stop", "wide/0")]
    assert removed(decision) == [("n1", "llmgw-wide.0.0.service"), ("n2", "llmgw-wide.0.1.service")]


def test_a_replica_of_several_nodes_lets_lower_ones_give_way_on_all_of_them() -> None:
    low = small("low", 4)
    wide = of("wide", cards_for(2, nodes=2), 1, priority=3)
    site = Site(*(Machine(name, (H100,) * 2, fabric="ib-a") for name in ("n1", "n2")))
    site.apply(catalog(low))
    decision = site.plan(catalog(low, wide))
    assert where(decision.placement) == {"wide/0": ("n1", "n2")}
    assert found(site, catalog(low, wide), "wide/0").preempts == ("low/0", "low/1", "low/2", "low/3")


def test_what_is_on_a_node_that_does_not_answer_never_gives_way() -> None:
    site = running(small())
    site.world.state("n1", NodeState.UNREACHABLE)
    decision = site.plan(catalog(small(), big()))
    assert changed(decision) == []
    assert [one.replica for one in decision.plan.unplaced] == ["chat/0"]


def test_once_it_gave_way_nothing_more_changes() -> None:
    site = running(small(replicas=3), cards=(2, 1))
    wanted = catalog(small(replicas=3), big())
    site.apply(wanted)
    assert changed(site.plan(wanted)) == []
    assert site.plan(wanted).plan.waves == ()


def test_raising_a_priority_alone_changes_nothing_that_runs() -> None:
    site = running(small(replicas=2))
    (service,) = catalog(small()).services
    assert changed(site.plan(catalog(replace(service, priority=9)))) == []


def runs(replica: str, node: str, *cards: int, port: int = 18000) -> contract.ObservedUnit:
    """The unit of a replica of one member that runs on these cards."""
    name, _, number = replica.partition("/")
    return replace(busy(name, int(number), node, *cards), members=1, port=port)


def test_nodes_that_nobody_may_clear_do_not_hide_others_that_can_be_cleared() -> None:
    # n0 has the fewest replicas, and one that gives way; the other matters more and has the cards.
    numbers = ((0,), (1, 2), (3, 4))
    on_cpu = [[runs(f"cpu/{one}", f"n{at}", port=18001 + one) for one in ones] for at, ones in enumerate(numbers)]
    holders = ("top/0", "low/0", "low/1")
    site = Site(
        *(
            Machine(f"n{at}", (H100,) * 2, fabric="ib-a", units=(runs(replica, f"n{at}", 0, 1), *on_cpu[at]))
            for at, replica in enumerate(holders)
        )
    )
    cpu = of("cpu", profile(), 5)
    wanted = catalog(
        small("top", 1, 9, gpus=2), small("low", 2, 2, gpus=2), cpu, of("wide", cards_for(2, nodes=2), priority=5)
    )
    decision = site.plan(wanted)
    assert where(decision.placement, "wide") == {"wide/0": ("n1", "n2")}
    assert where(decision.placement, "top") == {"top/0": ("n0",)}
    assert found(site, wanted, "wide/0").preempts == ("low/0", "low/1")
    assert {one.gave_way_to for one in decision.plan.unplaced} == {"wide/0"}


def test_an_idle_node_of_another_class_is_no_partner_of_nodes_that_can_be_cleared() -> None:
    site = Site(
        Machine("n0", (H200,), fabric="ib-a"),
        Machine("n1", (L40S,), fabric="ib-a"),
        Machine("n2", (L40S,), fabric="ib-a", units=(runs("low/0", "n2", 0),)),
    )
    either = replace(cards_for(1, H200, nodes=2), devices=(DeviceClass(H200), DeviceClass(L40S)))
    wanted = catalog(of("low", cards_for(1, L40S)), of("wide", either, 1, priority=5))
    decision = site.plan(wanted)
    assert where(decision.placement) == {"wide/0": ("n1", "n2")}
    assert done(decision, "low/0").reasons == ("it gives way to wide/0 (priority 5 over 0)",)

# SPDX-License-Identifier: Apache-2.0
"""Units and cards that no plan has made: two that name one device, numbers that cannot be, members without a leader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import ServiceSpec
from llmgw.nodekit import contract
from tests.support.fleets import catalog
from tests.support.joined_machines import Machine, busy, fleet_of
from tests.support.placement_fleets import H100, Site, cards_for, cards_of, changed, done, of, placed, sentences, where


def one(name: str, replicas: int = 1, *, gpus: int = 1, priority: int = 0) -> ServiceSpec:
    return of(name, cards_for(gpus), replicas, priority=priority)


def unit(name: str, *cards: int, rank: int = 0, members: int | None = 1, port: int = 18000) -> contract.ObservedUnit:
    """The unit of a member of `NAME/0` on n1."""
    found = replace(busy(name, 0, "n1", *cards), rank=rank, members=members, port=port)
    return replace(found, name=f"llmgw-{name}.0.{rank}.service")


def with_one_uuid(cards: int) -> FleetSnapshot:
    """A node that reports each of its cards by the UUID of the first."""
    site = Site(Machine("n1", (H100,) * cards))
    return site.seen(
        lambda facts: replace(facts, gpus=tuple(replace(gpu, uuid="GPU-n1-0") for gpu in facts.gpus or ()))
    )


SHARED = Machine("n1", (H100,), units=(unit("a", 0), unit("b", 0, port=18001)))


def test_two_units_that_name_one_device_both_stay_and_the_plan_says_so() -> None:
    decision = decide(catalog(one("a"), one("b", priority=5)), fleet_of(SHARED))
    assert where(decision.placement) == {"a/0": ("n1",), "b/0": ("n1",)}
    assert all(found.kept for found in decision.placement.assignments)
    assert decision.plan.notes == ("device GPU-n1-0 of n1 is named by the units of a/0 and b/0: stop one of them",)


def test_a_device_that_two_units_name_is_not_free_when_one_of_them_gives_way() -> None:
    wanted = catalog(one("a"), one("b", priority=5), one("c", priority=5))
    decision = decide(wanted, fleet_of(SHARED))
    assert where(decision.placement) == {"a/0": ("n1",), "b/0": ("n1",)}
    assert sentences(decision.placement, "n1") == ["has 0 free of 1 h100-80g, needs 1"]


def test_a_unit_that_names_a_device_twice_has_it_once() -> None:
    machine = Machine("n1", (H100,) * 2, units=(unit("a", 0, 0),))
    found = placed(catalog(one("a", gpus=2), one("b", 2)), fleet_of(machine))
    assert where(found, "b") == {"b/0": ("n1",)}
    (new,) = [found for found in found.assignments if found.service.name == "b"]
    assert cards_of(new) == [(1,)]


def test_cards_with_one_uuid_are_one_card() -> None:
    fleet = with_one_uuid(2)
    assert sentences(placed(catalog(one("a", gpus=2)), fleet), "n1") == ["has 1 free of 2 h100-80g, needs 2"]
    found = placed(catalog(one("a", 2)), fleet)
    assert where(found) == {"a/0": ("n1",)}
    assert [one.replica for one in found.unplaced] == ["a/1"]


@pytest.mark.parametrize("members", [10**12, 3])
def test_a_unit_that_claims_members_beyond_all_nodes_misses_the_first_of_them(members: int) -> None:
    machines = [Machine(name, (H100,) * 2, fabric="ib-a") for name in ("n1", "n2")]
    machines[0] = replace(machines[0], units=(unit("a", 0, members=members),))
    decision = decide(catalog(of("a", cards_for(1, nodes=2))), fleet_of(*machines))
    assert done(decision, "a/0").reasons == ("member 1 of a/0 is gone",)
    assert where(decision.placement) == {"a/0": ("n1", "n2")}


@pytest.mark.parametrize("rank", [1, 7, 10**12])
def test_a_member_without_its_leader_is_stopped_and_the_replica_starts_anew(rank: int) -> None:
    machines = [Machine(name, (H100,) * 2, fabric="ib-a") for name in ("n1", "n2")]
    machines[0] = replace(machines[0], units=(unit("a", 0, rank=rank, members=2),))
    site = Site(*machines)
    wanted = catalog(of("a", cards_for(1, nodes=2)))
    decision = site.apply(wanted)
    assert done(decision, "a/0").reasons == ("member 0 of a/0 is gone",)
    names = [(node.name, found.name) for node in site.fleet.nodes for found in site.world.units(node.name)]
    assert names == [("n1", "llmgw-a.0.0.service"), ("n2", "llmgw-a.0.1.service")]
    assert changed(site.plan(wanted)) == []


def test_units_that_say_nothing_of_their_members_are_replicas_of_one() -> None:
    decision = decide(catalog(one("a")), fleet_of(Machine("n1", (H100,), units=(unit("a", 0, members=None),))))
    assert [found.kept for found in decision.placement.assignments] == [True]

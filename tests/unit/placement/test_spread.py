# SPDX-License-Identifier: Apache-2.0
"""Replicas spread over nodes, racks and domains: no domain gets more than its even share (C3, P1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.placement import Placement
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.joined_machines import SLICE, Machine, fleet_of
from tests.support.placement_fleets import H100, cards_for, changed, of, placed, sentences, told, where
from tests.support.world import World


def racks(**counts: int) -> FleetSnapshot:
    """So many nodes in each rack."""
    return fleet(*(node(f"{rack}{at}", labels={"rack": rack}) for rack, count in counts.items() for at in range(count)))


def by_rack(placement: Placement) -> Counter[str]:
    return Counter(nodes[0][0] for nodes in where(placement).values())


def test_replicas_are_spread_over_nodes() -> None:
    nodes = fleet(*(node(f"n{at}") for at in range(4)))
    found = placed(catalog(service(replicas=8, spread="node")), nodes)
    assert set(Counter(nodes[0] for nodes in where(found).values()).values()) == {2}


@pytest.mark.parametrize(("replicas", "share"), [(2, 1), (3, 2), (4, 2), (6, 3)])
def test_a_rack_gets_its_even_share_however_many_nodes_it_has(replicas: int, share: int) -> None:
    found = placed(catalog(service(replicas=replicas, spread="rack")), racks(a=5, b=1))
    assert max(by_rack(found).values()) == share
    assert sum(by_rack(found).values()) == replicas


def test_any_label_may_be_spread_over() -> None:
    nodes = fleet(*(node(f"n{at}", labels={"power": "left" if at < 3 else "right"}) for at in range(4)))
    found = placed(catalog(service(replicas=2, spread="power")), nodes)
    assert ("n3",) in where(found).values()


def test_a_domain_that_could_take_none_does_not_keep_the_share_small() -> None:
    nodes = fleet(
        node("a0", labels={"rack": "a"}),
        node("b0", labels={"rack": "b"}, cordoned=True),
        node("c0", labels={"rack": "c"}, memory_gb=8),
    )
    assert by_rack(placed(catalog(service(replicas=4, spread="rack")), nodes)) == {"a": 2, "c": 2}
    for picky in (profile(node_selector={"rack": "a"}), profile(min_memory_bytes=16 * GB)):
        assert by_rack(placed(catalog(service(replicas=4, profiles=(picky,), spread="rack")), nodes)) == {"a": 4}


def test_a_domain_that_could_take_some_but_is_full_keeps_its_share() -> None:
    machines = [
        Machine("a0", (H100,) * 4, labels={"rack": "a"}),
        Machine("b0", (H100,), labels={"rack": "b"}),
    ]
    found = placed(catalog(of("chat", cards_for(1), 4, spread="rack")), fleet_of(*machines))
    assert by_rack(found) == {"a": 2, "b": 1}
    assert "a has 2 of chat already, its share is 2" in sentences(found, "a0")
    (refused,) = [one for one in told(found, "a0") if one.constraint == "spread"]
    assert (refused.has, refused.needs, refused.unit) == (2, 2, "replicas")


def test_a_node_without_the_label_takes_none_and_is_told_why() -> None:
    found = placed(catalog(service(replicas=1, spread="rack")), fleet(node("n1")))
    assert sentences(found, "n1") == ["is spread by rack, the node has no such label"]


def test_a_replica_of_several_nodes_counts_once_in_a_rack() -> None:
    machines = [
        Machine(f"{rack}{at}", (H100,) * 2, fabric="ib-a", labels={"rack": rack}) for rack in "ab" for at in range(2)
    ]
    found = placed(catalog(of("wide", cards_for(2, nodes=2), 2, spread="rack")), fleet_of(*machines))
    assert sorted(where(found).values()) == [("a0", "a1"), ("b0", "b1")]


def test_the_share_grows_with_what_is_lost_and_the_lost_ones_come_back_elsewhere() -> None:
    world = World(racks(a=2, b=2, c=2))
    wanted = catalog(service(replicas=6, spread="rack"))
    world.apply(wanted)
    world.state("a0", NodeState.LOST)
    fleet_now = replace(world.fleet, nodes=tuple(one for one in world.fleet.nodes if one.name != "a1"))
    world.fleet = fleet_now
    decision = world.apply(wanted)
    assert by_rack(decision.placement) == {"b": 3, "c": 3}


def test_a_share_that_shrinks_moves_nothing() -> None:
    world = World(racks(a=2, b=2))
    wanted = catalog(service(replicas=6, spread="rack"))
    world.apply(wanted)
    world.fleet = replace(world.fleet, nodes=(*world.fleet.nodes, node("c0", labels={"rack": "c"})))
    assert changed(world.apply(wanted)) == []


@pytest.mark.parametrize("cards", [(H100,), (H100,) * 2, (SLICE,), (H100,) * 3, (H100,) * 4, (H100,) * 8])
def test_a_service_that_is_not_spread_is_on_two_nodes_before_it_is_packed(cards: tuple[str, ...]) -> None:
    machines = [Machine(name, cards) for name in ("n1", "n2")]
    found = placed(catalog(of("small", cards_for(1, cards[0]), 2)), fleet_of(*machines))
    assert where(found) == {"small/0": ("n1",), "small/1": ("n2",)}

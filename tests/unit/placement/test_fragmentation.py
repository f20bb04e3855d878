# SPDX-License-Identifier: Apache-2.0
"""Small replicas fill what is broken already and leave whole nodes, islands and domains to large ones (P10)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.replica import ServiceSpec
from llmgw.nodekit import contract
from tests.support.fleets import catalog
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import (
    EIGHT,
    GB200,
    H100,
    HALVES,
    RACK_A,
    RACK_B,
    SOCKETS,
    Site,
    cards_for,
    cards_of,
    changed,
    of,
    placed,
    where,
)


def singles(count: int, device_class: str = H100) -> list[ServiceSpec]:
    """So many services of one card."""
    return [of(f"s{at}", cards_for(1, device_class)) for at in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_small_replicas_fill_a_broken_node_before_they_break_a_whole_one(count: int) -> None:
    machines = [Machine(f"n{at}", (H100,) * 4) for at in range(3)]
    found = placed(catalog(*singles(count)), fleet_of(*machines))
    assert set(where(found).values()) == {("n0",)}


def test_a_node_with_a_card_out_is_not_whole_and_is_filled_first() -> None:
    machines = [Machine("n0", (H100,) * 4), Machine("n1", (H100,) * 4, held=(2,))]
    site = Site(*machines)
    site.apply(catalog(*singles(2)))
    decision = site.plan(catalog(*singles(2), of("big", cards_for(4))))
    assert decision.plan.unplaced == ()
    assert changed(decision) == [("create", "big/0")]


@pytest.mark.parametrize("sockets", [SOCKETS, None])
def test_small_replicas_fill_one_island_and_leave_the_other_whole(sockets: tuple[int, ...] | None) -> None:
    found = placed(catalog(*singles(4)), fleet_of(Machine("n0", (H100,) * 8, sockets, HALVES)))
    used = {cards[0] for one in found.assignments for cards in cards_of(one)}
    assert used in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_small_replicas_fill_one_socket_and_leave_the_other_whole() -> None:
    found = placed(catalog(*singles(4)), fleet_of(Machine("n0", (H100,) * 8, SOCKETS, (EIGHT,))))
    used = {cards[0] for one in found.assignments for cards in cards_of(one)}
    assert used in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_small_replicas_fill_a_broken_island_before_they_break_a_whole_one() -> None:
    pairs = ((0, 1), (2, 3), (4, 5), (6, 7))
    site = Site(Machine("n0", (H100,) * 8, SOCKETS, pairs, held=(5,)))
    decision = site.plan(catalog(*singles(1)))
    assert [cards_of(one) for one in decision.placement.assignments] == [[(4,)]]


def test_small_replicas_leave_a_whole_domain_to_a_replica_over_its_trays() -> None:
    racks = {"a0": RACK_A, "z0": RACK_A, "b0": RACK_B, "b1": RACK_B}
    site = Site(*(Machine(name, (GB200,) * 4, domain=domain) for name, domain in racks.items()))
    small = singles(6, GB200)
    site.apply(catalog(*small))
    assert set(where(site.plan(catalog(*small)).placement).values()) == {("a0",), ("z0",)}
    decision = site.plan(catalog(*small, of("rack", cards_for(4, GB200, nodes=2))))
    assert where(decision.placement, "rack") == {"rack/0": ("b0", "b1")}
    assert changed(decision) == [("create", "rack/0")]


def test_in_one_plan_large_replicas_are_placed_before_small_ones() -> None:
    machines = [Machine(f"n{at}", (H100,) * 4) for at in range(2)]
    wanted = catalog(*singles(4), of("z-big", cards_for(4)))
    found = placed(wanted, fleet_of(*machines))
    assert found.unplaced == ()


def test_a_replica_of_few_possible_nodes_is_placed_before_one_of_many() -> None:
    machines = [Machine("n0", (H100,), labels={"pool": "a"}), Machine("n1", (H100,))]
    picky = of("picky", cards_for(1, node_selector={"pool": "a"}))
    assert placed(catalog(of("any", cards_for(1)), picky), fleet_of(*machines)).unplaced == ()


def test_a_replica_that_fits_a_node_exactly_is_not_put_on_a_larger_one() -> None:
    machines = [Machine("n0", (H100,) * 8, SOCKETS, (EIGHT,)), Machine("n1", (H100,) * 4, SOCKETS[:4], (EIGHT[:4],))]
    site = Site(*machines)
    four = of("four", cards_for(4))
    site.apply(catalog(four))
    decision = site.plan(catalog(four, of("eight", cards_for(8))))
    assert where(decision.placement) == {"eight/0": ("n0",), "four/0": ("n1",)}


def test_what_does_not_run_yet_is_placed_otherwise_when_that_makes_room() -> None:
    weights = contract.Weights("smol", "/srv/models/smol.gguf", layout="gguf", complete=True)
    site = Site(Machine("n0", (H100,) * 2), Machine("n1", (H100,)))
    fleet = site.seen(lambda facts: replace(facts, weights=(weights,)), on="n0")
    dear, pair = of("dear", cards_for(1), priority=10), of("pair", cards_for(2))
    assert where(placed(catalog(dear), fleet)) == {"dear/0": ("n0",)}
    assert where(placed(catalog(dear, pair), fleet)) == {"dear/0": ("n1",), "pair/0": ("n0",)}


def test_what_runs_and_fits_is_not_moved_to_make_room() -> None:
    machines = [Machine("n0", (H100,) * 2), Machine("n1", (H100,) * 2)]
    site = Site(*machines)
    spread = of("s", cards_for(1), 2, spread="node")
    site.apply(catalog(spread))
    decision = site.plan(catalog(spread, of("big", cards_for(2))))
    assert changed(decision) == []
    assert [one.replica for one in decision.plan.unplaced] == ["big/0"]

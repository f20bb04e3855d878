# SPDX-License-Identifier: Apache-2.0
"""Which cards of a node a replica gets: NVLink first, then one NUMA node, then near the adapters of its fabric (P4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.node import Device, FleetSnapshot
from llmgw.nodekit import contract
from llmgw.placement.board import Board
from llmgw.placement.why.checks import checks
from tests.support.fleets import catalog
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import (
    EIGHT,
    GB200,
    H100,
    HALVES,
    SOCKETS,
    cards_for,
    cards_of,
    of,
    placed,
    port,
    where,
    with_ports,
)

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
ACROSS = (0, 1, 0, 1, 0, 1, 0, 1)
"""Neighbours sit on different sockets."""


def machine(
    islands: tuple[tuple[int, ...], ...] | None,
    sockets: tuple[int, ...] | None,
    *held: int,
    name: str = "n1",
    cards: int = 8,
) -> Machine:
    return Machine(name, (H100,) * cards, sockets, islands, held=held)


def chosen(fleet: FleetSnapshot, gpus: int) -> list[tuple[int, ...]]:
    (found,) = placed(catalog(of("big", cards_for(gpus))), fleet).assignments
    return cards_of(found)


@pytest.mark.parametrize("sockets", [SOCKETS, ACROSS, None], ids=["sockets", "sockets across islands", "no sockets"])
@pytest.mark.parametrize("held", [(), (0,), (1, 2), (5,), (4, 7)])
def test_a_tp4_group_stays_on_one_nvlink_island(sockets: tuple[int, ...] | None, held: tuple[int, ...]) -> None:
    (found,) = chosen(fleet_of(machine(HALVES, sockets, *held)), 4)
    assert tuple(sorted(found)) in [half for half in HALVES if not set(half) & set(held)]


def test_a_tp4_group_that_no_island_holds_takes_most_of_one() -> None:
    (found,) = chosen(fleet_of(machine(HALVES, SOCKETS, 0, 5, 6)), 4)
    assert tuple(sorted(found)) in [(1, 2, 3, 4), (1, 2, 3, 7)]


@pytest.mark.parametrize("islands", [None, (EIGHT,), ()], ids=["NVLink unknown", "one island", "no NVLink"])
@pytest.mark.parametrize("held", [0, 3, 4, 7])
def test_where_nvlink_does_not_tell_a_tp4_group_stays_on_one_numa_node(
    islands: tuple[tuple[int, ...], ...] | None, held: int
) -> None:
    (found,) = chosen(fleet_of(machine(islands, SOCKETS, held)), 4)
    assert tuple(sorted(found)) == ((4, 5, 6, 7) if held < 4 else (0, 1, 2, 3))


def test_nvlink_comes_before_one_numa_node() -> None:
    (found,) = chosen(fleet_of(machine(HALVES, ACROSS, 0)), 4)
    assert tuple(sorted(found)) == (4, 5, 6, 7)


def test_between_nodes_the_one_whose_cards_are_joined_is_taken() -> None:
    apart, joined = machine((), SOCKETS, name="a"), machine((EIGHT,), SOCKETS, name="b")
    assert where(placed(catalog(of("big", cards_for(4))), fleet_of(apart, joined))) == {"big/0": ("b",)}


def test_each_group_of_a_replica_with_two_stages_is_a_pair_of_bridged_cards() -> None:
    pairs = ((0, 4), (1, 5), (2, 6), (3, 7))
    wanted = of("big", cards_for(4, tensor_parallel=2, pipeline_parallel=2))
    (found,) = placed(catalog(wanted), fleet_of(machine(pairs, None))).assignments
    (cards,) = cards_of(found)
    assert {tuple(sorted(cards[:2])), tuple(sorted(cards[2:]))} <= set(pairs)


def test_the_placement_names_the_one_numa_node_of_the_cards() -> None:
    for held, numa in ((0, 1), (4, 0)):
        (found,) = placed(catalog(of("big", cards_for(4))), fleet_of(machine((EIGHT,), SOCKETS, held))).assignments
        assert found.leader.numa_node == numa
    (across,) = placed(catalog(of("big", cards_for(8))), fleet_of(machine((EIGHT,), SOCKETS))).assignments
    assert across.leader.numa_node is None


def near_first_adapter(device: Device) -> Device:
    near = device.index in (2, 5)
    return replace(device, nic_paths=(contract.NicPath("mlx5_0", "PIX" if near else "SYS"),))


def with_devices_near(fleet: FleetSnapshot) -> FleetSnapshot:
    nodes = [replace(node, devices=tuple(map(near_first_adapter, node.devices or ()))) for node in fleet.nodes]
    return replace(fleet, nodes=tuple(nodes))


@pytest.mark.parametrize(("sockets", "expected"), [(None, (2, 5)), (SOCKETS, (0, 2))])
def test_cards_of_members_are_near_the_adapters_of_their_fabric_where_sockets_allow(
    sockets: tuple[int, ...] | None, expected: tuple[int, ...]
) -> None:
    machines = fleet_of(*(machine((EIGHT,), sockets, name=name) for name in ("n1", "n2")))
    fleet = with_devices_near(with_ports(machines, *(port(name, 0, "ib-a") for name in ("n1", "n2"))))
    (found,) = placed(catalog(of("big", cards_for(2, nodes=2))), fleet).assignments
    assert [tuple(sorted(cards)) for cards in cards_of(found)] == [expected, expected]


def test_a_replica_on_one_node_does_not_look_at_adapters() -> None:
    machines = fleet_of(machine((EIGHT,), None))
    fleet = with_devices_near(with_ports(machines, port("n1", 0, "ib-a")))
    assert chosen(fleet, 2) == [(0, 1)]


@pytest.mark.parametrize(("gpus", "said"), [(4, True), (1, False)])
def test_where_topology_is_unknown_cards_are_taken_by_index_and_why_says_so(gpus: int, said: bool) -> None:
    fleet = fleet_of(machine(None, None, 1))
    wanted = catalog(of("big", cards_for(gpus)))
    assert chosen(fleet, gpus) == [(0, 2, 3, 4)[:gpus]]
    service, board = wanted.services[0], Board(wanted, fleet)
    told = {one.constraint: one.message for one in checks(board, service, service.profiles[0], fleet.nodes[0])}
    assert ("topology" in told) == said
    assert told.get("topology", "taken by index").endswith("taken by index")


def test_where_topology_is_known_nothing_is_said_of_it() -> None:
    fleet = fleet_of(machine((EIGHT,), None))
    wanted = catalog(of("big", cards_for(4)))
    service, board = wanted.services[0], Board(wanted, fleet)
    assert "topology" not in {one.constraint for one in checks(board, service, service.profiles[0], fleet.nodes[0])}


def test_a_node_of_known_topology_is_taken_before_one_of_unknown() -> None:
    unknown, known = machine(None, None, name="a"), machine((EIGHT,), SOCKETS, name="b")
    assert where(placed(catalog(of("big", cards_for(4))), fleet_of(unknown, known))) == {"big/0": ("b",)}


@pytest.mark.parametrize("tensor", [4, 8])
def test_of_sixteen_cards_those_that_are_joined_are_chosen(tensor: int) -> None:
    islands = tuple(tuple(range(start, start + 8)) for start in (0, 8))
    sockets = (0,) * 8 + (1,) * 8
    (found,) = chosen(fleet_of(machine(islands, sockets, 0, cards=16)), tensor)
    assert {card // 8 for card in found} == ({0} if tensor < 8 else {1})


def test_trays_whose_cards_are_joined_across_nodes_serve_alone_as_well() -> None:
    tray = Machine("t1", (GB200,) * 4, (0, 0, 1, 1), ((0, 1, 2, 3),))
    (found,) = placed(catalog(of("big", cards_for(2, GB200))), fleet_of(tray)).assignments
    assert [tuple(sorted(cards)) for cards in cards_of(found)] in ([(0, 1)], [(2, 3)])

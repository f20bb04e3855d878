# SPDX-License-Identifier: Apache-2.0
"""Choices of devices that other schedulers are known to get wrong or to refuse, each with the right answer.

The letters and numbers are those of the surveys of other fleet managers: A, B and D were measured on GPUStack's
selector; 23 to 29 are what users of several schedulers reported.
"""

from __future__ import annotations

import pytest

from llmgw.model.placement import Assignment, Placement
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from tests.support.fleets import catalog, profile, service
from tests.support.joined_machines import SLICE, Machine, busy, fleet_of
from tests.support.world import World

EIGHT = tuple(range(8))
PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))
SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)
L40S, A100, H100, GB200 = "l40s-45g", "a100-80g", "h100-80g", "gb200-186g"
RACK_A, RACK_B = "5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003", "9b31e7d0-22aa-4f6b-8a10-77c0d5e1b204"


def shape(gpus: int, device_class: str = H100, *, pp: int = 1, nodes: int = 1, name: str = "big") -> ProfileSpec:
    """A profile of so many cards a node; tensor parallel over what pipeline parallelism leaves."""
    tensor = gpus * nodes // pp
    return profile(name, "vllm", (device_class,), gpus, tensor_parallel=tensor, pipeline_parallel=pp, nodes=nodes)


def one(wanted: ProfileSpec, replicas: int = 1, name: str = "big", **more: int) -> ServiceSpec:
    """A service of this profile."""
    return service(name, replicas, (wanted,), **more)


def running(count: int, device_class: str = H100) -> ServiceSpec:
    """The service of the replicas that `busy` has put on cards."""
    return service("busy", count, (profile("busy", "vllm", (device_class,), 1),))


def placed(placement: Placement, name: str = "big") -> list[Assignment]:
    """The assignments of one service."""
    return [found for found in placement.assignments if found.service.name == name]


def cards_of(found: Assignment) -> list[tuple[int, ...]]:
    """For every member the indexes of its cards, sorted."""
    return [tuple(sorted(int(uuid[-1]) for uuid in member.devices)) for member in found.members]


def occupied(name: str, *indexes: int) -> tuple[contract.ObservedUnit, ...]:
    """Units that hold these cards of a node, one each."""
    return tuple(busy("busy", number, name, index) for number, index in enumerate(indexes))


@pytest.mark.parametrize(
    ("islands", "sockets"),
    [(PAIRS, SOCKETS), (PAIRS, None), (None, (0, 0, 1, 1, 2, 2, 3, 3))],
    ids=["bridges and sockets", "bridges alone", "sockets alone"],
)
def test_a_two_cards_that_are_whole_as_a_pair_are_taken_before_two_halves(
    islands: tuple[tuple[int, ...], ...] | None, sockets: tuple[int, ...] | None
) -> None:
    fleet = fleet_of(Machine("n1", (H100,) * 8, sockets, islands, units=occupied("n1", 0, 3)))
    (found,) = placed(place(catalog(running(2), one(shape(2))), fleet).placement)
    assert cards_of(found)[0] in [(4, 5), (6, 7)]


def test_a_both_whole_pairs_serve_before_any_pair_is_mixed() -> None:
    fleet = fleet_of(Machine("n1", (H100,) * 8, SOCKETS, PAIRS, units=occupied("n1", 0, 3)))
    found = placed(place(catalog(running(2), one(shape(2), 3)), fleet).placement)
    assert sorted(cards_of(each)[0] for each in found) == [(1, 2), (4, 5), (6, 7)]


@pytest.mark.parametrize("islands", [(EIGHT,), None, ()], ids=["NVSwitch", "unknown", "PCIe alone"])
def test_b_four_cards_stay_on_the_socket_that_is_free(islands: tuple[tuple[int, ...], ...] | None) -> None:
    fleet = fleet_of(Machine("n1", (H100,) * 8, SOCKETS, islands, units=occupied("n1", 0, 1, 2)))
    (found,) = placed(place(catalog(running(3), one(shape(4))), fleet).placement)
    assert cards_of(found) == [(4, 5, 6, 7)]
    assert found.leader.numa_node == 1


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 5), (7, 2)])
def test_d_two_nodes_with_a_busy_card_each_serve_four_and_four(first: int, second: int) -> None:
    machines = [
        Machine(name, (H100,) * 8, SOCKETS, (EIGHT,), "ib-a", units=(busy("busy", number, name, index),))
        for number, (name, index) in enumerate((("n1", first), ("n2", second)))
    ]
    (found,) = placed(place(catalog(running(2), one(shape(4, pp=2, nodes=2))), fleet_of(*machines)).placement)
    whole = [(4, 5, 6, 7) if index < 4 else (0, 1, 2, 3) for index in (first, second)]
    assert [member.node for member in found.members] == ["n1", "n2"]
    assert cards_of(found) == whole
    assert {member.fabric for member in found.members} == {"ib-a"}


def test_23_three_stages_of_one_card_serve_on_one_node_and_on_three() -> None:
    together = fleet_of(Machine("n1", (H100,) * 4, units=occupied("n1", 1)))
    (found,) = placed(place(catalog(running(1), one(shape(3, pp=3))), together).placement)
    assert cards_of(found) == [(0, 2, 3)]
    apart = fleet_of(*(Machine(f"n{number}", (H100,) * 2, fabric="ib-a", held=(0,)) for number in range(3)))
    (found,) = placed(place(catalog(one(shape(1, pp=3, nodes=3))), apart).placement)
    assert [member.node for member in found.members] == ["n0", "n1", "n2"]
    assert cards_of(found) == [(1,), (1,), (1,)]


def test_23_two_cards_of_each_of_two_nodes_serve_together_though_others_are_busy() -> None:
    machines = [
        Machine(f"n{at}", (H100,) * 4, fabric="ib-a", units=(busy("busy", at, f"n{at}", 3 * at),)) for at in (0, 1)
    ]
    (found,) = placed(place(catalog(running(2), one(shape(2, pp=2, nodes=2))), fleet_of(*machines)).placement)
    assert [len(cards) for cards in cards_of(found)] == [2, 2]
    assert all(3 * at not in cards for at, cards in enumerate(cards_of(found)))


def test_24_six_replicas_need_six_times_what_one_needs() -> None:
    fleet = fleet_of(Machine("n1", (H100,) * 8), Machine("n2", (H100,) * 2))
    placement = place(catalog(one(shape(2), 6)), fleet).placement
    assert (len(placed(placement)), len(placement.unplaced)) == (5, 1)


def test_25_two_services_of_two_cards_share_a_node_of_four() -> None:
    fleet = fleet_of(Machine("n1", (H100,) * 4))
    wanted = catalog(one(shape(2, name="p1"), name="one"), one(shape(2, name="p2"), name="two"))
    placement = place(wanted, fleet).placement
    used = [index for found in placement.assignments for cards in cards_of(found) for index in cards]
    assert sorted(used) == [0, 1, 2, 3]


def test_25_two_services_get_cards_of_two_classes_on_one_node() -> None:
    fleet = fleet_of(Machine("n1", (L40S, A100, L40S, A100)))
    wanted = catalog(one(shape(2, L40S, name="p1"), name="one"), one(shape(2, A100, name="p2"), name="two"))
    found = {each.service.name: cards_of(each) for each in place(wanted, fleet).placement.assignments}
    assert found == {"one": [(0, 2)], "two": [(1, 3)]}


def test_26_small_replicas_leave_whole_nodes_for_large_ones() -> None:
    small = [one(shape(1, name=f"p{at}"), name=f"s{at}") for at in range(6)]
    world = World(fleet_of(*(Machine(f"n{at}", (H100,) * 4) for at in range(4))))
    world.apply(catalog(*small))
    decision = world.apply(catalog(*small, one(shape(4), 2)))
    assert decision.plan.unplaced == ()
    assert decision.plan.moves == 0


def test_26_small_replicas_leave_one_of_two_domains_whole() -> None:
    small = [one(shape(1, GB200, name=f"p{at}"), name=f"s{at}") for at in range(4)]
    trays = [
        Machine(f"{rack}{at}", (GB200,) * 4, domain=domain)
        for rack, domain in (("a", RACK_A), ("b", RACK_B))
        for at in (1, 2)
    ]
    world = World(fleet_of(*trays))
    world.apply(catalog(*small))
    decision = world.apply(catalog(*small, one(shape(4, GB200, pp=2, nodes=2))))
    assert decision.plan.unplaced == ()
    assert decision.plan.moves == 0


def test_27_a_group_is_of_one_class_where_a_node_has_two() -> None:
    mixed = profile("big", "vllm", (A100, L40S), 2, tensor_parallel=2)
    fleet = fleet_of(Machine("n1", (A100, L40S, A100, L40S)), Machine("n2", (A100, L40S)))
    placement = place(catalog(one(mixed, 3)), fleet).placement
    assert sorted(cards_of(each)[0] for each in placed(placement)) == [(0, 2), (1, 3)]
    (told,) = [rejection for rejection in placement.unplaced[0].rejections if rejection.node == "n2"]
    assert (told.constraint, told.has, told.needs) == ("devices", 1, 2)


def test_27_mig_instances_beside_whole_cards_serve_alone() -> None:
    fleet = fleet_of(Machine("n1", (A100, SLICE, A100)))
    wanted = catalog(one(shape(2, A100)), one(profile("slice", "vllm", (SLICE,), 1), 2, "slice"))
    placement = place(wanted, fleet).placement
    assert [cards_of(each) for each in placed(placement)] == [[(0, 2)]]
    assert sorted(each.leader.devices[0] for each in placed(placement, "slice")) == ["MIG-n1-1-0", "MIG-n1-1-1"]


def test_28_eight_free_cards_in_two_domains_are_not_eight_in_one() -> None:
    wanted = catalog(one(shape(4, GB200, pp=2, nodes=2)))
    apart = fleet_of(Machine("a1", (GB200,) * 4, domain=RACK_A), Machine("b1", (GB200,) * 4, domain=RACK_B))
    (missing,) = place(wanted, apart).placement.unplaced
    assert {rejection.node for rejection in missing.rejections} == {"a1", "b1"}
    names = ("a1", "a2", "b1")
    one_more = fleet_of(
        *(Machine(name, (GB200,) * 4, domain=RACK_A if name < "b" else RACK_B, fabric="ib-a") for name in names)
    )
    (found,) = placed(place(wanted, one_more).placement)
    assert [member.node for member in found.members] == ["a1", "a2"]
    assert {member.domain for member in found.members} == {"5f2c01aa.2"}


def test_28_a_domain_member_that_is_not_ready_serves_with_nobody() -> None:
    trays = [Machine(f"a{at}", (GB200,) * 4, domain=RACK_A, ready=at != 1) for at in (1, 2, 3)]
    (found,) = placed(place(catalog(one(shape(4, GB200, pp=2, nodes=2))), fleet_of(*trays)).placement)
    assert [member.node for member in found.members] == ["a2", "a3"]


def test_28_two_cards_on_one_socket_are_taken_before_two_on_two() -> None:
    fleet = fleet_of(
        Machine("n1", (L40S,) * 4, (0, 0, 1, 1), (), held=(0, 3)),
        Machine("n2", (L40S,) * 4, (0, 0, 1, 1), (), held=(0,)),
    )
    (found,) = placed(place(catalog(one(shape(2, L40S))), fleet).placement)
    assert found.leader.node == "n2"
    assert cards_of(found) == [(2, 3)]


def test_29_nodes_whose_domain_is_unknown_are_in_none() -> None:
    wanted = catalog(one(shape(4, GB200, pp=2, nodes=2)))
    unknown = [Machine(f"n{at}", (GB200,) * 4) for at in (1, 2)]
    assert len(place(wanted, fleet_of(*unknown)).placement.unplaced) == 1
    known = [Machine(f"t{at}", (GB200,) * 4, domain=RACK_A) for at in (1, 2)]
    (found,) = placed(place(wanted, fleet_of(*unknown, *known)).placement)
    assert [member.node for member in found.members] == ["t1", "t2"]

# SPDX-License-Identifier: Apache-2.0
"""Replicas over several nodes: a domain first, then one confirmed fabric, and nothing else joins them (P5, D7, D9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.model.fabric import Verdict
from llmgw.model.ids import DeviceClass
from llmgw.model.node import NodeState
from llmgw.model.placement import Assignment
from llmgw.model.plan import StartMembers, StopMembers
from llmgw.nodekit import contract
from tests.support.fleets import catalog
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import (
    GB200,
    H100,
    RACK_A,
    RACK_B,
    Site,
    cards_for,
    cards_of,
    changed,
    done,
    nodes_of,
    of,
    placed,
    port,
    removed,
    sentences,
    told,
    where,
    with_cards,
    with_ports,
)

WIDE = of("wide", cards_for(4, nodes=2))
RACK = of("rack", cards_for(4, GB200, nodes=2))


def nodes(*names: str, fabric: str | None = "ib-a", cards: int = 4, device_class: str = H100) -> list[Machine]:
    return [Machine(name, (device_class,) * cards, fabric=fabric) for name in names]


def trays(*names: str, domain: str = RACK_A, fabric: str | None = "ib-a", held: tuple[int, ...] = ()) -> list[Machine]:
    return [Machine(name, (GB200,) * 4, fabric=fabric, domain=domain, held=held) for name in names]


def the(assignments: tuple[Assignment, ...]) -> Assignment:
    (found,) = assignments
    return found


def test_members_are_in_one_domain_before_they_are_in_one_fabric() -> None:
    machines = [*nodes("a1", "a2", device_class=GB200), *trays("t1", "t2")]
    found = the(placed(catalog(RACK), fleet_of(*machines)).assignments)
    assert nodes_of(found) == ("t1", "t2")
    assert {member.domain for member in found.members} == {"5f2c01aa.2"}


def test_where_no_domain_has_room_one_fabric_joins_the_members() -> None:
    machines = [*trays("t1", domain=RACK_A), *trays("t2", domain=RACK_B), *trays("t3", domain=RACK_B, held=(0,))]
    found = the(placed(catalog(RACK), fleet_of(*machines)).assignments)
    assert nodes_of(found) == ("t1", "t2")
    assert {(member.domain, member.fabric) for member in found.members} == {(None, "ib-a")}


def test_members_in_a_domain_are_told_of_the_fabric_they_share_as_well() -> None:
    found = the(placed(catalog(RACK), fleet_of(*trays("t1", "t2"))).assignments)
    assert {member.fabric for member in found.members} == {"ib-a"}
    assert [member.hcas for member in found.members] == [("mlx5_0:1", "mlx5_1:1")] * 2


def imex_down(facts: contract.NodeFacts) -> contract.NodeFacts:
    return replace(facts, imex=replace(facts.imex, domain_state="DOWN") if facts.imex else None)


def imex_unknown(facts: contract.NodeFacts) -> contract.NodeFacts:
    return replace(facts, imex=None)


def imex_alone(facts: contract.NodeFacts) -> contract.NodeFacts:
    return replace(facts, imex=contract.Imex(active=True, domain_state="UP", nodes=(contract.ImexNode("t2", "READY"),)))


def one_card_out(facts: contract.NodeFacts) -> contract.NodeFacts:
    fabric = contract.GpuFabric("Completed", "Success", RACK_A, 2, "Unhealthy")
    return with_cards(facts, lambda gpu: gpu if gpu.index else replace(gpu, fabric=fabric))


def another_clique(facts: contract.NodeFacts) -> contract.NodeFacts:
    fabric = contract.GpuFabric("Completed", "Success", RACK_A, 3, "Healthy")
    return with_cards(facts, lambda gpu: replace(gpu, fabric=fabric))


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (imex_down, "IMEX is DOWN"),
        (imex_unknown, "whether IMEX is up is not known"),
        (imex_alone, "lacks"),
        (one_card_out, "1 of 4 cards not joined"),
        (another_clique, "is in no ready NVLink domain"),
    ],
)
def test_a_tray_that_is_not_ready_is_never_in_a_group(
    look: Callable[[contract.NodeFacts], contract.NodeFacts], why: str
) -> None:
    site = Site(*trays("t1", "t2", "t3", fabric=None))
    fleet = site.seen(look, on="t2")
    found = placed(catalog(replace(RACK, replicas=2)), fleet)
    assert where(found) == {"rack/0": ("t1", "t3")}
    assert any(why in one.message for one in told(found, "t2"))
    two = replace(fleet, nodes=tuple(node for node in fleet.nodes if node.name != "t3"))
    assert where(placed(catalog(RACK), two)) == {}


def test_a_tray_that_is_not_ready_still_serves_alone() -> None:
    fleet = Site(*trays("t1", "t2")).seen(imex_down, on="t2")
    found = placed(catalog(of("one", cards_for(4, GB200), 2)), fleet)
    assert sorted(where(found).values()) == [("t1",), ("t2",)]


def test_adapters_of_another_fabric_are_never_among_a_members_hcas() -> None:
    ports = [port(name, index, f"ib-{'ab'[index % 2]}") for name in ("n1", "n2") for index in range(6)]
    found = the(placed(catalog(WIDE), with_ports(fleet_of(*nodes("n1", "n2")), *ports)).assignments)
    assert {member.fabric for member in found.members} == {"ib-a"}
    assert [member.hcas for member in found.members] == [("mlx5_0:1", "mlx5_2:1", "mlx5_4:1")] * 2


def test_only_confirmed_ports_are_among_a_members_hcas() -> None:
    doubts = (Verdict.CONFIRMED, Verdict.UNVERIFIED, Verdict.CONTRADICTED, Verdict.EXCLUDED)
    ports = [port(name, index, "ib-a", verdict) for name in ("n1", "n2") for index, verdict in enumerate(doubts)]
    found = the(placed(catalog(WIDE), with_ports(fleet_of(*nodes("n1", "n2")), *ports)).assignments)
    assert [member.hcas for member in found.members] == [("mlx5_0:1",)] * 2


def test_two_fabrics_join_nobody_with_one_another() -> None:
    machines = [*nodes("n1", "n3"), *nodes("n2", fabric="ib-b")]
    assert where(placed(catalog(WIDE), fleet_of(*machines))) == {"wide/0": ("n1", "n3")}
    found = placed(catalog(WIDE), fleet_of(*nodes("n1"), *nodes("n2", fabric="ib-b")))
    assert where(found) == {}
    assert {one.constraint for one in told(found, "n2")} == {"fabric"}


@pytest.mark.parametrize("verdict", [Verdict.UNVERIFIED, Verdict.CONTRADICTED, Verdict.UNDECLARED, Verdict.EXCLUDED])
@pytest.mark.parametrize("doubtful", [("n1", "n2"), ("n2",)])
def test_a_fabric_that_is_not_confirmed_joins_nobody(verdict: Verdict, doubtful: tuple[str, ...]) -> None:
    ports = [
        port(name, index, "ib-a", verdict if name in doubtful else Verdict.CONFIRMED)
        for name in ("n1", "n2")
        for index in range(2)
    ]
    found = placed(catalog(WIDE), with_ports(fleet_of(*nodes("n1", "n2")), *ports))
    assert where(found) == {}
    assert {one.constraint for one in told(found, "n2")} == {"fabric"}


def test_nodes_that_are_told_to_be_in_a_fabric_without_proof_are_refused_with_what_is_known() -> None:
    site = Site(*nodes("n1", "n2"))
    fleet = site.seen(lambda facts: replace(facts, rdma_ports=tuple(map(unproved, facts.rdma_ports or ()))))
    found = placed(catalog(WIDE), fleet)
    assert where(found) == {}
    (sentence,) = sentences(found, "n1")
    assert sentence.startswith("n1 has no confirmed port: mlx5_0:1 is unverified")


def unproved(one: contract.RdmaPort) -> contract.RdmaPort:
    return replace(one, sm_guids=None)


def test_ports_that_are_unknown_join_nobody() -> None:
    fleet = Site(*nodes("n1", "n2")).seen(lambda facts: replace(facts, rdma_ports=None))
    found = placed(catalog(WIDE), fleet)
    assert sentences(found, "n1") == ["n1 has adapters that are unknown"]


def test_members_have_equally_many_devices_of_one_class() -> None:
    machines = [*nodes("n1", device_class="h200-141g"), *nodes("n2", "n4"), *nodes("n3", cards=3)]
    both = replace(WIDE.profiles[0], devices=(DeviceClass("h200-141g"), DeviceClass(H100)))
    found = the(placed(catalog(replace(WIDE, profiles=(both,))), fleet_of(*machines)).assignments)
    assert nodes_of(found) == ("n2", "n4")
    assert [len(cards) for cards in cards_of(found)] == [4, 4]


def test_members_run_one_version_of_the_engine() -> None:
    site = Site(*nodes("n1", "n2", "n3"))
    fleet = site.seen(lambda facts: replace(facts, engines=tuple(map(newer, facts.engines or ()))), on="n2")
    assert where(placed(catalog(WIDE), fleet)) == {"wide/0": ("n1", "n3")}
    two = replace(fleet, nodes=fleet.nodes[:2])
    found = placed(catalog(WIDE), two)
    assert where(found) == {}
    assert told(found, "n1")
    assert told(found, "n2")


def newer(engine: contract.Engine) -> contract.Engine:
    return replace(engine, version="1.1")


def test_any_subset_of_the_free_cards_of_a_node_may_serve() -> None:
    machines = [
        Machine("n1", (H100,) * 8, fabric="ib-a", held=(0, 3)),
        Machine("n2", (H100,) * 8, fabric="ib-a", held=(1, 6, 7)),
    ]
    found = the(placed(catalog(of("wide", cards_for(5, nodes=2))), fleet_of(*machines)).assignments)
    used = [set(cards) for cards in cards_of(found)]
    assert [len(cards) for cards in used] == [5, 5]
    assert not used[0] & {0, 3}
    assert not used[1] & {1, 6, 7}


def test_nodes_on_other_rails_of_an_unjoined_fabric_are_no_group() -> None:
    rails = {"n1": (0, 1), "n2": (2, 3), "n3": (0, 1)}
    ports = [port(name, index, "ib-a", rail=rail) for name, both in rails.items() for index, rail in enumerate(both)]
    found = placed(catalog(replace(WIDE, replicas=2)), with_ports(fleet_of(*nodes("n1", "n2", "n3")), *ports))
    assert where(found) == {"wide/0": ("n1", "n3")}


def test_too_few_nodes_with_room_are_counted() -> None:
    found = placed(catalog(WIDE), fleet_of(*nodes("n1"), *nodes("n2", "n3", cards=2)))
    assert "fabric ib-a has 1 of 3 nodes with room for a member, needs 2" in sentences(found, "n1")
    (refused,) = [one for one in told(found, "n1") if one.constraint == "partners"]
    assert (refused.has, refused.needs, refused.unit) == (1, 2, "nodes")


def test_a_leader_gets_two_ports_in_a_row_and_nobody_else_gets_its_second() -> None:
    wanted = catalog(of("wide", cards_for(2, nodes=2), 2), of("tiny", cards_for(1), 4))
    found = placed(wanted, fleet_of(*nodes("n1", "n2", cards=8)))
    used = [
        number
        for one in found.assignments
        for member in one.members
        for number in range(member.port, member.port + (2 if len(one.members) > 1 and not member.rank else 1))
        if member.node == "n1"
    ]
    assert {one.leader.node for one in found.assignments if one.service.name == "wide"} == {"n1"}
    assert ("n1",) in where(found, "tiny").values()
    assert len(used) == len(set(used))


def test_a_member_skips_ports_whose_next_ones_somebody_listens_on() -> None:
    site = Site(*nodes("n1", "n2"))
    fleet = site.seen(lambda facts: replace(facts, system=contract.System(listening_ports=(18001, 18004))))
    found = the(placed(catalog(WIDE), fleet).assignments)
    assert [member.port for member in found.members] == [18005, 18005]


@pytest.mark.parametrize("victim", ["n1", "n2"])
def test_losing_one_member_moves_the_replica_as_one(victim: str) -> None:
    site = Site(*nodes("n1", "n2", "n3"))
    wanted = catalog(WIDE)
    site.apply(wanted)
    (used,) = where(placed(wanted, site.fleet)).values()
    assert used == ("n1", "n2")
    site.world.state(victim, NodeState.LOST)
    decision = site.plan(wanted)
    stays = ({"n1", "n2"} - {victim}).pop()
    assert changed(decision) == [("move", "wide/0")]
    assert set(done(decision, "wide/0").nodes) == {stays, "n3"}
    assert done(decision, "wide/0").from_nodes == ("n1", "n2")
    assert done(decision, "wide/0").reasons[0] == f"{victim} is lost"


def test_a_member_that_gets_another_rank_leaves_its_old_unit_before_the_new_one_starts() -> None:
    site = Site(*nodes("n1", "n2", "n3"))
    wanted = catalog(WIDE)
    site.apply(wanted)
    site.world.state("n1", NodeState.LOST)
    decision = site.plan(wanted)
    assert removed(decision) == [("n2", "llmgw-wide.0.1.service")]
    steps = [type(step) for wave in decision.plan.waves for step in wave.steps]
    assert steps.index(StopMembers) < steps.index(StartMembers)


def test_all_old_units_of_a_replica_go_when_a_member_must_leave() -> None:
    site = Site(*nodes("n1", "n2"), *nodes("n3", "n4", fabric="ib-b"))
    wanted = catalog(WIDE)
    site.apply(wanted)
    decision = site.plan(wanted, site.seen(on="n2", variables={"llmgw_drained": True}))
    assert done(decision, "wide/0").nodes == ("n3", "n4")
    assert removed(decision) == [("n1", "llmgw-wide.0.0.service"), ("n2", "llmgw-wide.0.1.service")]


def test_a_member_whose_unit_is_gone_takes_the_others_with_it() -> None:
    site = Site(*nodes("n1", "n2"))
    wanted = catalog(WIDE)
    site.apply(wanted)
    decision = site.plan(wanted, site.seen(lambda facts: replace(facts, units=()), on="n2"))
    assert done(decision, "wide/0").reasons[0] == "member 1 of wide/0 is gone"
    started = {unit.node for wave in decision.plan.waves for step in wave.steps for unit in getattr(step, "units", ())}
    assert started == {"n1", "n2"}


def test_what_holds_for_every_member_is_said_once() -> None:
    site = Site(*nodes("n1", "n2"))
    wanted = catalog(WIDE)
    site.apply(wanted)
    for rank in (0, 1):
        site.world.change(f"llmgw-wide.0.{rank}.service", lambda unit: replace(unit, actual_text_digest="sha256:old"))
    (action,) = [one for one in site.plan(wanted).plan.actions if one.replica == "wide/0"]
    assert action.reasons == ("only the text of its unit changes, it goes on running",)

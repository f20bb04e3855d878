# SPDX-License-Identifier: Apache-2.0
"""inventory/showcase: what llmgw makes of a large mixed fleet, as a golden plan and by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.apply.inputs import Inputs
from llmgw.decide import Decision, decide
from llmgw.model.ids import ReplicaId
from llmgw.model.node import Device, Node
from llmgw.model.placement import Assignment, Member, Unplaced
from llmgw.placement.assign import Outcome
from llmgw.placement.board import Board
from llmgw.plan.text import plan_lines, wave_lines
from tests.support import golden
from tests.support.showcase import rack
from tests.support.world import World

FIXTURES = Path(__file__).parents[2] / "fixtures/showcase/plan"


@pytest.fixture
def placed(outcome: Outcome) -> dict[str, Assignment]:
    return {one.replica: one for one in outcome.placement.assignments}


@pytest.fixture
def unplaced(outcome: Outcome) -> dict[str, Unplaced]:
    return {one.replica: one for one in outcome.placement.unplaced}


@pytest.fixture
def board(inputs: Inputs) -> Board:
    """A board on which nothing is promised to anybody."""
    return Board(inputs.catalog, inputs.fleet)


def of(placed: dict[str, Assignment], service: str) -> list[Assignment]:
    return [one for replica, one in placed.items() if replica.rpartition("/")[0] == service]


def new(placed: dict[str, Assignment]) -> list[Assignment]:
    return [one for one in placed.values() if not one.kept]


def node_of(inputs: Inputs, name: str) -> Node:
    return next(node for node in inputs.fleet.nodes if node.name == name)


def devices_of(inputs: Inputs, member: Member) -> list[Device]:
    by_uuid = {device.uuid: device for device in node_of(inputs, member.node).devices or ()}
    return [by_uuid[uuid] for uuid in member.devices]


def names(assignments: Iterable[Assignment]) -> list[str]:
    return sorted(member.node for one in assignments for member in one.members)


def said(board: Board, service: str, node: str) -> list[str]:
    """The sentences of everything that keeps a service from a node on which nothing else is."""
    wanted = next(one for one in board.catalog.services if one.name == service)
    where = next(one for one in board.fleet.nodes if one.name == node)
    return [rejection.message for profile in wanted.profiles for rejection in board.rejections(wanted, profile, where)]


def test_the_plan_is_the_golden_one(inputs: Inputs, decision: Decision, *, update_golden: bool) -> None:
    assert inputs.problems == ()
    lines = [*plan_lines(decision.plan, every_action=True), "", *wave_lines(decision.plan)]
    golden.compare(FIXTURES, {"plan.txt": "\n".join(lines).rstrip() + "\n"}, update=update_golden)


def test_most_of_it_stays_where_it_is(decision: Decision) -> None:
    kinds = [action.kind.value for action in decision.plan.actions]
    assert kinds.count("keep") >= 40
    assert 5 <= kinds.count("create") <= 20
    assert {"create", "keep", "move", "start", "stop", "update"} <= set(kinds)


def test_carried_out_it_leaves_nothing_to_do(inputs: Inputs) -> None:
    world = World(inputs.fleet)
    world.apply(inputs.catalog)
    assert decide(inputs.catalog, world.fleet).plan.waves == ()


def test_the_order_of_nodes_and_services_changes_nothing(inputs: Inputs, decision: Decision) -> None:
    turned = replace(inputs.fleet, nodes=tuple(reversed(inputs.fleet.nodes)))
    assert plan_lines(decide(inputs.catalog, turned).plan) == plan_lines(decision.plan)


def test_only_one_port_is_contradicted_and_ethernet_stays_unverified(inputs: Inputs) -> None:
    verdicts = {
        (fabric.name, port.verdict.value, f"{port.node} {port.device}")
        for fabric in inputs.fleet.fabrics
        for member in fabric.members
        for port in member.ports
    }
    assert {fabric.name for fabric in inputs.fleet.fabrics if fabric.declared} == {"ib-a", "ib-b", "ib-c", "roce-1"}
    assert [entry for entry in verdicts if entry[1] == "contradicted"] == [("ib-a", "contradicted", "h100-a3 mlx5_3")]
    assert {name for name, verdict, _port in verdicts if verdict == "unverified"} == {"roce-1"}
    assert {name for name, verdict, _port in verdicts if verdict == "confirmed"} == {"ib-a", "ib-b", "ib-c"}


def test_the_rack_has_eighteen_trays_and_two_of_them_are_out(inputs: Inputs) -> None:
    (domain,) = inputs.fleet.domains
    assert (len(domain.members), len(domain.ready)) == (18, 16)
    assert {member.node: member.kept_out for member in domain.members if not member.ready} == {
        "gb200-07": ("IMEX is failed",),
        "gb200-12": ("1 of 4 cards not joined (card 3: In Progress)",),
    }


def test_trays_are_joined_by_their_domain_and_machines_by_their_fabric(placed: dict[str, Assignment]) -> None:
    joined = {
        replica: {(member.domain, None if member.domain else member.fabric) for member in one.members}
        for replica, one in placed.items()
        if len(one.members) > 1
    }
    rack_domain = {(f"{rack.CLUSTER[:8]}.{rack.CLIQUE}", None)}
    assert joined == {
        "deepseek-r1/0": {(None, "ib-a")},
        "deepseek-r1/1": {(None, "ib-b")},
        "deepseek-v32/0": rack_domain,
        "deepseek-v32/1": rack_domain,
        "kimi-k2/0": rack_domain,
    }


def test_members_over_infiniband_name_all_ports_of_their_fabric_and_no_other(placed: dict[str, Assignment]) -> None:
    for one in of(placed, "deepseek-r1"):
        for member in one.members:
            assert sorted(member.hcas) == [f"mlx5_{number}:1" for number in range(8)]
            assert member.socket_interface == "bond0"


def test_trays_that_are_out_take_no_part_in_anything_new_over_several(placed: dict[str, Assignment]) -> None:
    assert len(new(placed)) > 0
    spanning = [one for one in new(placed) if len(one.members) > 1]
    assert {one.service.name for one in spanning} == {"deepseek-r1", "deepseek-v32"}
    assert not {"gb200-07", "gb200-12"} & set(names(spanning))


def test_a_tray_with_a_card_that_left_the_domain_keeps_what_runs_there(placed: dict[str, Assignment]) -> None:
    (kimi,) = of(placed, "kimi-k2")
    assert kimi.kept
    assert "gb200-12" in names([kimi])


def test_the_loss_of_one_tray_takes_not_all_replicas_of_a_service_on_single_cards(
    placed: dict[str, Assignment],
) -> None:
    assert len(set(names(of(placed, "gpt-oss")))) == 2


def test_nothing_new_comes_onto_a_sick_or_held_card(inputs: Inputs, placed: dict[str, Assignment]) -> None:
    sick = {
        (node.name, device.display_name): (*device.blocked_by, *device.kept_away_by)
        for node in inputs.fleet.nodes
        for device in node.devices or ()
        if device.blocked_by or device.kept_away_by
    }
    assert {place: findings[0].code for place, findings in sick.items()} == {
        ("a100-pcie-2", "3"): "ecc-uncorrected",
        ("gb200-12", "3"): "fabric-not-joined",
        ("h100-a6", "2"): "remap-pending",
        ("l40s-2", "3"): "foreign-memory",
    }
    used = {
        (member.node, device.display_name)
        for one in new(placed)
        for member in one.members
        for device in devices_of(inputs, member)
    }
    assert not used & set(sick)


def test_the_card_that_fell_off_the_bus_costs_its_replica_alone(inputs: Inputs, placed: dict[str, Assignment]) -> None:
    assert len(node_of(inputs, "h100-b3").devices or ()) == 7
    assert {one.replica: one.kept for one in placed.values() if "h100-b3" in names([one])} == {
        "agent/1": False,
        "agent/2": True,
        "vision/1": True,
    }


def test_a_stranger_is_named_with_pid_and_memory(board: Board) -> None:
    (told,) = said(board, "translate", "l40s-2")
    assert "process 48213 (python3), which llmgw does not own, holds 22318 MiB on card 3" in told


def test_a_host_of_8_gb_is_refused_for_a_working_set_of_24(board: Board) -> None:
    for host in ("cpu-4", "cpu-5", "cpu-6"):
        (told,) = said(board, "offline", host)
        assert told.startswith("has 8 GB of memory")
        assert told.endswith(", needs 24")


def test_replicas_on_mig_have_exactly_one_instance(inputs: Inputs, placed: dict[str, Assignment]) -> None:
    found = [devices_of(inputs, member) for one in placed.values() for member in one.members]
    sliced = [devices for devices in found if any(device.mig for device in devices)]
    assert len(sliced) >= 12
    assert {len(devices) for devices in sliced} == {1}


def test_two_cards_of_a_replica_are_a_pair_that_nvlink_joins(inputs: Inputs, placed: dict[str, Assignment]) -> None:
    for one in of(placed, "mistral"):
        first, second = devices_of(inputs, one.leader)
        assert second.uuid in (first.nvlink_peers or ())


def test_without_nvlink_two_cards_of_a_replica_are_at_one_socket(inputs: Inputs, placed: dict[str, Assignment]) -> None:
    (summarise,) = of(placed, "summarise")
    assert len({device.numa_node for device in devices_of(inputs, summarise.leader)}) == 1


def test_no_replica_over_several_cards_leaves_its_socket_when_it_needs_not(
    inputs: Inputs, placed: dict[str, Assignment]
) -> None:
    (chat,) = [one for one in of(placed, "chat-70b") if not one.kept]
    assert len({device.numa_node for device in devices_of(inputs, chat.leader)}) == 1


def test_weights_that_are_there_decide_between_equal_machines(placed: dict[str, Assignment]) -> None:
    assert names(of(placed, "assistant-14b")) == ["l40s-3"]


def test_the_drained_machine_is_emptied_and_cordoned_ones_keep_what_they_have(placed: dict[str, Assignment]) -> None:
    assert "a100-pcie-3" not in names(placed.values())
    assert [one.replica for one in placed.values() if "h200-4" in names([one])] == ["qwen3-235b/1"]
    assert "gb200-13" not in names(placed.values())


def test_machines_that_do_not_answer_or_were_never_read_take_nothing_new(placed: dict[str, Assignment]) -> None:
    assert not {"l40s-5", "l40s-7"} & set(names(new(placed)))
    assert sorted(one.replica for one in placed.values() if "l40s-5" in names([one])) == ["chat-8b/4", "phi-4/2"]


def test_only_these_find_no_place(unplaced: dict[str, Unplaced]) -> None:
    assert sorted({replica.rpartition("/")[0] for replica in unplaced}) == [
        "archive",
        "batch-summaries",
        "chat-eu",
        "translate",
    ]


def test_a_label_that_no_machine_has_keeps_a_service_out(board: Board, unplaced: dict[str, Unplaced]) -> None:
    assert "chat-eu/0" in unplaced
    assert said(board, "chat-eu", "h100-b5") == ["needs label zone=eu, has zone=west"]


def test_too_little_memory_keeps_a_service_out_and_says_how_much(board: Board, unplaced: dict[str, Unplaced]) -> None:
    assert "archive/0" in unplaced
    (told,) = said(board, "archive", "cpu-3")
    assert told.startswith("has 270 GB of memory")
    assert told.endswith(", needs 600")


def test_four_free_cards_on_four_machines_are_no_machine_with_four(
    inputs: Inputs, placed: dict[str, Assignment], unplaced: dict[str, Unplaced]
) -> None:
    taken = {device for one in placed.values() for member in one.members for device in member.devices}
    free = [
        (node.name, device.uuid)
        for node in inputs.fleet.nodes
        if node.state.value == "ok"
        for device in node.devices or ()
        if device.device_class == "l40s-45g" and device.uuid not in taken
        if not device.blocked_by and not device.kept_away_by
    ]
    most = max(sum(name == other for other, _uuid in free) for name, _uuid in free)
    assert len(free) >= 4 > most
    assert "translate/0" in unplaced


def test_what_gives_way_to_a_higher_priority_says_to_whom(
    placed: dict[str, Assignment], unplaced: dict[str, Unplaced]
) -> None:
    (gone,) = [one for one in unplaced.values() if one.service == "batch-summaries"]
    assert gone.gave_way_to == ReplicaId("llama-405b/0")
    assert placed["llama-405b/0"].preempts == (gone.replica,)


def test_every_profile_has_machines_that_suit_it_but_two_that_ask_for_what_none_has(
    inputs: Inputs, board: Board
) -> None:
    hopeless = [
        profile.name
        for service in inputs.catalog.services
        for profile in service.profiles
        if not board.eligible(service, profile)
    ]
    assert hopeless == ["archive-cpu", "chat-eu"]

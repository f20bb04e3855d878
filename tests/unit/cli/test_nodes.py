# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.cli.facts_text import node_lines
from llmgw.cli.nodes_text import Sort, domain_cell, fabrics_cell, fleet_lines, has_problems
from llmgw.fleet.fabrics import judge
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fabric_fleets import OTHER_UUID, by_pci, declared, ib, linked, roce, tray
from tests.support.fleets import facts, fleet, node, with_facts
from tests.support.seen_fleets import GB, LOST, NOW, SM, full_node, usual_fleet, whole_fleet


def rows(fleet: FleetSnapshot, **more: Any) -> dict[str, str]:
    return {line.split()[0]: line for line in fleet_lines(fleet, **more) if line and not line.startswith(" ")}


def test_the_fleet_and_a_node_look_as_they_did(*, update_golden: bool) -> None:
    """What the table, its narrow form and the page of a node show, is in `nodes/`; review it when it changes."""
    snapshot = whole_fleet()
    nodes = (*snapshot.nodes, full_node())
    produced = {
        "table.txt": fleet_lines(snapshot),
        "table-100-columns.txt": fleet_lines(snapshot, width=100),
        **{f"node-{one.name}.txt": node_lines(one.name, one.facts, one, NOW, snapshot.domains) for one in nodes},
    }
    golden.compare(
        Path(__file__).parent / "nodes",
        {name: "\n".join(lines) + "\n" for name, lines in produced.items()},
        update=update_golden,
    )


def test_a_fleet_without_cards_fabrics_or_shares_is_only_its_table_and_a_count() -> None:
    assert fleet_lines(fleet(node("n1"), node("n2")))[3:] == ["", "2 nodes: 2 ok"]


def test_a_fleet_without_nodes_says_where_nodes_come_from() -> None:
    assert fleet_lines(fleet()) == ["there are no nodes: the inventory has no host in its group fleet"]


def test_nodes_are_counted_by_state_and_by_what_is_odd_about_them() -> None:
    lines = fleet_lines(whole_fleet())
    assert "7 nodes: 5 ok, 1 unreachable, 1 unseen; 1 cordoned, 1 with blocking findings" in lines
    assert "  nothing is known of unseen nodes: `llmgw facts refresh` reads them" in lines
    assert not [line for line in fleet_lines(fleet(node("n1"))) if "refresh" in line]


def test_only_nodes_with_problems_have_rows_where_that_is_asked_for() -> None:
    lines = fleet_lines(whole_fleet(), problems=True)
    assert [line.split()[0] for line in lines[1:6]] == ["a1", "a2", "away", "new", "t2"]
    assert lines[6:9:2] == ["", "7 nodes: 5 ok, 1 unreachable, 1 unseen; 1 cordoned, 1 with blocking findings"]
    assert lines[7] == "5 of 7 nodes with problems"
    assert fleet_lines(fleet(node("n1")), problems=True) == ["0 of 1 node with problems", "1 node: 1 ok"]


def test_old_facts_are_a_problem_and_a_finding_of_info_is_none() -> None:
    odd = contract.Finding("nvml-fallback", "info", "read otherwise")
    told = replace(node("n1"), findings=(odd,))
    assert [has_problems(one) for one in (told, replace(told, stale=True))] == [False, True]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_the_table_fits_the_terminal_and_nothing_is_cut(width: int) -> None:
    whole, narrow = fleet_lines(whole_fleet()), fleet_lines(whole_fleet(), width=width)
    assert max(map(len, narrow)) <= max(width, 92)
    assert sorted(" ".join(narrow).split()) == sorted(" ".join(whole).split())


def test_a_usual_fleet_fits_eighty_columns_and_its_devices_are_in_one_piece() -> None:
    for width in (80, 100):
        lines = fleet_lines(usual_fleet(), width=width)
        assert max(map(len, lines)) <= width
        assert "8 x h100-80g" in lines[1 if width == 100 else 2]
        assert any("(8 free)" in line for line in lines)


@pytest.mark.parametrize(
    ("sort", "first"), [(Sort.NAME, "a1"), (Sort.FREE, "a1"), (Sort.FINDINGS, "a1"), (Sort.AGE, "new")]
)
def test_rows_come_in_the_order_that_was_asked_for(sort: Sort, first: str) -> None:
    names = [line.split()[0] for line in fleet_lines(whole_fleet(), sort)[1:8]]
    assert names[0] == first
    expected = {
        Sort.NAME: ["a1", "a2", "away", "c1", "new", "t1", "t2"],
        Sort.FREE: ["a1", "t1", "a2", "t2", "away", "c1", "new"],
        Sort.FINDINGS: ["a1", "a2", "away", "t2", "c1", "new", "t1"],
        Sort.AGE: ["new", "a1", "a2", "away", "c1", "t1", "t2"],
    }
    assert names == expected[sort]


def test_a_machine_whose_cards_share_its_memory_says_so() -> None:
    spark = contract.Gpu(0, "GPU-s", device_class="gb10-unified", unified_memory=True)
    one = with_facts(node("s1"), replace(facts("s1"), gpus=(spark,), memory=contract.Memory(128 * GB, 100 * GB)))
    assert "100/128 GB unified" in rows(fleet(one))["s1"]


def test_units_that_are_unknown_make_what_is_free_unknown() -> None:
    blind = with_facts(node("n1"), replace(facts("n1", gpus=2), units=None))
    lines = fleet_lines(fleet(blind))
    assert "  2 x h200-141g (- free)  " in lines[1]
    assert lines[-2].split() == ["h200-141g", "2", "-", "-", "0"]


def test_one_node_with_unknown_units_is_named_and_costs_no_number_of_the_others() -> None:
    blind = with_facts(node("n1"), replace(facts("n1", gpus=2), units=None))
    lines = fleet_lines(fleet(blind, node("n2", gpus=8)))
    assert lines[-2].split() == ["h200-141g", "10", "8+", "-", "0"]
    assert lines[-1] == "  free and held leave out n1: which units run there is unknown"


def test_a_lost_card_is_in_its_nodes_row_and_in_what_the_totals_leave_out() -> None:
    known = replace(facts("n1", gpus=7), gpus=(*(facts("n1", gpus=7).gpus or ()), LOST))
    lines = fleet_lines(fleet(with_facts(node("n1"), known), *(node(f"u{at}", gpus=0) for at in range(2))))
    assert "  7 x h200-141g (7 free), 1 card out  " in lines[1]
    assert lines[-1] == "  not counted: 1 card that nothing can be placed on (n1)"
    only = with_facts(node("n1"), replace(known, gpus=(LOST,)))
    assert rows(fleet(only))["n1"].split()[2:5] == ["1", "card", "out"]


def test_nodes_whose_cards_are_unknown_are_counted_and_named_while_they_are_few() -> None:
    nodes = [with_facts(node(f"n{at}"), replace(facts(f"n{at}"), gpus=None)) for at in range(7)]
    told = "  not counted: the cards of 7 nodes, which are unknown (n0, n1, n2, n3, n4 and 2 more)"
    assert fleet_lines(fleet(*nodes))[-1] == told


def test_old_facts_and_the_time_since_a_node_was_lost_from_sight_are_in_its_state() -> None:
    old = replace(node("n1"), stale=True, facts_age_s=5.0, oldest_age_s=4 * 86400.0)
    away = replace(node("n2"), state=NodeState.UNREACHABLE, unreachable_since=280.0, stale=True)
    found = rows(fleet(old, away))
    assert found["n1"].split()[1] == "ok,stale"
    assert found["n1"].endswith("  4d"), "the oldest part counts, whatever was read since"
    assert "  unreachable 12m  " in found["n2"]
    page = node_lines("n2", away.facts, replace(away, unreachable_last=970.0), 1000.0)
    assert page[1].startswith("  state     unreachable for 12m, last tried 30s ago: it does not answer")


def test_ports_whose_state_is_unknown_are_no_ports_that_are_not_there() -> None:
    blind = ib(1, active=None, state=None)
    found = judge({"n1": (blind, ib(2, 1, active=None, state=None), ib(3, 2, active=False))}, {})
    assert fabrics_cell(found.ports["n1"]) == "infiniband 2x400 unknown"
    one = replace(with_facts(node("n1"), replace(facts("n1"), rdma_ports=(blind,))), ports=found.ports["n1"])
    assert "unknown whether engines may use it, its state" in " ".join(
        " ".join(node_lines("n1", one.facts, one)).split()
    )


def test_ports_are_counted_by_fabric_verdict_and_rate() -> None:
    nodes: dict[str, tuple[contract.RdmaPort, ...] | None] = {
        "n1": (
            ib(1, **SM),
            ib(2, 1, rate_gbps=200.0, **SM),
            ib(3, 2, rate_gbps=None),
            roce("10.8.0.1", 3),
            ib(5, 4, active=False),
        ),
        "n2": (ib(4, **SM),),
        "n3": (),
    }
    found = judge(nodes, declared(["n1", "n2"], ib_a=by_pci(2)))
    assert fabrics_cell(found.ports["n1"]) == (
        "ib-a 1x400+1x200 confirmed, infiniband 1x- undeclared, roce 1x200 undeclared"
    )
    assert fabrics_cell(found.ports["n3"]) == "none"
    assert fabrics_cell(None) == "-"


@pytest.mark.parametrize(
    ("cards", "shown"),
    [
        ((linked("00000000-0000-0000-0000-000000000000", 0),), "none"),
        ((None,), "none"),
        ((contract.GpuFabric(),), "-"),
        ((linked(), linked(OTHER_UUID)), "! broken"),
        ((), "none"),
    ],
)
def test_a_node_in_no_domain_is_told_from_one_of_which_nothing_is_known(cards: Any, shown: str) -> None:
    assert domain_cell(with_facts(node("n1"), replace(facts("n1"), **tray(*cards)))) == shown


def test_what_a_driver_told_of_nvlink_too_long_ago_is_unknown() -> None:
    one = with_facts(node("n1"), replace(facts("n1"), **tray(None)))
    assert domain_cell(replace(one, forgotten=("NVLink state",))) == "-"
    assert domain_cell(with_facts(one, replace(facts("n1"), gpus=(LOST,)))) == "-"

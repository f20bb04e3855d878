# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.nodekit import contract
from tests.support.fleet_directory import HOSTS, Called, FleetDirectory
from tests.support.fleets import facts
from tests.support.seen_fleets import ADDRESS, HOT, LOST, UNIT

Call = Callable[..., Called]


def test_the_command_shows_the_table_and_each_node_that_is_named(directory: FleetDirectory, llmgw: Call) -> None:
    directory.store("n1", facts("n1", gpus=2))
    directory.hosts(HOSTS.replace("n2: {", "n2: {llmgw_drained: true, "))
    called = llmgw("nodes", "-i", directory.path)
    assert (called.status, called.err) == (0, "")
    head, first, second, *_ = called.out.splitlines()
    assert head.split() == [
        "NODE",
        "STATE",
        "DEVICES",
        "MEM",
        "FREE",
        "DISK",
        "FREE",
        "FABRICS",
        "DOMAIN",
        "FINDINGS",
        "AGE",
    ]
    assert first.startswith("n1    ok          2 x h200-141g (2 free)")
    assert second.startswith("n2    ok,drained  none")
    full = llmgw("nodes", "n2", "n1", "n2", "-i", directory.path)
    assert [block.splitlines()[0] for block in full.out.split("\n\n")] == ["n2", "n1"]


def test_the_command_counts_nodes_as_lost_that_are_declared_so(directory: FleetDirectory, llmgw: Call) -> None:
    assert "n2    lost" in llmgw("nodes", "--lost", "n2", "-i", directory.path).out


def test_json_has_the_fleet_and_the_numbers_by_class(directory: FleetDirectory, llmgw: Call) -> None:
    directory.store("n1", facts("n1", gpus=2))
    document = json.loads(llmgw("nodes", "--json", "-i", directory.path).out)
    assert document["format_version"] == 1
    assert [one["name"] for one in document["nodes"]] == ["n1", "n2"]
    known = {"held_at_least": 0, "free_at_least": 2}
    assert document["classes"] == {"h200-141g": {"total": 2, "held": 0, "free": 2, "out": 0} | known}
    assert (document["fabrics"], document["domains"]) == ([], [])
    some = json.loads(llmgw("nodes", "n2", "--json", "-i", directory.path).out)
    assert [one["name"] for one in some["nodes"]] == ["n2"]


def test_json_tells_which_card_is_out_and_why_and_which_is_held(directory: FleetDirectory, llmgw: Call) -> None:
    taken = contract.Finding("foreign-memory", "block", "a stranger is on it", "Stop it.", "GPU-n1-1", ("process 9",))
    cards = (*(facts("n1", gpus=2).gpus or ()), LOST)
    unit = replace(UNIT, replica="chat/0", devices=("GPU-n1-0",))
    directory.store("n1", replace(facts("n1"), gpus=cards, findings=(taken,), units=(unit,)))
    directory.store("n2", replace(facts("n2", gpus=1), units=None))
    document = json.loads(llmgw("nodes", "--json", "-i", directory.path).out)
    first, second = document["nodes"]
    assert [(one["held_by"], one["kept_away_by"]) for one in first["devices"]] == [
        ("chat/0", []),
        (None, ["foreign-memory"]),
    ]
    assert [(one["name"], one["pci_address"], one["why"]) for one in first["unplaceable"]] == [
        ("5", ADDRESS, "it has no UUID")
    ]
    (finding,) = first["findings"]
    assert (finding["subject"], finding["remedy"], finding["evidence"]) == ("GPU-n1-1", "Stop it.", ["process 9"])
    assert (second["units"], document["classes"]["h200-141g"]["free"]) == (None, None)
    assert document["classes"]["h200-141g"]["held_at_least"] == 1


def test_the_command_shows_only_nodes_with_problems_as_a_table_and_as_json(
    directory: FleetDirectory, llmgw: Call
) -> None:
    directory.store("n1", replace(facts("n1"), findings=(HOT,)))
    called = llmgw("nodes", "--problems", "-i", directory.path)
    assert [line.split()[0] for line in called.out.splitlines()[1:2]] == ["n1"]
    assert "1 of 2 nodes with problems" in called.out
    document = json.loads(llmgw("nodes", "--problems", "--json", "-i", directory.path).out)
    assert [one["name"] for one in document["nodes"]] == ["n1"]
    assert llmgw("nodes", "n1", "--problems", "-i", directory.path).status == 64


def test_a_node_that_the_inventory_lacks_is_an_error_that_names_some_that_it_has(
    directory: FleetDirectory, llmgw: Call
) -> None:
    for called in (llmgw("nodes", "n9", "-i", directory.path), llmgw("nodes", "--lost", "n9", "-i", directory.path)):
        assert (called.status, called.out) == (1, "")
        assert called.err == "llmgw: the inventory has no node n9 [unknown-host]\n    fix: there are n1, n2\n"


def test_a_fabric_that_makes_no_sense_is_told_with_every_mistake_and_the_table_is_shown_without_fabrics(
    directory: FleetDirectory, llmgw: Call
) -> None:
    wrong = "llmgw_fabrics: {ib-a: {kind: ib}, ib-b: {kind: roce}}, "
    directory.hosts(HOSTS.replace("n1: {", "n1: {" + wrong))
    called = llmgw("nodes", "-i", directory.path)
    assert called.status == 0
    assert called.err.count("[inventory-value]") == 2
    assert "llmgw_fabrics of n1: ib-a.kind is 'ib'" in called.err
    assert "the fabrics are not judged" in called.err
    assert called.out.splitlines()[1].split()[:2] == ["n1", "ok"]
    shown = llmgw("facts", "show", "-i", directory.path)
    assert (shown.status, shown.out, shown.err) == (0, called.out, called.err)
    for command in ("plan", "diff"):
        refused = llmgw(command, "-i", directory.path)
        assert (refused.status, refused.out) == (1, "")
        assert refused.err.count("[inventory-value]") == 2


def test_unreadable_facts_are_told_on_stderr_and_the_table_is_shown(directory: FleetDirectory, llmgw: Call) -> None:
    (directory.facts / "n1.json").write_text("{")
    called = llmgw("nodes", "-i", directory.path)
    assert called.status == 0
    assert "n1.json: the facts are not whole JSON" in called.err
    assert called.out.splitlines()[1].split()[:2] == ["n1", "unseen"]


def test_the_width_of_the_terminal_counts_only_where_there_is_one(
    directory: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tuple(contract.Gpu(n, f"GPU-{n}", device_class=f"class-{n}-80g") for n in range(9))
    directory.store("n1", replace(facts("n1"), gpus=many))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(llmgw("nodes", "-i", directory.path).out.splitlines()[1]) > 200
    monkeypatch.setenv("COLUMNS", "100")
    assert max(map(len, llmgw("nodes", "-i", directory.path).out.splitlines())) <= 100

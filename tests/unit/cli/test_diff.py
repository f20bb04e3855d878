# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.fleet import store
from llmgw.nodekit import contract
from tests.support.fleet_directory import CATALOG, Called, FleetDirectory
from tests.support.fleets import facts

Call = Callable[..., Called]


def test_units_that_are_as_they_should_be_are_no_difference(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    assert llmgw("diff", "-i", directory.path, "--detailed-exitcode") == Called(0, "No unit differs.\n", "")


def test_a_changed_argument_is_shown_line_by_line_for_each_unit(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    directory.catalog(CATALOG.replace("devices: cpu", "devices: cpu, args: [--x]"))
    called = llmgw("diff", "-i", directory.path)
    assert (called.status, called.err) == (0, "")
    lines = called.out.splitlines()
    assert lines[:3] == [
        "! n1: llmgw-chat.0.0.service would be restarted",
        "--- llmgw-chat.0.0.service on the node",
        "+++ llmgw-chat.0.0.service by the catalog",
    ]
    assert sum(line.startswith("+ExecStart=") and line.endswith(" --x") for line in lines) == 2
    assert llmgw("diff", "-i", directory.path, "--detailed-exitcode").status == 2


def test_json_holds_every_unit_with_its_change(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied(1)
    document = json.loads(llmgw("diff", "-i", directory.path, "--json").out)
    assert document["format_version"] == 1
    assert [(one["node"], one["unit"], one["change"]) for one in document["units"]] == [
        ("n2", "llmgw-chat.1.0.service", "created")
    ]
    assert document["units"][0]["diff"][2].startswith("@@")


def test_a_declared_loss_counts_here_too(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    document = json.loads(llmgw("diff", "-i", directory.path, "--json", "--lost", "n1").out)
    assert [(one["node"], one["unit"]) for one in document["units"]] == [("n2", "llmgw-chat.0.0.service")]


def test_what_a_node_says_cannot_steer_the_terminal(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    known = store.load(directory.facts, "n1").facts
    assert known is not None
    assert known.units
    evil = replace(
        known.units[0], text="\x1b[2J\x9b1m\r\u202e\ud800", edited=True, active_state="failed", result="\x07"
    )
    finding = contract.Finding("evil", "warn", "\x1b]0;owned\x07", remedy="\ud800", subject=None)
    directory.store("n1", replace(known, units=(evil, *known.units[1:]), findings=(finding,)))
    for command in (("diff",), ("plan", "--all"), ("facts", "show"), ("facts", "show", "n1")):
        called = llmgw(*command, "-i", directory.path)
        assert called.status in {0, 3}, called.err
        assert not any(character < " " and character != "\n" for character in called.out + called.err)
    assert "-\\u001b[2J\\u009b1m" in llmgw("diff", "-i", directory.path).out


@pytest.mark.parametrize("number", ["\u00b2", "9" * 5000, "\u0663", "-1"])
def test_a_replica_without_a_number_is_no_replica(directory: FleetDirectory, llmgw: Call, number: str) -> None:
    directory.applied()
    known = store.load(directory.facts, "n1").facts
    assert known is not None
    assert known.units
    evil = replace(known.units[0], name="llmgw-evil.0.0.service", replica=f"evil/{number}")
    directory.store("n1", replace(known, units=(*known.units, evil)))
    assert llmgw("diff", "-i", directory.path) == Called(0, "No unit differs.\n", "")


def test_nodes_of_which_nothing_is_known_are_named(directory: FleetDirectory, llmgw: Call) -> None:
    for name in ("n1", "n2"):
        (directory.facts / f"{name}.json").unlink()
    assert llmgw("diff", "-i", directory.path) == Called(
        0, "Nothing is known of the units of 2 nodes (n1, n2): `llmgw facts refresh` reads them.\n", ""
    )
    for name in ("n1", "n2"):
        directory.store(name, facts(name))
    directory.applied()
    (directory.facts / "n2.json").unlink()
    (directory.facts / "previous/n2.json").unlink(missing_ok=True)
    called = llmgw("diff", "-i", directory.path)
    assert called.out.splitlines()[-1] == (
        "Nothing is known of the units of 1 node (n2): `llmgw facts refresh` reads them."
    )

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from llmgw.fleet import store
from llmgw.nodekit import contract
from tests.support.fleet_directory import CATALOG, Called, FleetDirectory
from tests.support.fleets import facts

Call = Callable[..., Called]
AGE = "The facts are less than a minute old."


def test_units_that_are_as_they_should_be_are_no_difference(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    assert llmgw("diff", "-i", directory.path, "--detailed-exitcode") == Called(0, f"No unit differs.\n{AGE}\n", "")


def test_a_changed_argument_is_shown_line_by_line_for_each_unit(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    directory.catalog(CATALOG.replace("devices: cpu", "devices: cpu, args: [--x]"))
    called = llmgw("diff", "-i", directory.path)
    assert (called.status, called.err) == (0, "")
    lines = called.out.splitlines()
    assert lines[:3] == [
        "~ n1: llmgw-chat.0.0.service would be restarted",
        "--- llmgw-chat.0.0.service on the node",
        "+++ llmgw-chat.0.0.service by the catalog",
    ]
    assert sum(line.startswith("+ExecStart=") and line.endswith(" --x") for line in lines) == 2
    assert llmgw("diff", "-i", directory.path, "--detailed-exitcode").status == 2


def test_what_comes_and_what_goes_have_signs_of_their_own(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied(1)
    assert llmgw("diff", "-i", directory.path).out.startswith("+ n2: llmgw-chat.1.0.service would be created\n")
    directory.applied()
    directory.catalog(CATALOG.replace("replicas: 2", "replicas: 1"))
    assert llmgw("diff", "-i", directory.path).out.startswith("- n2: llmgw-chat.1.0.service would be removed\n")


def test_json_holds_every_unit_with_its_change(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied(1)
    document = json.loads(llmgw("diff", "-i", directory.path, "--json").out)
    assert document["format_version"] == 2
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
    called = llmgw("diff", "-i", directory.path)
    assert called.out.splitlines()[:2] == [
        "Drift: 1 thing is not as it was last applied; an apply puts nothing of it right.",
        "! n1  extra  llmgw-evil.0.0.service names no replica",
    ]
    assert called.out.splitlines()[-2:] == ["No unit differs.", AGE]


def edited(directory: FleetDirectory) -> None:
    """Both replicas were applied; the unit on n1 was edited, and a stranger's engine runs on n2."""
    directory.applied()
    known = store.load(directory.facts, "n1").facts
    assert known is not None
    assert known.units
    directory.store("n1", replace(known, units=(replace(known.units[0], edited=True),)))
    other = store.load(directory.facts, "n2").facts
    assert other is not None
    directory.store("n2", replace(other, foreign_engines=(contract.ForeignEngine(7, "vllm"),)))


def test_drift_has_a_section_of_its_own_with_what_to_do(directory: FleetDirectory, llmgw: Call) -> None:
    edited(directory)
    lines = llmgw("diff", "-i", directory.path).out.splitlines()
    assert lines[:2] == [
        "~ n1: llmgw-chat.0.0.service would be rewritten (drift: edited)",
        "    a drop-in of it (llmgw-chat.0.0.service.d/) changes it and would be deleted",
    ]
    assert lines[lines.index("") + 1 :] == [
        "Drift: 2 things are not as they were last applied; an apply puts 1 of it right.",
        "~ n1  edited          a drop-in changes llmgw-chat.0.0.service",
        "! n2  foreign-engine  vllm (process 7) runs outside llmgw",
        "    end it, or leave its devices to it: llmgw kills nothing that it did not start",
        "",
        AGE,
    ]


def test_json_has_the_drift_with_what_to_do(directory: FleetDirectory, llmgw: Call) -> None:
    edited(directory)
    document = json.loads(llmgw("diff", "-i", directory.path, "--json").out)
    assert [(one["node"], one["kind"], one["mended"], one["replica"]) for one in document["drift"]] == [
        ("n1", "edited", True, "chat/0"),
        ("n2", "foreign-engine", False, None),
    ]
    assert document["drift"][0]["remedy"] is None
    assert document["drift"][1]["remedy"].startswith("end it")
    assert document["oldest_facts_s"] < 60


def test_drift_alone_is_a_difference_too(directory: FleetDirectory, llmgw: Call) -> None:
    edited(directory)
    only_stranger = ("diff", "-i", directory.path, "--node", "n2")
    called = llmgw(*only_stranger, "--detailed-exitcode")
    assert called.status == 2
    assert called.out.splitlines()[-2:] == ["No unit differs.", AGE]
    assert llmgw(*only_stranger).status == 0


def test_a_diff_is_narrowed_to_nodes_and_services(directory: FleetDirectory, llmgw: Call) -> None:
    edited(directory)
    directory.catalog(CATALOG.replace("devices: cpu", "devices: cpu, args: [--x]"))

    def shown(*narrowed: str) -> list[str]:
        document = json.loads(llmgw("diff", "-i", directory.path, "--json", *narrowed).out)
        return [f"{one['node']} {one['unit']}" for one in document["units"]] + [
            f"{one['node']} {one['kind']}" for one in document["drift"]
        ]

    first, second = "n1 llmgw-chat.0.0.service", "n2 llmgw-chat.1.0.service"
    assert shown() == [first, second, "n1 edited", "n2 foreign-engine"]
    assert shown("--node", "n1") == [first, "n1 edited"]
    assert shown("--node", "n1", "--node", "n2") == shown()
    assert shown("--service", "chat") == [first, second, "n1 edited"]
    assert shown("--service", "chat", "--node", "n2") == [second]


@pytest.mark.parametrize(
    ("narrowed", "says"),
    [
        (("--node", "n3"), "the inventory has no node n3"),
        (("--service", "chatt"), "neither the catalog nor any node has a service chatt"),
    ],
)
def test_what_is_not_there_is_no_empty_diff(
    directory: FleetDirectory, llmgw: Call, narrowed: tuple[str, ...], says: str
) -> None:
    called = llmgw("diff", "-i", directory.path, *narrowed)
    assert (called.status, called.out) == (1, "")
    assert says in called.err
    assert "    fix: " in called.err


def test_old_facts_are_told(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    known = store.load(directory.facts, "n2").facts
    assert known is not None
    store.save(directory.facts, "n2", replace(known, collected_at=time.time() - 3.5 * 3600))
    assert llmgw("diff", "-i", directory.path).out.splitlines() == [
        "No unit differs.",
        "The facts of n2 are 3 h old: `llmgw facts refresh` reads them anew.",
    ]
    assert llmgw("diff", "-i", directory.path, "--node", "n1").out == f"No unit differs.\n{AGE}\n"


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
    assert called.out.splitlines()[-2:] == [
        "Nothing is known of the units of 1 node (n2): `llmgw facts refresh` reads them.",
        AGE,
    ]


def test_a_node_that_does_not_answer_is_said_to_be_shown_as_last_seen(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    store.mark_unreachable(directory.facts, "n2", time.time(), "no route")
    assert llmgw("diff", "-i", directory.path).out.splitlines() == [
        "No unit differs.",
        "n2 does not answer: it is shown as last seen.",
        AGE,
    ]

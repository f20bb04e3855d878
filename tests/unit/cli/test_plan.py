# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan` over a fleet directory: what it prints where, and how it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgw.apply.saved import SavedOptions, read
from llmgw.fleet import store
from llmgw.model.plan import PLAN_FORMAT
from llmgw.nodekit import contract
from llmgw.plan.codec import load_plan
from tests.support.fleet_directory import CATALOG, HOSTS, Called, FleetDirectory
from tests.support.fleets import facts

Call = Callable[..., Called]


def test_a_fresh_fleet_is_planned_from_its_stored_facts(directory: FleetDirectory, llmgw: Call) -> None:
    assert llmgw("plan", "-i", directory.path) == Called(
        0,
        "+ chat/0  create  n1 by cpu\n+ chat/1  create  n2 by cpu\n\nPlan: 2 to create.\n"
        "The facts are less than a minute old.\n",
        "",
    )


def test_waves_and_unchanged_replicas_are_shown_when_asked_for(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied(1)
    called = llmgw("plan", "-i", directory.path, "--all", "--waves")
    assert called.out.splitlines()[:2] == ["  chat/0  keep    n1", "+ chat/1  create  n2 by cpu"]
    assert "\n1. start chat/1\n" in called.out
    assert called.out.splitlines()[-5:] == [
        "After this plan:",
        "  chat  2 of 2 replicas: 1 on n1, 1 on n2",
        "  n1  1 replica  no devices",
        "  n2  1 replica  no devices",
        "The facts are less than a minute old.",
    ]
    short = llmgw("plan", "-i", directory.path)
    assert "chat/0" not in short.out
    assert "After this plan" not in short.out


def test_where_nothing_is_to_do_there_are_no_waves_and_nothing_comes_after(
    directory: FleetDirectory, llmgw: Call
) -> None:
    directory.applied()
    assert llmgw("plan", "-i", directory.path, "--all", "--waves").out.splitlines() == [
        "  chat/0  keep    n1",
        "  chat/1  keep    n2",
        "",
        "Nothing to do: 2 replicas are as the catalog wants them.",
        "",
        "As it stands:",
        "  chat  2 of 2 replicas: 1 on n1, 1 on n2",
        "  n1  1 replica  no devices",
        "  n2  1 replica  no devices",
        "The facts are less than a minute old.",
    ]


def test_a_plan_by_old_facts_says_so(directory: FleetDirectory, llmgw: Call) -> None:
    store.save(directory.facts, "n1", replace(facts("n1"), collected_at=time.time() - 12 * 60 - 30))
    old = "The facts of n1 are 12 min old: `llmgw facts refresh` reads them anew.\n"
    assert llmgw("plan", "-i", directory.path).out.endswith(old)
    assert llmgw("plan", "-i", directory.path, "--scale", "chat=3").out.endswith(old)
    assert "facts up to 12 min old" in llmgw("plan", "-i", directory.path, "--markdown").out


REFUSED = CATALOG.replace("devices: cpu", "devices: cpu, args: [--x], min_memory_gb: 40").replace(
    "replicas: 2", "replicas: 2, rollout: {max_unavailable: 0}"
)


@pytest.mark.parametrize("switches", [(), ("--detailed-exitcode",), ("--json",), ("--markdown",)])
def test_what_cannot_be_rolled_out_ends_with_3(
    directory: FleetDirectory, llmgw: Call, switches: tuple[str, ...]
) -> None:
    directory.applied()
    directory.catalog(REFUSED)
    called = llmgw("plan", "-i", directory.path, *switches)
    assert called.status == 3
    assert "no place is free for a stand-in" in called.out


def test_drift_that_an_apply_puts_right_is_something_to_do(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    asked = ("plan", "-i", directory.path, "--detailed-exitcode")
    assert llmgw(*asked).status == 0
    known = store.load(directory.facts, "n1").facts
    assert known is not None
    assert known.units
    strangers = (contract.ForeignEngine(7, "vllm"),)
    directory.store("n1", replace(known, foreign_engines=strangers))
    called = llmgw(*asked)
    assert called.status == 0
    assert "! n1 has drifted: vllm (process 7) runs outside llmgw\n" in called.out
    directory.store("n1", replace(known, units=(replace(known.units[0], edited=True),)))
    assert llmgw(*asked).status == 2


def test_a_comment_of_a_pull_request_is_the_plan_in_markdown(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("plan", "-i", directory.path, "--markdown", "--detailed-exitcode")
    assert (called.status, called.err) == (2, "")
    lines = called.out.splitlines()
    assert lines[0] == "### llmgw: 2 replicas change"
    assert "| `chat/0` | create | `n1` |  |" in lines
    assert "facts up to less than a minute old" not in called.out
    assert "facts less than a minute old, catalog `sha256:" in lines[-1]


def test_a_plan_is_saved_and_shown_all_the_same(directory: FleetDirectory, llmgw: Call) -> None:
    file = directory.path / "plan.json"
    called = llmgw("plan", "-i", directory.path, "--out", file, "--lost", "n2", "--allow-mass-loss")
    assert called.out == llmgw("plan", "-i", directory.path, "--lost", "n2", "--allow-mass-loss").out
    saved = read(file)
    assert saved.options == SavedOptions(("n2",), allow_mass_loss=True)
    assert [action.replica for action in saved.plan.actions] == ["chat/0", "chat/1"]
    assert saved.plan.inputs is not None


def test_a_plan_that_cannot_be_saved_is_not_shown_either(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("plan", "-i", directory.path, "--out", directory.path / "no" / "plan.json")
    assert (called.status, called.out) == (1, "")
    assert "the plan cannot be saved" in called.err


@pytest.mark.parametrize(
    "together",
    [
        ("--markdown", "--json"),
        ("--markdown", "--why", "chat"),
        ("--markdown", "--failures"),
        ("--markdown", "--drain", "n1"),
        ("--out", "plan.json", "--why", "chat"),
        ("--out", "plan.json", "--scale", "chat=3"),
    ],
)
def test_what_cannot_be_answered_together_is_refused(
    directory: FleetDirectory, llmgw: Call, together: tuple[str, ...]
) -> None:
    called = llmgw("plan", "-i", directory.path, *together)
    assert (called.status, called.out) == (64, "")
    assert "--" in called.err


@pytest.mark.parametrize(
    ("replicas", "switches", "status"),
    [
        (2, (), 0),
        (2, ("--detailed-exitcode",), 0),
        (3, (), 0),
        (3, ("--detailed-exitcode",), 2),
        (1, ("--detailed-exitcode",), 2),
    ],
)
def test_changes_are_told_by_the_exit_status_when_asked_for(
    directory: FleetDirectory, llmgw: Call, replicas: int, switches: tuple[str, ...], status: int
) -> None:
    directory.catalog(CATALOG.replace("replicas: 2", f"replicas: {replicas}"))
    directory.applied(2)
    assert llmgw("plan", "-i", directory.path, *switches).status == status


@pytest.mark.parametrize("switches", [(), ("--detailed-exitcode",), ("--json",)])
def test_what_cannot_be_placed_ends_with_3(directory: FleetDirectory, llmgw: Call, switches: tuple[str, ...]) -> None:
    directory.catalog(CATALOG.replace("devices: cpu", "devices: h200-141g"))
    called = llmgw("plan", "-i", directory.path, *switches)
    assert called.status == 3
    assert "needs h200-141g, has no device" in called.out


def test_json_is_the_whole_plan_with_its_version(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("plan", "-i", directory.path, "--json")
    document = json.loads(called.out)
    assert document["format_version"] == PLAN_FORMAT
    assert [action["replica"] for action in document["actions"]] == ["chat/0", "chat/1"]
    assert sorted(document["inputs"]["facts"]) == ["gw", "n1", "n2"]
    assert load_plan(called.out.encode()).changes
    assert called.err == ""


def test_unreadable_facts_are_told_on_stderr_and_stdout_is_still_the_plan(
    directory: FleetDirectory, llmgw: Call
) -> None:
    directory.store("n2", facts("n2"))  # a second time: the first becomes the last good
    (directory.facts / "n2.json").write_bytes(b'{"contract_version": 1, "gpus')
    called = llmgw("plan", "-i", directory.path, "--json")
    assert called.status == 0
    assert len(json.loads(called.out)["actions"]) == 2
    assert called.err.startswith(f"{directory.facts}/n2.json: the facts are not whole JSON")
    assert "[facts-broken]\n    fix: run `llmgw facts refresh`" in called.err


def test_replicas_are_held_back_where_nothing_is_known_of_a_node_any_more(
    directory: FleetDirectory, llmgw: Call
) -> None:
    (directory.facts / "n2.json").write_bytes(b"{")
    called = llmgw("plan", "-i", directory.path)
    assert called.status == 3
    assert "! each of chat/0, chat/1 is held back: it may run on n2" in called.out


def test_every_mistake_in_a_catalog_is_told_with_its_place_and_nothing_on_stdout(
    directory: FleetDirectory, llmgw: Call
) -> None:
    text = CATALOG.replace("engine: sim", "engine: simm").replace("replicas: 2", "replicas: many")
    directory.catalog(text)
    called = llmgw("plan", "-i", directory.path)
    assert (called.status, called.out) == (1, "")
    for wrong in ("simm", "many"):
        before = text[: text.index(wrong)]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        assert f"{directory.path}/catalog.yaml:{line}:{column}: " in called.err
    assert called.err.count("fix: ") == 2


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda one: (one.path / "catalog.yaml").unlink(), "catalog.yaml: there is no such file"),
        (lambda one: (one.path / "hosts.yml").unlink(), "there is no hosts.yml in"),
        (lambda one: one.hosts(HOSTS.replace("10.0.0.1", "''")), "llmgw_address of n1 is not a line of text"),
        (lambda one: one.hosts("all: [broken"), "Ansible cannot read the inventory"),
    ],
    ids=["no catalog", "no inventory", "a bad variable", "a broken inventory"],
)
def test_what_makes_a_plan_impossible_is_one_message_and_status_1(
    directory: FleetDirectory, llmgw: Call, break_it: Callable[[FleetDirectory], Any], says: str
) -> None:
    break_it(directory)
    called = llmgw("plan", "-i", directory.path)
    assert (called.status, called.out) == (1, "")
    assert says in called.err
    assert "Traceback" not in called.err
    assert "    fix: " in called.err


def test_a_node_declared_lost_gives_its_replicas_away(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    called = llmgw("plan", "-i", directory.path, "--lost", "n1")
    assert "> chat/0  move    n1 -> n2 by cpu\n    n1 is lost\n" in called.out
    assert llmgw("plan", "-i", directory.path, "--lost", "n9").err.startswith("llmgw: the inventory has no host n9")


def test_many_losses_at_once_freeze_the_fleet_until_they_are_allowed(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    both = ("plan", "-i", directory.path, "--lost", "n1", "--lost", "n2")
    assert llmgw(*both).out.startswith("! frozen: 2 of 2 nodes are lost at once")
    assert "cannot be placed" in llmgw(*both, "--allow-mass-loss").out


@pytest.mark.parametrize("before", [True, False], ids=["llmgw -i FLEET plan", "llmgw plan -i FLEET"])
def test_the_fleet_is_named_before_or_behind_the_command(
    directory: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    fleet = ("-i", directory.path)
    arguments = (*fleet, "plan") if before else ("plan", *fleet)
    assert llmgw(*arguments).status == 0
    monkeypatch.setenv("LLMGW_INVENTORY", "/nowhere")
    assert llmgw(*arguments).status == 0, "what is written outranks the environment"


def test_the_fleet_may_be_named_by_the_environment(
    directory: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMGW_INVENTORY", str(directory.path))
    assert llmgw("plan").status == 0
    assert llmgw("facts", "show").status == 0
    monkeypatch.setenv("LLMGW_FACTS", str(directory.path / "elsewhere"))
    assert "has no facts yet" in llmgw("plan").out


def test_catalog_and_facts_may_be_named_apart(directory: FleetDirectory, llmgw: Call) -> None:
    other = directory.path / "other.yaml"
    other.write_text(CATALOG.replace("chat:", "other:"), encoding="utf-8")
    assert "+ other/0" in llmgw("plan", "-i", directory.path, "--catalog", other).out
    assert "has no facts yet" in llmgw("plan", "-i", directory.path, "--facts", directory.path / "none").out

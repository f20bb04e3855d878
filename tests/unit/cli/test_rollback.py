# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply.runner import Run
from llmgw.catalog.load import load_catalog
from llmgw.cli import carry_out
from tests.support.fleet_directory import CATALOG, Called, FleetDirectory
from tests.unit.cli.test_history import applied

Call = Callable[..., Called]
THREE, FOUR = (CATALOG.replace("replicas: 2", f"replicas: {count}") for count in (3, 4))


class Playbook:
    """Takes the place of the playbook: what it was run with, and the catalog that lay there meanwhile."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.replicas: list[int] = []
        self.events: list[dict[str, Any]] = [
            {"event": "runner_on_ok", "event_data": {"host": "n1", "task_action": "llmgw.fleet.node_facts", "res": {}}}
        ]
        self.status = 0

    def __call__(self, run: Run, on_event: Callable[[dict[str, Any]], None]) -> int:
        self.runs.append(run)
        self.replicas.append(load_catalog(run.paths.catalog).services[0].replicas)
        for event in self.events:
            on_event(event)
        return self.status


def planned(**plan: list[str]) -> dict[str, Any]:
    """The event of a plan."""
    answer = {"summary": "", "text": [], "unplaced": [], "refused": [], "changes": True, "problems": [], **plan}
    return {"event": "runner_on_ok", "event_data": {"host": "n1", "task_action": "llmgw.fleet.plan", "res": answer}}


@pytest.fixture
def playbook(monkeypatch: pytest.MonkeyPatch) -> Playbook:
    made = Playbook()
    monkeypatch.setattr(carry_out, "run_playbook", made)
    return made


@pytest.fixture
def fleet(directory: FleetDirectory, monkeypatch: pytest.MonkeyPatch) -> FleetDirectory:
    monkeypatch.delenv("LLMGW_HISTORY", raising=False)
    applied(directory, "first0001", CATALOG, 1)
    applied(directory, "second0002", THREE, 2)
    return directory


def test_it_applies_the_catalog_of_the_apply_before(fleet: FleetDirectory, llmgw: Call, playbook: Playbook) -> None:
    called = llmgw("rollback", "-i", fleet.path)
    assert called.status == 0
    assert playbook.replicas == [2]
    (run,) = playbook.runs
    assert run.playbook == "llmgw.fleet.apply"
    assert (run.paths.inventory, run.paths.facts) == (fleet.path / "hosts.yml", fleet.facts)
    assert run.variables["llmgw_command"] == "rollback 1"
    assert run.variables["llmgw_history_dir"] == str(fleet.path / "history")
    assert "the catalog of generation 1, applied 2026-05-28 20:26 UTC by ops@ctl1.example.org" in called.err
    assert not run.paths.catalog.exists(), "the catalog's copy is gone afterwards"


def test_it_says_that_the_catalog_in_git_still_says_otherwise(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook
) -> None:
    called = llmgw("rollback", "-i", fleet.path)
    assert f"{fleet.path / 'catalog.yaml'} still says otherwise" in called.err
    assert "git revert" in called.err
    fleet.catalog(CATALOG + "# reverted\n")
    again = llmgw("rollback", "1", "-i", fleet.path)
    assert playbook.replicas == [2, 2]
    assert "otherwise" not in again.err


def test_a_generation_can_be_named(fleet: FleetDirectory, llmgw: Call, playbook: Playbook) -> None:
    applied(fleet, "third0003", FOUR, 3)
    assert llmgw("rollback", "1", "-i", fleet.path).status == 0
    assert llmgw("rollback", "-i", fleet.path).status == 0
    assert playbook.replicas == [2, 3]


def test_check_and_the_other_options_go_through(fleet: FleetDirectory, llmgw: Call, playbook: Playbook) -> None:
    called = llmgw(
        "rollback", "-i", fleet.path, "--check", "--diff", "-l", "n1", "--lost", "n2", "--allow-mass-loss", "--json"
    )
    (run,) = playbook.runs
    assert (run.check, run.diff, run.limit) == (True, True, "n1")
    assert run.variables["llmgw_lost_nodes"] == ["n2"]
    assert run.variables["llmgw_allow_mass_loss"] is True
    document = json.loads(called.out)
    assert document["target"] == {"generation": 1, "id": "first0001"}
    assert "rolled_back_to" not in document, "nothing was changed"
    assert "would go forward again" in called.err


def test_a_rollback_that_fails_ends_like_an_apply_that_fails(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook
) -> None:
    playbook.status = 2
    playbook.events = [
        {
            "event": "runner_on_failed",
            "event_data": {"host": "n1", "task_action": "llmgw.fleet.replica_units", "res": {"msg": "no space"}},
        }
    ]
    called = llmgw("rollback", "-i", fleet.path)
    assert called.status == 4
    assert "no space" in called.out
    assert "not gone back as a whole" in called.err
    assert "run `llmgw rollback 1` again" in called.err
    assert "the next `llmgw apply` goes by that, and forward" in called.err
    document = json.loads(llmgw("rollback", "-i", fleet.path, "--json").out)
    assert "rolled_back_to" not in document
    assert document["target"]["generation"] == 1


def test_a_rollback_that_cannot_roll_out_everything_does_not_say_that_it_went_back(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook
) -> None:
    playbook.events.append(planned(unplaced=["chat/2"], refused=["chat"]))
    called = llmgw("rollback", "-i", fleet.path)
    assert called.status == 3
    assert "not gone back as a whole" in called.err
    assert called.out.strip() == "Done: nothing changed. Not rolled out: chat (see above). Without a place: chat/2."
    assert "rolled_back_to" not in json.loads(llmgw("rollback", "-i", fleet.path, "--json").out)


@pytest.mark.usefixtures("playbook")
def test_a_rollback_that_went_well_says_so_in_json(fleet: FleetDirectory, llmgw: Call) -> None:
    document = json.loads(llmgw("rollback", "-i", fleet.path, "--json").out)
    assert document["rolled_back_to"] == {"generation": 1, "id": "first0001"}


@pytest.mark.usefixtures("playbook")
def test_a_rollback_leaves_no_catalog_behind_even_where_an_earlier_one_was_killed(
    fleet: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    left = tmp_path / f"llmgw-run-{gone.pid}-abc"
    left.mkdir()
    assert llmgw("rollback", "-i", fleet.path).status == 0
    assert list(tmp_path.glob("llmgw-*")) == []


def test_with_nothing_to_go_back_to_nothing_is_run(directory: FleetDirectory, llmgw: Call, playbook: Playbook) -> None:
    called = llmgw("rollback", "-i", directory.path)
    assert called.status == 1
    assert "the history is empty" in called.err
    assert llmgw("rollback", "7", "-i", directory.path).status == 1
    assert playbook.runs == []


def test_a_catalog_that_is_not_kept_is_refused(fleet: FleetDirectory, llmgw: Call, playbook: Playbook) -> None:
    for path in (fleet.path / "history" / "catalogs").iterdir():
        path.unlink()
    called = llmgw("rollback", "-i", fleet.path)
    assert called.status == 1
    assert "not kept" in called.err
    assert "git revert" in called.err
    assert playbook.runs == []


def test_a_catalog_that_this_llmgw_refuses_is_told_with_its_own_lines(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = CATALOG.replace("engine: sim", "engine: sim, flux_capacitor: true")
    monkeypatch.setattr(
        "llmgw.apply.history_catalogs._read", lambda _path: ({"catalog.yaml": older.encode()}, "catalog.yaml")
    )
    called = llmgw("rollback", "-i", fleet.path)
    assert called.status == 1
    assert "generation 1 was applied before, but this llmgw refuses it" in called.err
    assert "catalog.yaml:5" in called.err
    assert "llmgw-rollback-" not in called.err
    assert playbook.runs == []


def test_an_interrupted_rollback_is_told_as_such_and_says_nothing_of_git(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook
) -> None:
    playbook.status = 130
    assert "interrupted; nothing was changed" in llmgw("rollback", "-i", fleet.path).err
    playbook.events.append(planned())
    called = llmgw("rollback", "-i", fleet.path)
    assert called.status == 130
    assert "interrupted" in called.err
    assert "a drained replica gets no requests" in called.err
    assert "run `llmgw rollback 1` to finish it" in called.err
    assert "git" not in called.err
    assert "a drained replica" not in llmgw("rollback", "-i", fleet.path, "--check").err


def test_an_apply_that_was_cut_off_is_written_down_as_interrupted_but_not_by_check_mode(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        monkeypatch.setattr(os, "getppid", lambda: gone.pid)
        applied(fleet, "third0003", FOUR, 3, None)
    (path,) = (fleet.path / "history").glob("*third0003.json")
    playbook.status = 130
    assert llmgw("apply", "-i", fleet.path, "--check").status == 130
    assert json.loads(path.read_text())["outcome"] == "running"
    assert llmgw("apply", "-i", fleet.path).status == 130
    assert json.loads(path.read_text())["outcome"] == "interrupted"


def test_a_second_apply_or_rollback_is_refused_while_one_runs_but_not_a_check(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook
) -> None:
    applied(fleet, "third0003", FOUR, 3, None)
    (path,) = (fleet.path / "history").glob("*third0003.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"began": time.time()}))
    for command in ("apply", "rollback"):
        called = llmgw(command, "-i", fleet.path)
        assert called.status == 1
        assert "an apply of ops@ctl1.example.org runs since " in called.err
        assert f"(process {os.getppid()})" in called.err
        assert "going back" not in called.err
        assert playbook.runs == []
    for command in ("apply", "rollback"):
        assert llmgw(command, "-i", fleet.path, "--check").status == 0
    assert len(playbook.runs) == 2


def test_what_the_history_complains_of_is_told_and_fails_nothing(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook
) -> None:
    told = {"host": "n1", "task_action": "llmgw.fleet.record", "res": {"problems": ["the history cannot be kept"]}}
    playbook.events.append({"event": "runner_on_ok", "event_data": told})
    called = llmgw("apply", "-i", fleet.path)
    assert called.status == 0
    assert "the history cannot be kept" in called.err


def test_an_apply_names_its_command_and_its_history(
    fleet: FleetDirectory, llmgw: Call, playbook: Playbook, tmp_path: Path
) -> None:
    assert llmgw("apply", "-i", fleet.path, "--history", tmp_path / "h").status == 0
    (run,) = playbook.runs
    assert run.variables["llmgw_command"] == "apply"
    assert run.variables["llmgw_history_dir"] == str(tmp_path / "h")
    assert "llmgw_saved_plan" not in run.variables

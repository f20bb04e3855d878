# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from llmgw.apply import history, history_record
from llmgw.apply.inputs import find_paths, read_inputs
from llmgw.apply.saved import SavedOptions, read
from llmgw.cli.saved import save
from llmgw.decide import Options, decide
from llmgw.errors import LlmgwError
from tests.support.fleet_directory import Called, FleetDirectory
from tests.unit.cli.test_rollback import Playbook, playbook

__all__ = ["playbook"]
Call = Callable[..., Called]
OPTIONS = SavedOptions(lost=("n2",), allow_mass_loss=True, limit=("n1", "gw"))


def saved(directory: FleetDirectory, path: Path, options: SavedOptions = OPTIONS) -> Path:
    inputs = read_inputs(find_paths(directory.path), time.time())
    plan = decide(inputs.catalog, inputs.fleet, Options(inputs=inputs.digests)).plan
    save(path, plan, inputs.digests, options)
    return path


def test_a_saved_plan_says_who_saved_it_and_can_be_read_by_others(directory: FleetDirectory, tmp_path: Path) -> None:
    path = saved(directory, tmp_path / "plan.json")
    assert "@" in str(read(path).saved_by)
    assert read(path).plan.inputs is not None
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_plan_is_saved_over_an_older_one_but_over_nothing_else(directory: FleetDirectory, tmp_path: Path) -> None:
    path = saved(directory, tmp_path / "plan.json", SavedOptions())
    assert read(saved(directory, path)).options == OPTIONS
    for place in (tmp_path, tmp_path / "nowhere" / "plan.json"):
        with pytest.raises(LlmgwError) as raised:
            saved(directory, place)
        assert raised.value.code == "saved-plan-unwritable"
        assert raised.value.fix


def test_an_apply_of_a_saved_plan_goes_by_the_options_of_the_plan(
    directory: FleetDirectory, llmgw: Call, playbook: Playbook, tmp_path: Path
) -> None:
    path = saved(directory, tmp_path / "plan.json")
    called = llmgw("apply", path, "-i", directory.path)
    assert called.status == 0
    assert called.err == ""
    (run,) = playbook.runs
    assert run.variables["llmgw_saved_plan"] == str(path)
    assert run.variables["llmgw_lost_nodes"] == ["n2"]
    assert run.variables["llmgw_allow_mass_loss"] is True
    assert run.limit == "n1,gw"


def test_saving_a_plan_says_how_it_is_carried_out(directory: FleetDirectory, llmgw: Call, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    called = llmgw("plan", "-i", directory.path, "--out", path, "--json")
    assert called.err == f"saved to {path}; `llmgw apply {path}` carries it out\n"
    assert json.loads(called.out)["format_version"] == 2


def test_a_saved_plan_that_was_carried_out_before_says_when_and_as_what(
    directory: FleetDirectory, llmgw: Call, playbook: Playbook, tmp_path: Path
) -> None:
    path = saved(directory, tmp_path / "plan.json", SavedOptions())
    inputs = read_inputs(find_paths(directory.path), time.time())
    decision = decide(inputs.catalog, inputs.fleet, Options(inputs=inputs.digests))
    record = history_record.record_of(decision, directory.path / "catalog.yaml", "ops@ctl1")
    kept = directory.path / "history"
    history.begin(kept, "abc123", record, "apply", 1_780_000_000.0)
    history.end(kept, "abc123", history.FAILED, [], 1_780_000_060.0)
    assert llmgw("apply", path, "-i", directory.path).err == "", "it did not go well, and is gone on with"
    history.end(kept, "abc123", history.DONE, [], 1_780_000_060.0)
    called = llmgw("apply", path, "-i", directory.path)
    assert called.err == "it was carried out at 2026-05-28 20:27 UTC as generation 1 (`llmgw history abc123`)\n"
    assert len(playbook.runs) == 2


@pytest.mark.parametrize("option", [["--lost", "n1"], ["--limit", "n1"], ["--allow-mass-loss"]])
def test_options_beside_a_saved_plan_are_refused(
    directory: FleetDirectory, llmgw: Call, playbook: Playbook, tmp_path: Path, option: list[str]
) -> None:
    called = llmgw("apply", saved(directory, tmp_path / "plan.json"), "-i", directory.path, *option)
    assert called.status == 64
    assert playbook.runs == []


def test_what_is_no_saved_plan_is_refused_before_anything_is_run(
    directory: FleetDirectory, llmgw: Call, playbook: Playbook, tmp_path: Path
) -> None:
    called = llmgw("apply", tmp_path / "nothing.json", "-i", directory.path)
    assert called.status == 1
    assert "nothing.json" in called.err
    path = saved(directory, tmp_path / "plan.json")
    path.write_text(path.read_text()[:500])
    called = llmgw("apply", path, "-i", directory.path)
    assert called.status == 1
    assert "cut off" in called.err
    assert playbook.runs == []

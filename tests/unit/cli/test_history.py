# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import history, history_catalogs
from llmgw.catalog.load import load_catalog
from tests.support.fleet_directory import CATALOG, Called, FleetDirectory

Call = Callable[..., Called]
NOW = 1_780_000_000.0
ACTIONS = [{"kind": "create", "replica": "chat/0", "nodes": ["n1"], "from_nodes": []}]


def applied(directory: FleetDirectory, run: str, text: str, number: int, outcome: str | None = "done") -> None:
    """An apply of that catalog is in the history. `outcome` None: it was not written how it ended."""
    directory.catalog(text)
    path = directory.path / "catalog.yaml"
    record: dict[str, Any] = {
        "generation": number,
        "by": "ops@ctl1.example.org",
        "summary": f"Plan: {number} to create, 2 unchanged.",
        "actions": ACTIONS,
        "catalog": {"digest": load_catalog(path).digest, "path": str(path)},
    }
    folder = directory.path / "history"
    assert history.begin(folder, run, record, "apply", NOW + number) == []
    if outcome is not None:
        failure = ["Wave 1 of 1 failed: start chat/0.", "n1: no space left"] if outcome == "failed" else []
        assert history.end(folder, run, outcome, failure, NOW + number + 75) == []


@pytest.fixture
def fleet(directory: FleetDirectory, monkeypatch: pytest.MonkeyPatch) -> FleetDirectory:
    monkeypatch.delenv("LLMGW_HISTORY", raising=False)
    applied(directory, "first0001", CATALOG, 1)
    applied(directory, "second0002", CATALOG.replace("replicas: 2", "replicas: 3"), 2)
    applied(directory, "third0003", CATALOG.replace("replicas: 2", "replicas: 4"), 3, "failed")
    return directory


def test_the_table_has_a_row_an_apply_and_fits_a_terminal(
    fleet: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    called = llmgw("history", "-i", fleet.path)
    assert called.status == 0
    assert called.err == ""
    lines = called.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["WHEN", "(UTC)", "GEN", "WHO", "COMMAND", "OUTCOME", "WHAT"]
    rows = [line.split() for line in lines[1:] if line.startswith("2026")]
    assert [row[2] for row in rows] == ["3", "2", "1"]
    assert [("failed" in row, "done" in row) for row in rows] == [(True, False), (False, True), (False, True)]


def test_no_more_are_shown_than_asked_for(fleet: FleetDirectory, llmgw: Call) -> None:
    assert len(llmgw("history", "-i", fleet.path, "-n", "1").out.splitlines()) == 2
    assert len(llmgw("history", "-i", fleet.path, "-n", "0").out.splitlines()) == 4
    assert llmgw("history", "-i", fleet.path, "-n", "-1").status == 64


def test_one_apply_in_full_says_what_it_did_and_how_to_go_back_to_it(fleet: FleetDirectory, llmgw: Call) -> None:
    for which in ("2", "second0002", "seco"):
        called = llmgw("history", which, "-i", fleet.path)
        assert called.status == 0
        assert "generation 2: done" in called.out
        assert "took 1 min 15 s" in called.out
        assert "by       ops@ctl1.example.org, command apply" in called.out
        assert "create chat/0 on n1" in called.out
        assert "llmgw rollback 2" in called.out


def test_a_failed_apply_says_why_and_offers_no_rollback_to_it(fleet: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("history", "3", "-i", fleet.path)
    assert "generation 3: failed" in called.out
    assert "n1: no space left" in called.out
    assert "llmgw rollback 3" not in called.out


def partly(fleet: FleetDirectory, run: str) -> None:
    """That apply left a service as it was."""
    (path,) = (fleet.path / "history").glob(f"*{run}.json")
    action = {"kind": "update", "replica": "embed/0", "nodes": ["n2"], "from_nodes": []}
    more = {"withheld": [action] * 41, "withheld_left_out": 2, "partly": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


def test_what_was_not_rolled_out_is_told_in_the_table_in_full_and_in_json(fleet: FleetDirectory, llmgw: Call) -> None:
    partly(fleet, "second0002")
    assert "1 create, 43 not rolled out" in llmgw("history", "-i", fleet.path).out
    called = llmgw("history", "2", "-i", fleet.path)
    assert "generation 2: done, but only partly" in called.out
    assert "  create chat/0 on n1\n" in called.out
    assert "  not done: update embed/0 on n2\n" in called.out
    assert "  not done: and 3 more (--json has them)" in called.out
    assert "rollback 2" in called.out
    one = json.loads(llmgw("history", "2", "-i", fleet.path, "--json").out)["apply"]
    assert one["partly"] is True
    assert len(one["withheld"]) == 41


def test_a_generation_within_an_apply_says_which_apply_it_is_of(fleet: FleetDirectory, llmgw: Call) -> None:
    applied(fleet, "later0009", CATALOG, 9)
    called = llmgw("history", "5", "-i", fleet.path)
    assert called.out.startswith("Generation 5 is one of those that the apply of generation 3 published:\n\n")
    assert "published" not in llmgw("history", "3", "-i", fleet.path).out
    assert json.loads(llmgw("history", "5", "-i", fleet.path, "--json").out)["apply"]["id"] == "third0003"


def test_the_help_names_every_outcome_that_is_written(llmgw: Call) -> None:
    said = llmgw("history", "--help").out
    outcomes = (history.RUNNING, history.DONE, history.FAILED, history.OVERTAKEN, history.INTERRUPTED)
    assert all(f"`{one}`" in said for one in outcomes)
    assert "refused" not in said


def test_json_is_versioned_and_says_whether_the_catalog_is_kept(fleet: FleetDirectory, llmgw: Call) -> None:
    document = json.loads(llmgw("history", "-i", fleet.path, "--json").out)
    assert document["format_version"] == 1
    assert [one["id"] for one in document["applies"]] == ["third0003", "second0002", "first0001"]
    one = json.loads(llmgw("history", "1", "-i", fleet.path, "--json").out)["apply"]
    assert one["catalog"]["kept"] is True
    assert one["actions"] == ACTIONS


def test_the_catalog_of_an_apply_can_be_written_out_but_over_nothing(fleet: FleetDirectory, llmgw: Call) -> None:
    target = fleet.path / "before"
    called = llmgw("history", "1", "-i", fleet.path, "--write-catalog", target)
    assert called.status == 0
    assert (target / "catalog.yaml").read_text() == CATALOG
    again = llmgw("history", "2", "-i", fleet.path, "--write-catalog", target)
    assert again.status == 1
    assert "nothing is written" in again.err
    assert (target / "catalog.yaml").read_text() == CATALOG
    assert llmgw("history", "-i", fleet.path, "--write-catalog", target).status == 64


def test_a_history_without_applies_says_where_it_looked(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("history", "-i", directory.path)
    assert called.status == 0
    assert str(directory.path / "history") in called.out
    assert json.loads(llmgw("history", "-i", directory.path, "--json").out)["applies"] == []


def test_a_history_elsewhere_is_looked_for_there(fleet: FleetDirectory, llmgw: Call, tmp_path: Path) -> None:
    (fleet.path / "history").rename(tmp_path / "elsewhere")
    assert "No apply" in llmgw("history", "-i", fleet.path).out
    assert "ops@ctl1" in llmgw("history", "-i", fleet.path, "--history", tmp_path / "elsewhere").out


def test_broken_records_are_named_and_the_others_shown(fleet: FleetDirectory, llmgw: Call) -> None:
    next((fleet.path / "history").glob("*second0002.json")).write_text("{")
    called = llmgw("history", "-i", fleet.path)
    assert called.status == 0
    assert "second0002.json" in called.err
    assert len(called.out.splitlines()) == 3


def test_an_apply_that_nobody_knows_is_an_error_with_a_fix(fleet: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("history", "99", "-i", fleet.path)
    assert called.status == 1
    assert "no apply 99" in called.err


def test_a_record_steers_no_terminal(fleet: FleetDirectory, llmgw: Call) -> None:
    path = next((fleet.path / "history").glob("*second0002.json"))
    document = json.loads(path.read_text()) | {"by": "ev\x1b[2Jil", "failure": ["a\x1b]0;x"]}
    path.write_text(json.dumps(document))
    assert "\x1b" not in llmgw("history", "-i", fleet.path).out
    assert "\x1b" not in llmgw("history", "2", "-i", fleet.path).out


def test_an_apply_whose_catalog_is_gone_says_so(fleet: FleetDirectory, llmgw: Call) -> None:
    for path in (fleet.path / "history" / history_catalogs.FOLDER).iterdir():
        path.unlink()
    assert "not kept" in llmgw("history", "2", "-i", fleet.path).out

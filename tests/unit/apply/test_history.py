# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import history, history_catalogs, history_record, processes
from llmgw.apply.history_choice import rollback_target
from llmgw.catalog.load import load_catalog
from llmgw.decide import Options, decide
from llmgw.model.ids import Digest
from llmgw.model.plan import PlanInputs
from llmgw.model.replica import Catalog, RolloutSpec
from tests.support.fleet_directory import CATALOG
from tests.support.fleets import catalog as catalog_of
from tests.support.fleets import fleet, node, profile, service
from tests.support.world import World

NOW = 1_780_000_000.0
HOUR = 3600.0


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.yaml"
    path.write_text(CATALOG)
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "history"


@pytest.fixture
def record(catalog: Path) -> dict[str, Any]:
    wanted = load_catalog(catalog)
    inputs = PlanInputs(Digest(wanted.digest), Digest("sha256:inventory"))
    decision = decide(wanted, fleet(node("n1"), node("n2")), Options(inputs=inputs))
    return history_record.record_of(decision, catalog, "ops@ctl1")


def only(kept: Path, now: float = NOW) -> history.Record:
    (one,) = history.read(kept, now).records
    return one


def test_a_record_is_what_the_plan_does_and_can_go_through_json(record: dict[str, Any]) -> None:
    assert json.loads(json.dumps(record)) == record
    assert record["by"] == "ops@ctl1"
    assert record["generation"] == 1
    assert record["summary"] == "Plan: 2 to create."
    assert [one["replica"] for one in record["actions"]] == ["chat/0", "chat/1"]
    assert {one["kind"] for one in record["actions"]} == {"create"}
    assert record["waves"]


def test_what_a_refused_rollout_left_undone_is_told_from_what_was_done(catalog: Path, kept: Path) -> None:
    world = World(fleet(node("n1", gpus=2), node("n2")))

    def wanted(*arguments: str) -> Catalog:
        ways = (profile("p", classes=("h200-141g",), gpus=1, args=arguments),)
        return catalog_of(service("chat", 2, ways, rollout=RolloutSpec(max_unavailable=0)), service("more", 1))

    world.apply(catalog_of(wanted().services[0]))
    decision = decide(wanted("--new"), world.fleet)
    told = history_record.record_of(decision, catalog, "ops@ctl1")
    assert [(one["kind"], one["replica"]) for one in told["actions"]] == [("create", "more/0")]
    assert [(one["kind"], one["replica"]) for one in told["withheld"]] == [("update", "chat/0"), ("update", "chat/1")]
    assert told["partly"] is True
    assert history.begin(kept, "abc", told | {"catalog": {"digest": "", "path": ""}}, "apply", NOW) == []
    assert [one.replica for one in only(kept).withheld] == ["chat/0", "chat/1"]
    assert only(kept).partly


def test_kept_catalogs_are_for_their_owner_alone(kept: Path, record: dict[str, Any]) -> None:
    assert history.begin(kept, "abc", record, "apply", NOW) == []
    assert (kept / "catalogs").stat().st_mode & 0o777 == 0o700


def test_a_record_knows_the_highest_generation_of_its_bundles(record: dict[str, Any]) -> None:
    assert record["last_generation"] > record["generation"]
    assert not record["partly"]
    assert record["planned"].startswith("sha256:")


def test_a_record_of_an_older_llmgw_is_of_a_whole_apply(kept: Path, record: dict[str, Any]) -> None:
    new = {"withheld", "withheld_left_out", "partly", "last_generation", "planned"}
    history.begin(kept, "abc", {name: value for name, value in record.items() if name not in new}, "apply", NOW)
    assert (only(kept).partly, only(kept).withheld, only(kept).last_generation) == (False, (), None)


def test_an_apply_is_running_from_its_begin_and_done_at_its_end(kept: Path, record: dict[str, Any]) -> None:
    assert history.begin(kept, "abc", record, "apply", NOW) == []
    begun = only(kept)
    assert (begun.id, begun.generation, begun.by, begun.command) == ("abc", 1, "ops@ctl1", "apply")
    assert (begun.outcome, begun.began, begun.ended) == ("running", NOW, None)
    assert [one.replica for one in begun.actions] == ["chat/0", "chat/1"]
    assert history.end(kept, "abc", "done", [], NOW + 5) == []
    ended = only(kept)
    assert ended == replace(begun, outcome="done", ended=NOW + 5)


def test_why_an_apply_failed_is_kept(kept: Path, record: dict[str, Any]) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    history.end(kept, "abc", "failed", ["Wave 1 failed.", "n1: no disk"], NOW + 5)
    assert only(kept).failure == ("Wave 1 failed.", "n1: no disk")


def test_applies_are_told_the_newest_first_and_no_more_of_them_than_asked(kept: Path, record: dict[str, Any]) -> None:
    for number in (2, 1, 3):
        history.begin(kept, f"id{number}", record, "apply", NOW + number / 1000)
    assert [one.id for one in history.read(kept, NOW).records] == ["id3", "id2", "id1"]
    assert [one.id for one in history.read(kept, NOW, 1).records] == ["id3"]


def test_the_catalog_is_kept_once_whatever_the_number_of_applies(
    catalog: Path, kept: Path, record: dict[str, Any], tmp_path: Path
) -> None:
    for number in range(3):
        history.begin(kept, f"id{number}", record, "apply", NOW + number)
    assert len(list((kept / "catalogs").iterdir())) == 1
    main = history_catalogs.unpack(kept, only_digest(kept), tmp_path / "again")
    assert main.read_bytes() == catalog.read_bytes()


def only_digest(kept: Path) -> str:
    (digest,) = {one.catalog.digest for one in history.read(kept, NOW).records}
    return digest


def test_an_apply_whose_process_is_gone_was_interrupted(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = subprocess.Popen([sys.executable, "-c", ""])
    monkeypatch.setattr(os, "getppid", lambda: short.pid)
    history.begin(kept, "abc", record, "apply", NOW)
    short.wait(timeout=60)
    assert only(kept).outcome == "interrupted"
    assert history.close(kept, NOW + 9) == []
    assert (only(kept).outcome, only(kept).ended) == ("interrupted", NOW + 9)


def test_an_apply_whose_process_lives_is_left_running(kept: Path, record: dict[str, Any]) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    assert history.close(kept, NOW + 9) == []
    assert (only(kept).outcome, only(kept).ended) == ("running", None)


def test_what_ended_stays_as_it_ended(kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    history.end(kept, "abc", "failed", ["x"], NOW + 1)
    monkeypatch.setattr(history, "is_gone", lambda *_about: True)
    history.close(kept, NOW + 9)
    assert (only(kept).outcome, only(kept).ended, only(kept).failure) == ("failed", NOW + 1, ("x",))


def test_an_apply_of_another_host_is_given_up_after_a_day(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = processes.Process(host="elsewhere", boot_id="b", namespace=1, pid=1234)
    monkeypatch.setattr(history, "process", lambda _pid: elsewhere)
    history.begin(kept, "abc", record, "apply", NOW)
    assert only(kept, NOW + 23 * HOUR).outcome == "running"
    assert only(kept, NOW + 25 * HOUR).outcome == "interrupted"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ('{"format_version": 1, "id": "x"', "no JSON"),
        ("[]", "no record"),
        ('{"format_version": 1}', "makes no sense"),
        ('{"format_version": 99}', "newer llmgw"),
        ('{"id": "x", "generation": 1, "began": 1e300, "outcome": "done", "catalog": {"digest": ""}}', "no time"),
        ('{"id": "x", "generation": 1, "began": NaN, "outcome": "done", "catalog": {"digest": ""}}', "no time"),
    ],
)
def test_a_broken_record_costs_only_itself_and_is_named(
    kept: Path, record: dict[str, Any], text: str, said: str
) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    broken = kept / "20200101T000000.000Z-zzz.json"
    broken.write_text(text)
    found = history.read(kept, NOW)
    assert [one.id for one in found.records] == ["abc"]
    (problem,) = found.problems
    assert broken.name in str(problem)
    assert said in str(problem)
    assert problem.fix
    assert history.close(kept, NOW) == []


def test_a_foreign_file_is_named_and_a_directory_is_no_record(kept: Path, record: dict[str, Any]) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    (kept / "notes.json").write_text("{}")
    (kept / "README").write_text("not ours, and no JSON")
    (kept / "20200101T000000.000Z-dir.json").mkdir()
    found = history.read(kept, NOW)
    assert [one.id for one in found.records] == ["abc"]
    assert sorted(Path(str(one.where)).name for one in found.problems) == [
        "20200101T000000.000Z-dir.json",
        "notes.json",
    ]


def test_a_history_that_is_not_there_has_no_applies_and_no_problems(kept: Path) -> None:
    assert history.read(kept, NOW) == history.History(())
    assert history.close(kept, NOW) == []


def test_a_history_that_cannot_be_written_is_a_warning_with_its_path_and_the_fix(
    kept: Path, record: dict[str, Any]
) -> None:
    kept.write_text("a file where the directory should be")
    (warning,) = history.begin(kept, "abc", record, "apply", NOW)
    assert str(kept) in warning
    assert "--history" in warning
    assert history.end(kept, "abc", "done", [], NOW) == []


def test_the_end_of_an_apply_without_a_begin_is_no_error(kept: Path) -> None:
    assert history.end(kept, "abc", "done", [], NOW) == []


def test_an_id_cannot_lead_out_of_the_directory(kept: Path, record: dict[str, Any]) -> None:
    history.begin(kept, "../../x*y", record, "apply", NOW)
    history.end(kept, "../../x*y", "done", [], NOW)
    assert only(kept).outcome == "done"
    assert {path.parent for path in kept.parent.rglob("*.json") if "history" in path.parts} == {
        kept,
        kept / "catalogs",
    }


def test_the_newest_are_kept_and_the_catalogs_that_they_need(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(history.KEEP_VARIABLE, "3")
    history.begin(kept, "old", record, "apply", NOW)
    (kept / "catalogs" / "abcdef0123456789.json").write_text("{}")
    history.end(kept, "old", "failed", [], NOW)
    for number in range(1, 5):
        history.begin(kept, f"id{number}", record, "apply", NOW + number)
        history.end(kept, f"id{number}", "failed", [], NOW + number)
    assert [one.id for one in history.read(kept, NOW).records] == ["id4", "id3", "id2"]
    assert [path.stem for path in (kept / "catalogs").iterdir()] == [only_digest(kept).removeprefix("sha256:")]


def test_however_often_one_catalog_is_applied_again_there_is_another_to_go_back_to(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(history.KEEP_VARIABLE, "3")

    def apply(number: int, digest: str, outcome: str) -> None:
        document = record | {"catalog": {"digest": digest, "path": "/nowhere"}}
        history.begin(kept, f"id{number}", document, "reconcile", NOW + number)
        history.end(kept, f"id{number}", outcome, [], NOW + number)

    for number in range(30):
        apply(number, f"sha256:{number:08x}", "done")
    for number in range(30, 60):
        apply(number, f"sha256:{29:08x}", "done")
    for number in range(60, 65):
        apply(number, "sha256:ffffffff", "failed")
    found = history.read(kept, NOW).records
    assert [one.id for one in found[:4]] == ["id64", "id63", "id62", "id59"]
    good = [one.catalog.digest for one in found if one.outcome == "done"]
    assert good == [f"sha256:{number:08x}" for number in range(29, 29 - history.NEEDED, -1)]
    assert rollback_target(history.History(found), None).id == "id59"


def test_after_a_clock_went_back_new_applies_stay_and_those_of_its_future_go(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(history.KEEP_VARIABLE, "3")
    for number in range(4):
        history.begin(kept, f"future{number}", record, "apply", NOW + 1000 + number)
        history.end(kept, f"future{number}", "failed", [], NOW + 1000 + number)
    for number in range(3):
        assert history.begin(kept, f"id{number}", record, "apply", NOW + number) == []
        assert history.end(kept, f"id{number}", "done", [], NOW + number) == []
    found = history.read(kept, NOW).records
    assert [(one.id, one.outcome) for one in found] == [("id2", "done"), ("id1", "done"), ("id0", "done")]


def test_an_apply_at_work_is_kept_with_its_catalog_however_many_come_after_it(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(history.KEEP_VARIABLE, "3")
    long = record | {"catalog": {"digest": "sha256:abcdef0123", "path": "/nowhere"}}
    history.begin(kept, "long", long, "apply", NOW)
    (kept / "catalogs" / "abcdef0123.json").parent.mkdir(exist_ok=True)
    (kept / "catalogs" / "abcdef0123.json").write_text("{}")
    for number in range(1, 6):
        history.begin(kept, f"id{number}", record, "apply", NOW + number)
        history.end(kept, f"id{number}", "failed", [], NOW + number)
    assert [one.id for one in history.read(kept, NOW).records] == ["id5", "id4", "id3", "long"]
    assert (kept / "catalogs" / "abcdef0123.json").is_file()
    history.end(kept, "long", "failed", [], NOW + 9)
    history.begin(kept, "last", record, "apply", NOW + 10)
    assert [one.id for one in history.read(kept, NOW).records] == ["last", "id5", "id4"]
    assert not (kept / "catalogs" / "abcdef0123.json").exists()


def test_a_record_of_no_day_that_there_is_goes_first(
    kept: Path, record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(history.KEEP_VARIABLE, "1")
    kept.mkdir()
    (kept / "99999999T999999.999Z-x.json").write_text("{}")
    history.begin(kept, "abc", record, "apply", NOW)
    assert [path.name.partition("-")[2] for path in kept.glob("*.json")] == ["abc.json"]


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1e9"])
def test_a_limit_that_makes_no_sense_is_the_default(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(history.KEEP_VARIABLE, text)
    assert history._limit() == history.KEPT


def test_sizes_are_bounded(kept: Path, record: dict[str, Any]) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    history.end(kept, "abc", "failed", ["x" * 100_000] * 1000, NOW)
    assert sum(path.stat().st_size for path in kept.glob("*.json")) < 1_000_000


def test_a_record_is_never_seen_in_part(kept: Path, record: dict[str, Any]) -> None:
    history.begin(kept, "abc", record, "apply", NOW)
    history.end(kept, "abc", "done", [], NOW)
    assert [path.name for path in kept.iterdir() if path.name.startswith(".")] == []


def test_the_history_is_beside_the_facts_unless_said_otherwise(tmp_path: Path) -> None:
    assert history.directory_of(tmp_path / "facts") == tmp_path / "history"
    assert history.directory_of(tmp_path / "facts", tmp_path / "h") == tmp_path / "h"

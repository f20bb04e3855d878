# SPDX-License-Identifier: Apache-2.0
"""What the module refuses and shows before anything is touched; tests/systemd has what it does."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import host_lock, systemd
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import StateFiles
from ansible_collections.llmgw.fleet.plugins.module_utils.units_apply import UnitResult
from ansible_collections.llmgw.fleet.plugins.modules import replica_units
from tests.unit.module_utils.unit_texts import NAME, wanted
from tests.unit.modules import in_process

Call = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the units lie, on a machine whose systemd has loaded none."""
    monkeypatch.setattr(systemd.Manager, "show", lambda *_: {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    directory = tmp_path / "config/systemd/user"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*present: WantedUnit, check: bool = True, **options: Any) -> dict[str, Any]:
        defaults = {"scope": "user", "state_dir": str(tmp_path / "state"), "generation": 5, "lock_timeout_s": 0}
        given = {**defaults, "present": [asdict(unit) for unit in present], **options}
        return in_process.run(replica_units, capsys, check=check, **given)

    return run


def test_check_mode_shows_the_change_and_touches_nothing(call: Call, tmp_path: Path, units: Path) -> None:
    answer = call(wanted())
    assert answer["changed"] is True
    assert answer["units"] == [{"name": NAME, "action": "created"}]
    assert [(one["before"], one["after"]) for one in answer["diff"]] == [("", wanted().text)]
    assert [path.name for path in tmp_path.iterdir()] == ["config"]
    assert list(units.iterdir()) == []


@pytest.mark.parametrize("check", [True, False])
def test_units_that_changed_since_the_plan_stop_everything(call: Call, units: Path, check: bool) -> None:
    (units / NAME).write_text("[Service]\n")
    answer = call(wanted(), check=check, expected={NAME: "sha256:seen"})
    assert (answer["failed"], answer["changed"]) == (True, False)
    assert f"{NAME} is not as it was when the plan was made. Nothing was touched. Plan again" in answer["msg"]
    assert (units / NAME).read_text() == "[Service]\n"


def test_a_newer_generation_on_the_host_stops_everything(call: Call, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/generation").write_text("6\n")
    assert "generation 6 was applied here, this plan is of generation 5" in call(wanted())["msg"]
    assert call(wanted(), generation=6)["changed"] is True


def test_another_plan_of_the_same_generation_is_refused_and_told_who_won(call: Call, tmp_path: Path) -> None:
    state = StateFiles(Host(), str(tmp_path / "state"))
    state.prepare()
    state.note_applied(5, "a", "ops@ctl1")
    for check in (True, False):
        answer = call(wanted(), check=check, plan_id="b", by="ops@ctl2")
        assert (answer["failed"], answer["changed"], answer["overtaken"]) == (True, False, True)
        assert answer["msg"].startswith("generation 5 was applied here by ops@ctl1 at ")
        assert answer["msg"].endswith(
            "ago), this plan is of generation 5 too: another controller was quicker. Nothing was touched. Wait until "
            "that apply has ended, then plan again and apply that."
        )
    for more in ({"plan_id": "a"}, {}, {"plan_id": "b", "generation": 6}):
        assert call(wanted(), **more)["changed"] is True


def test_a_disk_that_takes_no_notes_is_named_before_anything_is_touched(
    call: Call, tmp_path: Path, units: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = call(wanted(), check=False)
    assert (answer["failed"], answer["changed"]) == (True, False)
    state = tmp_path / "state"
    said = re.fullmatch(
        rf"{state}/applied\.json cannot be written: the disk is full \(\d+ of \d+ MiB are free in {state}\)\. "
        rf"No unit was stopped, restarted or changed\. Free space on this host \(`df -h {state}` and `df -i {state}` "
        r"show what is left\), then apply again\.",
        answer["msg"],
    )
    assert said, answer["msg"]
    assert list(units.iterdir()) == []
    assert [path.name for path in state.iterdir() if path.is_file()] == ["lock"]


def test_a_run_beside_another_is_refused_and_names_it(call: Call, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with host_lock.hold(str(tmp_path / "state/lock"), 0, "ops@ctl1"):
        assert "another llmgw run (pid " in call(wanted(), check=False)["msg"]
        assert ", by ops@ctl1, since " in call(wanted(), check=False)["msg"]
        assert call(wanted(), check=True)["changed"] is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"absent": ["sshd.service"]}, "sshd.service is not the name of a replica's unit"),
        ({"absent": ["../llmgw-chat.0.0.service"]}, "is not the name of a replica's unit"),
        ({"absent": [NAME]}, f"{NAME} is named twice"),
    ],
)
def test_names_that_are_no_replicas_or_named_twice_are_refused(call: Call, options: dict[str, Any], words: str) -> None:
    assert words in call(wanted(), **options)["msg"]


def test_a_text_that_was_altered_is_refused(call: Call, tmp_path: Path) -> None:
    unit = wanted()
    present = [{**asdict(unit), "text": unit.text.replace("/bin/engine", "/bin/evil")}]
    answer = call(present=present, check=False)
    assert "its text is not the one its text digest was made from" in answer["msg"]
    assert not (tmp_path / "state").exists()


def test_a_readiness_that_asks_an_engine_needs_to_know_where(call: Call) -> None:
    unit = asdict(wanted())
    unit["readiness"]["port"] = None
    assert f"{NAME}: its engine cannot be asked without a port" in call(present=[unit])["msg"]


@pytest.mark.parametrize(
    ("action", "put_back", "sentence"),
    [
        ("restarted", None, "u: it failed."),
        ("restarted", True, "u: it failed; the previous version was put back and is ready."),
        ("restarted", False, "u: it failed; the previous version was put back and is not ready either."),
        ("created", True, "u: it failed; it was removed again."),
        ("created", False, "u: it failed; it could not be removed again."),
    ],
)
def test_a_failure_is_one_sentence_a_unit(action: str, put_back: bool | None, sentence: str) -> None:
    assert UnitResult("u", action, "failed", "it failed", put_back=put_back).sentence == sentence


def test_a_version_that_could_not_be_written_again_is_not_said_to_be_back() -> None:
    result = UnitResult("u", "restarted", "failed", "it failed", put_back=False, obstacle="/x: Permission denied")
    assert result.sentence == "u: it failed; the previous version could not be put back: /x: Permission denied."


def test_check_mode_fails_for_a_port_that_another_process_has_as_a_real_run_does(call: Call, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        unit = wanted()
        taken = replace(unit, readiness=replace(unit.readiness, address="127.0.0.1", port=port))
        answer = call(taken)
    assert (answer["failed"], answer["changed"]) == (True, False)
    assert answer["units"] == [{"name": NAME, "action": "kept"}]
    assert answer["msg"].startswith(f"{NAME}: port {port} is taken by ")
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


def test_a_member_that_does_not_lead_is_ready_by_its_leader(call: Call) -> None:
    unit = wanted()
    led = replace(unit, readiness=replace(unit.readiness, kind="leader"))
    assert call(led)["units"] == [{"name": NAME, "action": "created"}]
    unknown = asdict(replace(led, readiness=replace(led.readiness, port=None)))
    assert f"{NAME}: its engine cannot be asked without a port" in call(present=[unknown])["msg"]

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import host_lock
from ansible_collections.llmgw.fleet.plugins.modules import node_marks
from tests.unit.modules import in_process

Mark = Callable[..., dict[str, Any]]
CARD = "GPU-6a1b2c3d-0000-1111-2222-333344445555"
INSTANCE = "MIG-GPU-6a1b2c3d-0000-1111-2222-333344445555/7/0"
MIG_FILE = f"{INSTANCE.replace('/', '_')}.json"
BAD = {"device": CARD, "code": "xid-fatal", "message": "card 2 had XID 79: it fell off the bus"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def mark(state: Path, capsys: pytest.CaptureFixture[str]) -> Mark:
    def run(*, check: bool = False, **options: Any) -> dict[str, Any]:
        return in_process.run(node_marks, capsys, check=check, state_dir=str(state), **options)

    return run


def actions(answer: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    return [(one["mark"], one["device"], one["action"]) for one in answer["marks"]]


def held(path: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def test_a_node_is_cordoned_once_and_the_mark_tells_by_whom_when_and_why(mark: Mark, state: Path) -> None:
    before = time.time()
    answer = mark(cordon=True, reason="new\n  kernel", by="ops@ctl1")
    assert (answer["changed"], actions(answer)) == (True, [("cordoned", None, "set")])
    said = held(state / "cordoned")
    assert (said["by"], said["reason"]) == ("ops@ctl1", "new kernel")
    assert before - 1 <= said["at"] <= time.time() + 1
    assert (state / "cordoned").stat().st_mode & 0o777 == 0o644
    again = mark(cordon=True, by="other@ctl2")
    assert (again["changed"], actions(again)) == (False, [("cordoned", None, "kept")])
    assert held(state / "cordoned") == said


def test_another_reason_is_written_down_and_the_same_is_no_change(mark: Mark, state: Path) -> None:
    mark(drain=True, reason="old disk")
    assert mark(drain=True, reason="old disk")["changed"] is False
    assert actions(mark(drain=True, reason="new disk", by="b@c")) == [("drained", None, "changed")]
    assert (held(state / "drained")["reason"], held(state / "drained")["by"]) == ("new disk", "b@c")


def test_marks_that_are_not_named_stay_and_taking_one_away_leaves_the_other(mark: Mark, state: Path) -> None:
    mark(cordon=True, drain=True)
    assert actions(mark(cordon=False)) == [("cordoned", None, "removed")]
    assert [path.name for path in state.iterdir() if path.name in ("cordoned", "drained")] == ["drained"]
    assert (mark()["changed"], mark()["marks"]) == (False, [])
    assert mark(cordon=False)["changed"] is False


def test_a_mark_that_somebody_touched_by_hand_is_a_mark_and_gets_a_reason_when_one_is_given(
    mark: Mark, state: Path
) -> None:
    state.mkdir()
    (state / "cordoned").touch()
    assert mark(cordon=True)["changed"] is False
    assert (state / "cordoned").read_text() == ""
    assert actions(mark(cordon=True, reason="fan")) == [("cordoned", None, "changed")]
    assert actions(mark(cordon=False)) == [("cordoned", None, "removed")]


def test_devices_are_quarantined_once_with_what_was_found(mark: Mark, state: Path) -> None:
    answer = mark(quarantine=[BAD], by="ops@ctl1", plan_id="p1", generation=7)
    assert (answer["changed"], actions(answer)) == (True, [("quarantined", CARD, "set")])
    first = held(state / f"quarantine/{CARD}.json")
    assert {name: first[name] for name in ("device", "code", "message", "by", "plan_id")} == {
        **BAD,
        "by": "ops@ctl1",
        "plan_id": "p1",
    }
    later = mark(quarantine=[{**BAD, "message": "another one"}], by="other@ctl2")
    assert (later["changed"], actions(later)) == (False, [("quarantined", CARD, "kept")])
    assert held(state / f"quarantine/{CARD}.json") == first


def test_a_cleared_device_is_told_with_what_was_found(mark: Mark, state: Path) -> None:
    mark(quarantine=[BAD, {**BAD, "device": INSTANCE}])
    answer = mark(clear=[CARD])
    assert answer["marks"] == [
        {"mark": "quarantined", "device": CARD, "action": "removed", "found": BAD["message"]},
    ]
    assert [path.name for path in (state / "quarantine").iterdir()] == [f"{INSTANCE.replace('/', '_')}.json"]
    assert (mark(clear=[CARD])["changed"], actions(mark(clear=[CARD]))) == (False, [("quarantined", CARD, "kept")])


def test_all_marks_of_devices_go_and_what_is_no_mark_stays(mark: Mark, state: Path) -> None:
    mark(quarantine=[BAD, {**BAD, "device": INSTANCE}], cordon=True)
    (state / "quarantine/notes.txt").write_text("mine")
    (state / f"quarantine/{CARD}.json").write_text("{ broken")
    answer = mark(clear=["all"])
    assert actions(answer) == [("quarantined", CARD, "removed"), ("quarantined", INSTANCE, "removed")]
    assert [path.name for path in (state / "quarantine").iterdir()] == ["notes.txt"]
    assert (state / "cordoned").exists()


def test_an_empty_directory_that_stands_for_a_mark_goes_like_one(mark: Mark, state: Path) -> None:
    (state / "cordoned").mkdir(parents=True)
    (state / f"quarantine/{CARD}.json").mkdir(parents=True)
    assert actions(mark(cordon=False, clear=["all"])) == [
        ("cordoned", None, "removed"),
        ("quarantined", CARD, "removed"),
    ]
    assert not (state / "cordoned").exists()
    assert list((state / "quarantine").iterdir()) == []


def test_a_mark_that_cannot_be_taken_away_keeps_nobody_from_the_others_and_is_told(mark: Mark, state: Path) -> None:
    mark(quarantine=[{**BAD, "device": INSTANCE}])
    stuck = state / f"quarantine/{CARD}.json"
    (stuck / "inside").mkdir(parents=True)
    answer = mark(clear=["all"])
    assert (answer["failed"], answer["changed"]) == (True, True)
    assert actions(answer) == [("quarantined", CARD, "failed"), ("quarantined", INSTANCE, "removed")]
    assert [path.name for path in (state / "quarantine").iterdir()] == [stuck.name]
    assert str(stuck) in answer["msg"]
    assert "The others were" in answer["msg"]
    assert [one["before_header"] for one in answer["diff"]] == [str(state / "quarantine" / MIG_FILE)]


@pytest.mark.parametrize("link", [True, False])
def test_what_is_in_the_place_of_the_directory_is_told_and_nothing_counts_as_cleared(
    link: bool, mark: Mark, state: Path
) -> None:
    state.mkdir()
    if link:
        (state / "quarantine").symlink_to("/nowhere/at/all")
    else:
        (state / "quarantine").write_text("")
    for options in ({"clear": ["all"]}, {"clear": [CARD]}, {"quarantine": [BAD]}):
        answer = mark(**options)
        assert answer["failed"] is True
        assert "quarantine is no directory: move it away" in answer["msg"]
    assert mark(cordon=True)["changed"] is True


@pytest.mark.parametrize(
    "name", ["../generation", "GPU-../../x", "", "GPU-a b", "GPU-a.json", "gpu-0", "GPU-a/1", "GPU-a\n", "/etc/passwd"]
)
def test_what_is_no_uuid_becomes_no_path(name: str, mark: Mark, state: Path, tmp_path: Path) -> None:
    for options in ({"clear": [name]}, {"quarantine": [{**BAD, "device": name}]}):
        answer = mark(cordon=True, **options)
        assert answer["failed"] is True
        assert "is no UUID of a card or MIG instance" in answer["msg"]
    assert not state.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"code": None}, {"code": 7}, {"more": "x"}, {"device": ["GPU-a"]}])
def test_a_device_of_which_something_else_is_told_is_refused(wrong: dict[str, Any], mark: Mark, state: Path) -> None:
    assert "told by device, code, message" in mark(quarantine=[{**BAD, **wrong}])["msg"]
    assert "told by device, code, message" in mark(quarantine=[{"device": CARD}])["msg"]
    assert not state.exists()


def test_what_contradicts_itself_is_refused(mark: Mark, state: Path) -> None:
    assert "quarantined and cleared at once" in mark(quarantine=[BAD], clear=[CARD])["msg"]
    assert "all of them cleared at once" in mark(quarantine=[BAD], clear=["all"])["msg"]
    assert not state.exists()


def test_check_mode_promises_the_same_and_touches_nothing(mark: Mark, state: Path) -> None:
    promised = mark(check=True, cordon=True, quarantine=[BAD])
    assert not state.exists()
    done = mark(cordon=True, quarantine=[BAD])
    assert (promised["changed"], promised["marks"]) == (done["changed"], done["marks"])
    assert mark(check=True, cordon=False, clear=[CARD])["changed"] is True
    assert (state / "cordoned").exists()


def test_the_difference_of_every_file_is_told(mark: Mark, state: Path) -> None:
    (one,) = mark(cordon=True, reason="fan")["diff"]
    assert (one["before_header"], one["before"]) == (str(state / "cordoned"), "")
    assert json.loads(one["after"])["reason"] == "fan"
    (other,) = mark(cordon=False)["diff"]
    assert (other["before"], other["after"]) == (one["after"], "")


def test_a_secret_in_a_reason_is_not_kept(mark: Mark, state: Path) -> None:
    mark(cordon=True, reason="token=hf_abcdefghijklmnopqrstuvwxyz012345")
    assert "hf_abc" not in (state / "cordoned").read_text()


def test_a_run_that_changes_units_is_not_waited_for(mark: Mark, state: Path) -> None:
    state.mkdir()
    with host_lock.hold(str(state / "lock"), 1):
        assert mark(cordon=True)["changed"] is True


def test_where_nothing_can_be_written_the_module_says_so(mark: Mark, state: Path) -> None:
    state.write_text("a file where the directory should be")
    answer = mark(cordon=True)
    assert answer["failed"] is True
    assert answer["msg"].startswith("The marks cannot be made: ")

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic
from ansible_collections.llmgw.fleet.plugins.module_utils.applied import Applied
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import EngineMemory
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record, StateFiles, default_directory
from tests.support.fake_host import FakeHost

NAME = "llmgw-chat.0.0.service"


@pytest.fixture
def state(tmp_path: Path) -> StateFiles:
    files = StateFiles(Host(), str(tmp_path / "state"))
    files.prepare()
    return files


def test_a_generation_only_grows(state: StateFiles) -> None:
    assert state.generation() is None
    for generation in (4, 7, 5):
        state.note_applied(generation)
    assert state.generation() == 7
    assert Path(state.directory, "generation").read_text() == "7\n"


def test_who_applied_is_noted_with_the_highest_generation(state: StateFiles) -> None:
    before = time.time()
    for generation in (4, 7, 5):
        state.note_applied(generation, f"plan-{generation}", "ops@ctl1")
    seen = state.applied()
    assert (seen.generation, seen.plan_id, seen.by) == (7, "plan-7", "ops@ctl1")
    assert seen.at is not None
    assert before - 1 < seen.at < time.time() + 1


def test_the_first_plan_of_a_generation_claims_it_and_one_without_an_id_does_not(state: StateFiles) -> None:
    state.note_applied(7, None, "ops@old")
    assert state.applied()[:3] == (7, None, "ops@old")
    for plan in ("a", "b", None):
        state.note_applied(7, plan, f"ops@{plan}")
    assert state.applied()[:3] == (7, "a", "ops@a")


def test_a_state_directory_of_a_version_that_noted_the_number_alone_counts(state: StateFiles) -> None:
    Path(state.directory, "generation").write_text("9\n")
    assert state.applied() == Applied(9)
    state.note_applied(8, "late", "ops@ctl1")
    assert state.applied() == Applied(9)
    state.note_applied(10, "next", "ops@ctl1")
    Path(state.directory, "generation").write_text("12\n")  # that version again
    assert state.applied() == Applied(12)


@pytest.mark.parametrize("last", [1, 2])
def test_a_run_that_is_killed_between_two_notes_lowers_nothing_and_keeps_its_claim(
    state: StateFiles, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    state.note_applied(4, "before", "ops@ctl1")
    writes = [0]
    write = atomic.write

    def killed(*arguments: Any, **options: Any) -> None:
        writes[0] += 1
        if writes[0] == last:
            raise KeyboardInterrupt
        write(*arguments, **options)

    monkeypatch.setattr(atomic, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        state.note_applied(5, "next", "ops@ctl2")
    claimed = ("next", 5) if last == 2 else ("before", 4)
    assert (state.applied().plan_id, state.generation()) == claimed
    monkeypatch.undo()
    state.note_applied(5, "next", "ops@ctl2")
    assert Path(state.directory, "generation").read_text() == "5\n"


def test_records_and_texts_come_back_as_written(state: StateFiles) -> None:
    memory = EngineMemory(weights_mib=1, kv_cache_tokens=2, source="vllm 0.33.0")
    record = Record(3, "sha256:x", "/health", "/v1/models", None, 1796006111.5, memory, "10.0.0.1", 18000)
    state.write_record(NAME, record)
    state.write_last_good(NAME, "text\n")
    assert (state.record(NAME), state.last_good(NAME)) == (record, "text\n")


def test_what_is_the_same_is_not_written_again(state: StateFiles) -> None:
    state.write_record(NAME, Record(3))
    path = Path(state.directory, "units", f"{NAME}.json")
    first = path.stat().st_ino
    state.write_record(NAME, Record(3))
    assert path.stat().st_ino == first
    state.write_record(NAME, Record(4))
    assert path.stat().st_ino != first


def test_forgetting_leaves_nothing_and_may_be_done_twice(state: StateFiles) -> None:
    state.write_record(NAME, Record(3))
    state.write_last_good(NAME, "text\n")
    state.write_last_good("llmgw-chat.0.0.env", "A=1\n")
    for _ in range(2):
        state.forget(NAME, ("llmgw-chat.0.0.env",))
    assert [path for path in Path(state.directory).rglob("*") if path.is_file()] == []


@given(st.binary())
def test_broken_files_are_unknown_and_never_an_error(content: bytes) -> None:
    host = FakeHost(
        {"/state/generation": content, "/state/applied.json": content, f"/state/units/{NAME}.json": content}
    )
    files = StateFiles(host, "/state")
    assert files.generation() is None or files.generation() >= 0  # type: ignore[operator]
    assert isinstance(files.record(NAME), Record)


def test_a_record_of_the_wrong_types_is_unknown() -> None:
    said = '{"generation": "7", "process_digest": ["x"], "health_path": "/health", "new": 1}'
    record = StateFiles(FakeHost({f"/state/units/{NAME}.json": said}), "/state").record(NAME)
    assert record == Record(health_path="/health")
    said = '{"ready_at": "soon", "memory": {"weights_mib": "9", "kv_cache_mib": true, "source": 7, "more": 1}}'
    assert StateFiles(FakeHost({f"/state/units/{NAME}.json": said}), "/state").record(NAME) == Record()


def test_each_scope_has_its_own_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert default_directory("system", FakeHost()) == "/var/lib/llmgw"
    assert default_directory("user", FakeHost()) == "/home/ops/.local/state/llmgw"


def test_a_generation_that_is_no_number_of_a_sane_length_is_unknown() -> None:
    assert StateFiles(FakeHost({"/s/generation": "9" * 5000}), "/s").generation() is None


def test_directories_are_readable_for_all_whatever_the_umask(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = os.umask(0o077)
    try:
        StateFiles(Host(), str(closed / "lib" / "llmgw")).prepare()
    finally:
        os.umask(before)
    made = [closed / "lib", closed / "lib/llmgw", closed / "lib/llmgw/units", closed / "lib/llmgw/last-good"]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o755] * 4
    assert closed.stat().st_mode & 0o777 == 0o700


def test_a_record_that_is_nested_without_end_is_unknown() -> None:
    assert StateFiles(FakeHost({f"/state/units/{NAME}.json": "[" * 200_000}), "/state").record(NAME) == Record()

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        state.raise_generation(generation)
    assert state.generation() == 7


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
    host = FakeHost({"/state/generation": content, f"/state/units/{NAME}.json": content})
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

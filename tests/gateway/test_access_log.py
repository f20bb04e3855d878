# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.records.access_log import AccessLog
from llmgw.gateway.records.record import MOST_CHARACTERS
from tests.gateway.log_lines import (
    ids_of,
    lines_of,
    record,
    wait_until,
    write_and_wait,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


@pytest.fixture
def started(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AccessLog]:
    monkeypatch.setattr("llmgw.gateway.records.access_log.AGAIN_S", 0.01)
    monkeypatch.setattr("llmgw.gateway.records.log_file.READER_WAIT_S", 0.01)
    log = AccessLog(str(path))
    log.start()
    yield log
    log.close()


def test_a_line_holds_what_is_known_and_nothing_else(started: AccessLog, path: Path) -> None:
    started.write(record("a", service="chat", status=200, queue_s=0.0, prompt_tokens=0, stream=False, end="complete"))
    started.close()
    assert lines_of(path) == [
        {
            "request_id": "a",
            "at": 1_800_000_000.25,
            "method": "POST",
            "path": "/v1/completions",
            "service": "chat",
            "status": 200,
            "stream": False,
            "queue_s": 0.0,
            "prompt_tokens": 0,
            "end": "complete",
        }
    ]


def test_lines_come_in_the_order_of_requests_and_none_is_missing(started: AccessLog, path: Path) -> None:
    wanted = [str(number) for number in range(1000)]
    for name in wanted:
        started.write(record(name))
    started.close()
    assert ids_of(path) == wanted
    assert (started.written, started.dropped) == (1000, 0)


def test_the_file_is_not_for_everybody_to_read(started: AccessLog, path: Path) -> None:
    started.write(record())
    started.close()
    assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0


def test_what_a_file_holds_already_stays(started: AccessLog, path: Path) -> None:
    path.write_text('{"request_id": "before"}\n')
    started.write(record("after"))
    started.close()
    assert ids_of(path) == ["before", "after"]


def test_without_a_path_nothing_is_kept_and_nothing_counts_as_dropped() -> None:
    log = AccessLog(None)
    log.start()
    log.write(record())
    log.close()
    assert (log.written, log.dropped) == (0, 0)


def test_a_new_path_counts_while_it_runs(started: AccessLog, path: Path, tmp_path: Path) -> None:
    write_and_wait(started, "old")
    started.path = str(tmp_path / "new.log")
    write_and_wait(started, "new")
    assert ids_of(path) == ["old"]
    assert ids_of(tmp_path / "new.log") == ["new"]


def test_turned_off_it_writes_what_waits_and_lets_go_of_the_file(started: AccessLog, path: Path) -> None:
    def holds() -> bool:
        return any(link.resolve() == path for link in Path("/proc/self/fd").iterdir())

    write_and_wait(started, "1")
    assert holds()
    started.write(record("2"))
    started.path = None
    started.write(record("3"))
    wait_until(lambda: not holds())
    assert ids_of(path) == ["1", "2"]
    assert started.dropped == 0


# --- rotation ---


def test_a_moved_file_is_left_and_a_new_one_begun(started: AccessLog, path: Path, tmp_path: Path) -> None:
    write_and_wait(started, "1")
    path.rename(tmp_path / "access.log.1")
    write_and_wait(started, "2")
    assert ids_of(tmp_path / "access.log.1") == ["1"]
    assert ids_of(path) == ["2"]


def test_a_file_that_rotation_has_made_anew_is_used(started: AccessLog, path: Path, tmp_path: Path) -> None:
    write_and_wait(started, "1")
    path.rename(tmp_path / "access.log.1")
    path.touch(0o600)
    write_and_wait(started, "2")
    assert ids_of(path) == ["2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_was_cut_to_nothing_goes_on_from_its_start(started: AccessLog, path: Path) -> None:
    write_and_wait(started, "1")
    os.truncate(path, 0)
    write_and_wait(started, "2")
    assert ids_of(path) == ["2"]


# --- what clients choose ---


@given(
    model=st.text(st.characters(), max_size=400),
    path=st.text(st.characters(), max_size=400),
    reason=st.none() | st.text(st.characters()),
)
def test_a_line_is_one_line_of_json_whatever_clients_and_engines_say(
    tmp_path_factory: pytest.TempPathFactory, model: str, path: str, reason: str | None
) -> None:
    file = tmp_path_factory.mktemp("log") / "access.log"
    log = AccessLog(str(file))
    one = record("a", model=model, reason=reason)
    one.path = path
    log.write(one)
    log.start()
    log.close()
    (line,) = lines_of(file)
    assert log.dropped == 0
    assert len(line["model"]) <= MOST_CHARACTERS
    assert line["model"].isprintable()
    if model.isprintable():
        assert line["model"] == model[:MOST_CHARACTERS]
    assert line["path"].isprintable()
    assert ("reason" in line) == (reason is not None)


def test_long_names_are_cut(started: AccessLog, path: Path) -> None:
    long = record(model="m" * 100_000, reason="r" * 1000)
    long.path = "/" + "p" * 60_000
    started.write(long)
    assert len(long.path) == len(long.model or "") == MOST_CHARACTERS  # at once: many may wait
    started.close()
    (line,) = lines_of(path)
    assert line["model"] == "m" * MOST_CHARACTERS
    assert len(line["reason"]) == MOST_CHARACTERS


def test_a_terminal_is_not_driven_by_a_models_name(started: AccessLog, path: Path) -> None:
    started.write(record(model="x\x1b[2J\x9b2J\u202e\ud800"))
    started.close()
    assert lines_of(path)[0]["model"] == "x\ufffd[2J\ufffd2J\ufffd\ufffd"


def test_seconds_are_rounded_to_what_a_clock_knows(started: AccessLog, path: Path) -> None:
    started.write(record(duration_s=0.1 + 0.2, first_byte_s=1e-9, queue_s=None))
    started.close()
    (line,) = lines_of(path)
    assert line["duration_s"] == 0.3
    assert line["first_byte_s"] == 0.0
    assert "queue_s" not in line

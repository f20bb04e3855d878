# SPDX-License-Identifier: Apache-2.0
"""An access log that cannot be written as usual, and one that several processes write."""

from __future__ import annotations

import json
import os
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from llmgw.gateway.records.access_log import AccessLog
from llmgw.gateway.records.log_file import LogFile, NotWrittenError
from tests.gateway.log_lines import (
    PATIENCE_S,
    ids_of,
    record,
    wait_until,
    write_and_wait,
    write_until_written,
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


def test_a_missing_folder_drops_lines_says_so_once_and_ends_when_it_is_there(tmp_path: Path) -> None:
    with capture_logs() as said:
        path = tmp_path / "logs" / "access.log"
        log = AccessLog(str(path))
        log.start()
        for number in range(5):
            write_and_wait(log, f"lost-{number}")
        assert log.dropped == 5
        path.parent.mkdir()
        write_until_written(log, "kept")
        write_and_wait(log, "kept too")
        log.close()
    assert ids_of(path)[-2:] == ["kept", "kept too"]
    assert [entry["log_level"] for entry in said] == ["warning", "info"]
    assert said[0]["problem"] == "no such file or directory"
    assert said[1]["dropped"] == log.dropped


def test_a_folder_in_the_files_place_is_survived(started: AccessLog, path: Path) -> None:
    path.mkdir()
    write_and_wait(started, "lost")
    assert started.dropped == 1
    path.rmdir()
    write_until_written(started, "kept")
    assert ids_of(path) == ["kept"]


def test_a_full_disk_drops_lines_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgw.gateway.records.access_log.AGAIN_S", 0.0)
    link = tmp_path / "access.log"
    link.symlink_to("/dev/full")
    with capture_logs() as said:
        log = AccessLog(str(link))
        log.start()
        write_and_wait(log, "lost")
        write_and_wait(log, "lost too")
        assert (log.written, log.dropped) == (0, 2)
        link.unlink()
        write_and_wait(log, "kept")
        log.close()
    assert ids_of(link) == ["kept"]
    assert [entry["log_level"] for entry in said] == ["warning", "info"]
    assert said[0]["problem"] == "no space left on device"


def full_within_a_line(path: str, most_bytes: int) -> tuple[int, int]:
    """In a process of its own: files may not be larger than `most_bytes` at first, then they may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    log = AccessLog(path)
    log.start()
    for number in range(40):
        log.write(record(f"early-{number}"))
    wait_until(lambda: log.written + log.dropped == 40)
    early = log.written
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    write_until_written(log, "late")
    log.close()
    return early, log.dropped


def test_a_disk_that_is_full_within_a_line_costs_that_line_and_no_later_one(path: Path) -> None:
    with get_context("spawn").Pool(1) as pool:
        early, dropped = pool.apply(full_within_a_line, (str(path), 1000))
    texts = path.read_bytes().split(b"\n")
    assert texts.pop() == b""
    whole = [json.loads(text)["request_id"] for text in texts if text.endswith(b"}")]
    assert len(texts) - len(whole) == 1  # the one that the limit cut
    assert 0 < early < 40
    assert whole[:early] == [f"early-{number}" for number in range(early)]
    assert whole[-1] == "late"
    assert dropped >= 40 - early


def test_a_pipe_that_nobody_reads_stops_nothing(started: AccessLog, path: Path) -> None:
    os.mkfifo(path)
    write_and_wait(started, "lost")
    assert started.dropped == 1
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_until_written(started, "kept")
        assert json.loads(os.read(reader, 1 << 16))["request_id"] == "kept"
    finally:
        os.close(reader)


def test_a_reader_that_stops_reading_gets_whole_lines_and_the_rest_is_dropped(started: AccessLog, path: Path) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for number in range(2000):
            started.write(record(str(number)))
        wait_until(lambda: started.written + started.dropped == 2000)
        assert started.written
        assert started.dropped
        got = os.read(reader, 1 << 20)
        assert [json.loads(line)["request_id"] for line in got.splitlines()] == [
            str(number) for number in range(started.written)
        ]
    finally:
        os.close(reader)


def test_a_pipe_that_gets_full_has_whole_lines_and_says_how_many(path: Path) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = LogFile(str(path))
    try:
        with pytest.raises(NotWrittenError) as caught:
            file.append((b"x" * 2999 + b"\n") * 100, patient=False)
        got = os.read(reader, 1 << 20)
        assert got == (b"x" * 2999 + b"\n") * caught.value.lines
        assert 0 < caught.value.lines < 100
    finally:
        os.close(reader)


def test_a_slow_reader_of_a_pipe_gets_every_line(path: Path) -> None:
    os.mkfifo(path)
    got = bytearray()

    def read() -> None:
        with path.open("rb") as file:
            while piece := file.read(4096):
                got.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    log = AccessLog(str(path))
    log.start()
    for number in range(3000):
        log.write(record(str(number)))
    log.close(PATIENCE_S)
    reader.join(PATIENCE_S)
    assert log.dropped == 0
    assert [json.loads(line)["request_id"] for line in got.splitlines()] == [str(number) for number in range(3000)]


def test_what_finds_no_room_is_dropped_and_counted_and_the_rest_written(path: Path) -> None:
    log = AccessLog(str(path), most_waiting=10)
    for number in range(25):
        log.write(record(str(number)))
    assert log.dropped == 15
    log.start()
    log.close()
    assert ids_of(path) == [str(number) for number in range(10)]
    assert log.written == 10


def test_the_caller_goes_on_while_the_file_is_stuck(path: Path) -> None:
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(str(path), most_waiting=100)
    log.start()
    began = time.monotonic()
    for number in range(20_000):
        log.write(record(str(number)))
    assert time.monotonic() - began < 10  # each of them takes a microsecond
    os.close(reader)
    log.close(PATIENCE_S)
    assert log.written + log.dropped == 20_000
    assert log.dropped


def test_a_deleted_folder_that_comes_back_is_written_to_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgw.gateway.records.access_log.AGAIN_S", 0.01)
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AccessLog(str(folder / "access.log"))
    log.start()
    write_and_wait(log, "1")
    shutil.rmtree(folder)
    write_and_wait(log, "lost")
    folder.mkdir()
    write_until_written(log, "2")
    log.close()
    assert ids_of(folder / "access.log")[-1] == "2"


def test_a_fault_while_lines_are_made_costs_these_lines_alone(started: AccessLog, path: Path) -> None:
    bad = record("bad")
    bad.status = object()  # type: ignore[assignment]
    started.write(bad)
    wait_until(lambda: started.dropped == 1)
    write_until_written(started, "good")
    assert ids_of(path) == ["good"]


@pytest.mark.parametrize("off_between", [False, True])
def test_a_new_path_is_not_held_up_by_what_was_wrong_with_the_old_one(path: Path, off_between: bool) -> None:
    log = AccessLog(str(path.parent / "no-such-folder" / "access.log"))
    log.start()
    write_and_wait(log, "lost")
    if off_between:
        log.path = None
        wait_until(lambda: log._file is None)
    log.path = str(path)
    write_and_wait(log, "kept")
    log.close()
    assert ids_of(path) == ["kept"]


# --- several processes ---


def test_a_line_that_another_process_is_writing_is_not_taken_for_a_broken_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b'{"request_id": "a')
    with path.open("ab", buffering=0) as other:
        waits = SimpleNamespace(sleep=lambda _seconds: other.write(b'"}\n'))  # it goes on meanwhile
        monkeypatch.setattr("llmgw.gateway.records.log_file.time", waits)
        LogFile(str(path)).append(b'{"request_id": "b"}\n')
    assert ids_of(path) == ["a", "b"]


def write_many(path: str, name: str, count: int) -> int:
    log = AccessLog(path)
    log.start()
    for number in range(count):
        log.write(record(f"{name}-{number}", model="m" * (number % 200)))
        if number % 50 == 0:
            time.sleep(0.001)  # so that the two take turns
    log.close(PATIENCE_S)
    return log.written


def test_processes_that_share_a_file_do_not_mix_their_lines(path: Path) -> None:
    with get_context("spawn").Pool(2) as pool:
        done = pool.starmap(write_many, [(str(path), "a", 3000), (str(path), "b", 3000)])
    assert done == [3000, 3000]
    ids = ids_of(path)
    for name in "ab":
        assert [one for one in ids if one.startswith(name)] == [f"{name}-{number}" for number in range(3000)]

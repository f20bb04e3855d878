# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import writer_lock
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.writer_lock import LockHeld, LockLost, WriterLock

HOLDER = """
import sys, time
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.writer_lock import WriterLock
WriterLock(sys.argv[1]).take("org/model: 12 GB of 65 GB", 5)
print("held", flush=True)
time.sleep(60)
"""


class Clock:
    """A clock that goes on by itself, and faster when told to."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    collections = Path(writer_lock.__file__).parents[6]
    command = [sys.executable, "-c", HOLDER, str(folder)]
    surroundings = {**os.environ, "PYTHONPATH": str(collections)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def elsewhere(folder: Path) -> None:
    """Whoever holds the lock is on another host."""
    (path,) = folder.glob("writer.*")
    said = json.loads(path.read_text()) | {"host": "n7", "process": "another-boot:1:1"}
    path.write_text(json.dumps(said))


def test_who_comes_second_is_told_who_holds_it_and_what_for(tmp_path: Path) -> None:
    with holder(tmp_path) as first, pytest.raises(LockHeld) as refused:
        WriterLock(str(tmp_path)).take("mine", 0.2)
    assert f"(pid {first.pid}, since " in str(refused.value)
    assert "org/model: 12 GB of 65 GB) holds" in str(refused.value)


def test_a_holder_that_was_killed_on_this_host_is_gone_at_once(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait(10)
        gone = WriterLock(str(tmp_path), stale_s=10_000).take("mine", 5)
    assert gone is not None
    assert gone.pid == first.pid


@pytest.mark.parametrize("host", ["this one", "a copy of it"])
def test_a_holder_whose_host_was_started_anew_is_gone_at_once_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    machine = tmp_path / "machine-id"
    machine.write_text("0123456789abcdef\n")
    monkeypatch.setattr(writer_lock, "_MACHINE", machine)
    folder = tmp_path / "locks"
    WriterLock(str(folder)).take("theirs", 0)
    (path,) = folder.glob("writer.*")
    said = json.loads(path.read_text())
    said["process"] = f"an-earlier-boot:{said['process'].partition(':')[2]}"
    if host == "a copy of it":
        said["host"] = "n7"
        path.write_text(json.dumps(said))
        with pytest.raises(LockHeld):
            WriterLock(str(folder)).take("mine", 0)
    else:
        path.write_text(json.dumps(said))
        assert WriterLock(str(folder)).take("mine", 0) is not None


def test_a_holder_on_another_host_is_gone_once_it_was_silent_for_long_enough(tmp_path: Path) -> None:
    WriterLock(str(tmp_path)).take("theirs", 0)
    elsewhere(tmp_path)
    clock = Clock()
    second = WriterLock(str(tmp_path), stale_s=100, clock=clock)
    with pytest.raises(LockHeld, match="n7"):
        second.take("mine", 0.1)
    gone = second.take("mine", 1000, lambda _holder: setattr(clock, "ahead", 200))
    assert gone is not None
    assert gone.host == "n7"


def test_a_holder_that_gives_signs_of_life_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_lock, "BEAT_S", 0.0)
    first = WriterLock(str(tmp_path))
    first.take("theirs", 0)
    released = threading.Event()

    def live() -> None:
        for _beat in range(20):
            first.beat("still at it")
            time.sleep(0.1)
        released.set()
        first.release()

    thread = threading.Thread(target=live)
    thread.start()
    waited: list[object] = []
    assert WriterLock(str(tmp_path), stale_s=1).take("mine", 50, waited.append) is None
    assert released.is_set()
    assert len(waited) == 1
    thread.join()


def test_who_was_taken_over_from_learns_it_and_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_lock, "BEAT_S", 0.0)
    first = WriterLock(str(tmp_path))
    first.take("theirs", 0)
    second = WriterLock(str(tmp_path), stale_s=0)
    second.take("mine", 5)
    with pytest.raises(LockLost):
        first.beat()
    first.release()
    second.beat()
    with pytest.raises(LockHeld):
        WriterLock(str(tmp_path)).take("a third one's", 0)


def test_a_lock_that_was_let_go_is_taken_at_once_and_leaves_one_file(tmp_path: Path) -> None:
    for _turn in range(5):
        lock = WriterLock(str(tmp_path))
        assert lock.take("mine", 0) is None
        lock.release()
    assert [path.name for path in tmp_path.iterdir()] == ["writer.5"]


def test_a_number_that_was_used_up_long_ago_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = WriterLock(str(tmp_path))
    for _turn in range(3):
        lock.take("theirs", 0)
        lock.release()
    lock.take("theirs", 0)
    slow = WriterLock(str(tmp_path))
    # It looked when the first one had just let go, and goes on only now.
    monkeypatch.setattr(slow, "_highest", lambda: (1, writer_lock.Holder("n1", 1, 0.0, released=True)))
    with pytest.raises(LockHeld):
        slow.take("mine", 0)
    assert [path.name for path in tmp_path.iterdir()] == ["writer.4"]
    monkeypatch.setattr(writer_lock, "BEAT_S", 0.0)
    lock.beat()


def test_a_file_that_is_not_written_yet_or_broken_is_held(tmp_path: Path) -> None:
    for content in ("", "{", '{"host": 1}', "[]"):
        (tmp_path / "writer.1").write_text(content)
        with pytest.raises(LockHeld, match="another writer"):
            WriterLock(str(tmp_path)).take("mine", 0)


LIKE = {"host": "n7", "pid": 1, "since": 0.0, "process": "a:b:c"}
ODD = {
    "no JSON": "{",
    "deep": "[" * 4000,
    "a list": "[1]",
    "no process": json.dumps(LIKE | {"process": "x"}),
    "a process of numbers": json.dumps(LIKE | {"process": 5}),
    "a process of too many parts": json.dumps(LIKE | {"process": "a:b:c:d"}),
    "a year that no calendar has": json.dumps(LIKE | {"since": 1e30}),
    "no time": json.dumps(LIKE | {"since": float("nan")}),
    "a pid that is a path": json.dumps(LIKE | {"pid": "../x"}),
    "a host that is none": json.dumps(LIKE | {"host": ["n7"]}),
    "released, nearly": json.dumps(LIKE | {"released": "no"}),
}


@pytest.mark.parametrize("content", list(ODD.values()), ids=list(ODD))
def test_a_file_that_tells_nothing_is_held_until_nobody_has_written_to_it_for_long_enough(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "writer.1").write_text(content)
    clock = Clock()
    lock = WriterLock(str(tmp_path), stale_s=100, clock=clock)
    with pytest.raises(LockHeld):
        lock.take("mine", 0)
    lock.take("mine", 1000, lambda _holder: setattr(clock, "ahead", 200))
    assert [path.name for path in tmp_path.iterdir()] == ["writer.2"]


def test_a_file_that_tells_nothing_and_is_written_to_is_a_living_holders(tmp_path: Path) -> None:
    path = tmp_path / "writer.1"
    path.write_text("{}")
    clock = Clock()
    released = threading.Event()

    def live() -> None:
        for turn in range(15):
            time.sleep(0.2)
            os.utime(path, (turn, turn))
            clock.ahead += 60
        released.set()
        path.write_text(json.dumps(LIKE | {"released": True}))

    thread = threading.Thread(target=live)
    thread.start()
    # It waits for 900 s, by this clock, and never for 400 s without a sign of life.
    WriterLock(str(tmp_path), stale_s=400, clock=clock).take("mine", 1000)
    assert released.is_set()
    thread.join()


def test_what_a_newer_version_adds_to_its_file_is_no_reason_not_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "writer.1").write_text(json.dumps(LIKE | {"newer": 1, "released": True}))
    assert WriterLock(str(tmp_path)).take("mine", 0) is None


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
def test_what_is_no_file_is_held_until_it_is_old_and_harms_nobody(tmp_path: Path, kind: str) -> None:
    victim, odd = tmp_path / "victim", tmp_path / "locks/writer.1"
    odd.parent.mkdir()
    if kind == "directory":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    else:
        victim.write_text(json.dumps(LIKE | {"released": True}))
        odd.symlink_to(victim)
    with pytest.raises(LockHeld):
        WriterLock(str(odd.parent)).take("mine", 0)
    lock = WriterLock(str(odd.parent), stale_s=0)
    lock.take("mine", 5)
    lock.release()
    assert kind != "link" or json.loads(victim.read_text()) == LIKE | {"released": True}


def test_of_many_that_want_it_one_at_a_time_has_it(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        lock = WriterLock(str(tmp_path))
        lock.take(str(number), 50)
        inside.append(number)
        most.append(len(inside))
        time.sleep(0.02)
        inside.remove(number)
        lock.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(55)
    assert most == [1] * 8

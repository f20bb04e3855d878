# SPDX-License-Identifier: Apache-2.0
"""A process that looks at a machine may die or never end; the one that asked gets a result or a reason in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import apart, process
from tests.unit.module_utils.test_process import ENVIRONMENT, LONG, ended


def test_the_result_is_that_of_the_function() -> None:
    assert apart.call(lambda: {"pid": [1, "two", None]}, 20) == {"pid": [1, "two", None]}
    assert apart.call(os.getpid, 20) != os.getpid()


@pytest.mark.parametrize("seconds", [1e9, 1e300, float("inf")])
def test_any_time_may_be_given(seconds: float) -> None:
    assert apart.call(lambda: 7, seconds) == 7


def test_a_result_larger_than_a_pipe_comes_whole() -> None:
    assert apart.call(lambda: "x" * 3_000_000, 20) == "x" * 3_000_000


def test_what_the_function_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match="no such part"):
        apart.call(lambda: int("no such part"), 20)


def test_a_process_that_crashes_is_told_by_its_signal() -> None:
    with pytest.raises(apart.NoResult, match="killed by signal 9"):
        apart.call(lambda: os.kill(os.getpid(), signal.SIGKILL), 20)


def test_a_process_that_just_ends_is_told_by_its_status() -> None:
    with pytest.raises(apart.NoResult, match="ended with status 7"):
        apart.call(lambda: os._exit(7), 20)


def test_a_process_that_does_not_end_is_killed_in_time(tmp_path: Path) -> None:
    noted = tmp_path / "pid"

    def hang() -> None:
        noted.write_text(str(os.getpid()), encoding="utf-8")
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(60)

    begun = time.monotonic()
    with pytest.raises(apart.NoResult, match="did not end within 0 s"):
        apart.call(hang, 0.4)
    assert time.monotonic() - begun < 40
    assert ended(int(noted.read_text(encoding="utf-8")))


def test_a_thread_that_never_ends_does_not_keep_the_result_back() -> None:
    def answer() -> str:
        threading.Thread(target=time.sleep, args=(60,)).start()
        return "answer"

    begun = time.monotonic()
    assert apart.call(answer, 30) == "answer"
    assert time.monotonic() - begun < 25


def test_commands_that_run_on_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    noted = tmp_path / "pid"

    def start() -> None:
        command = ["sh", "-c", f"echo $$ > {noted}.new; mv {noted}.new {noted}; sleep {LONG}"]
        threading.Thread(target=process.run, args=(command, 60, ENVIRONMENT), daemon=True).start()
        while not noted.exists():
            time.sleep(0.01)

    apart.call(start, 20)
    assert ended(int(noted.read_text(encoding="utf-8")))


def test_both_end_when_the_one_that_asked_is_killed(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    code = f"""
import os, time
from {apart.__name__} import call
def note():
    open("{noted}.new", "w").write(str(os.getpid()))
    os.rename("{noted}.new", "{noted}")
    time.sleep(60)
call(note, 60)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as caller:
        deadline = time.monotonic() + 20
        while not noted.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        caller.kill()
    assert ended(int(noted.read_text(encoding="utf-8")))


@pytest.mark.parametrize("failing", ["pipe", "fork"])
def test_without_room_for_a_process_the_function_is_called_here(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, failing, refuse)
    assert apart.call(os.getpid, 20) == os.getpid()


def test_what_it_prints_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    def noise() -> None:
        os.write(1, b"noise")
        os.write(2, b"noise")

    apart.call(noise, 20)
    assert capfd.readouterr() == ("", "")

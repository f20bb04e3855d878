# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import host_lock

HOLDER = """
import sys, time
from ansible_collections.llmgw.fleet.plugins.module_utils import host_lock
with host_lock.hold(sys.argv[1], 1):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    collections = Path(host_lock.__file__).parents[5]
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(collections)},
    )


def test_a_second_run_is_refused_with_the_first_ones_pid_and_time(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        began = time.monotonic()
        with pytest.raises(host_lock.LockHeldError) as refused, host_lock.hold(str(tmp_path / "lock"), 0.3):
            pass
        assert 0.3 <= time.monotonic() - began < 15
        holder.kill()
    assert re.search(rf"\(pid {holder.pid}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\) holds", str(refused.value))


def test_whoever_waits_in_vain_is_told_who_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first, second = host_lock.hold(path, 0, "ops@ctl1\n\x1b[31m"), host_lock.hold(path, 0, "ops@ctl2")
    with first, pytest.raises(host_lock.LockHeldError) as refused, second:
        pass
    assert f"(pid {os.getpid()}, by ops@ctl1[31m, since " in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_full_disk_keeps_no_lock_from_holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    path = str(tmp_path / "lock")
    refused = pytest.raises(host_lock.LockHeldError, match="another llmgw run holds")
    with host_lock.hold(path, 0), refused, host_lock.hold(path, 0):
        pass


def test_a_killed_holder_holds_nothing(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with host_lock.hold(str(tmp_path / "lock"), 5):
            assert f'"pid": {os.getpid()}' in (tmp_path / "lock").read_text()


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with pytest.raises(ZeroDivisionError), host_lock.hold(path, 0):
        raise ZeroDivisionError
    with host_lock.hold(path, 0):
        pass


def test_a_holder_whose_file_says_nothing_is_still_refused_politely(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with host_lock.hold(str(path), 0):
        path.write_text("rubbish")
        with pytest.raises(host_lock.LockHeldError, match="another llmgw run holds"), host_lock.hold(str(path), 0):
            pass

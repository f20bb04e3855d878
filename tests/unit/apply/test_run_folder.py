# SPDX-License-Identifier: Apache-2.0
"""Folders of playbook runs, and of runs that were killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from llmgw.apply.run_folder import remove_left_behind, run_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def dead_pid() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    return process.pid


def left_behind(directory: Path, pid: int) -> Path:
    folder = directory / f"llmgw-run-{pid}-abc"
    (folder / "env").mkdir(parents=True)
    (folder / "env" / "extravars").write_text("{}")
    return folder


@contextmanager
def process_with(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    code = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        yield process
        process.kill()


def test_a_run_has_a_folder_of_its_own_that_goes_away_with_it(temporary: Path) -> None:
    with run_folder() as folder:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o077 == 0
        assert str(os.getpid()) in folder.name
        (folder / "file").write_text("x")
    assert list(temporary.iterdir()) == []


def test_what_a_killed_run_left_behind_goes_away_with_the_next_one(temporary: Path) -> None:
    folder = left_behind(temporary, dead_pid())
    with run_folder():
        assert not folder.exists()


def test_folders_of_runs_that_live_and_of_others_stay(temporary: Path) -> None:
    mine = left_behind(temporary, os.getpid())
    others = [temporary / name for name in ("llmgw-run-x-abc", "llmgw-run-", "llmgw-runs-1-abc")]
    for path in others:
        path.mkdir()
    (temporary / f"llmgw-run-{dead_pid()}-file").write_text("no folder")
    target = temporary / "elsewhere"
    target.mkdir()
    link = temporary / f"llmgw-run-{dead_pid()}-link"
    link.symlink_to(target)
    before = sorted(temporary.iterdir())
    remove_left_behind(temporary)
    assert sorted(temporary.iterdir()) == before
    assert (mine / "env" / "extravars").exists()


def test_the_folder_of_an_ansible_that_goes_on_alone_stays_until_that_has_ended(temporary: Path) -> None:
    folder = left_behind(temporary, dead_pid())
    with process_with(ANSIBLE_LOCAL_TEMP=str(folder / "tmp")):
        remove_left_behind(temporary)
        assert folder.exists()
    remove_left_behind(temporary)
    assert not folder.exists()


def test_a_directory_that_is_not_there_is_no_trouble(temporary: Path) -> None:
    remove_left_behind(temporary / "none")

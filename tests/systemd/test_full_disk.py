# SPDX-License-Identifier: Apache-2.0
"""A disk that is full from any write on: nothing stops for what cannot be written, the next run goes on (R4, Q2)."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic, units_apply
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import Manager, SystemdError
from ansible_collections.llmgw.fleet.plugins.module_utils.unwritten import UnwrittenError
from tests.systemd.node import Node, Outcome, free_port
from tests.systemd.test_interrupted import Scene, everything, words_alone


class Disk:
    """Takes a number of writes and is full then, until somebody frees it. Deleting and renaming go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.room: int | None = None
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._write)

    def _write(self, handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            self.writes += 1
            if self.room is not None and self.writes > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._fsync(handle)

    def fill_after(self, writes: int) -> None:
        self.writes, self.room = 0, writes

    def free(self) -> None:
        self.writes, self.room = 0, None


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def pids(scene: Scene) -> dict[str, int]:
    return {unit.name: scene.node.main_pid(unit.name) for unit in scene.before}


def files(scene: Scene) -> dict[str, str]:
    """What systemd would read, and nothing that a run leaves beside it."""
    return {path.name: path.read_text() for path in scene.node.unit_dir.iterdir() if path.is_file()}


def finish(scene: Scene) -> Outcome | UnwrittenError:
    try:
        return scene.finish()
    except UnwrittenError as error:
        return error


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene_of", [everything, words_alone])
def test_a_disk_that_is_full_from_any_write_on_stops_nothing_and_the_next_run_goes_on(
    node: Node, disk: Disk, scene_of: Callable[[Node], Scene]
) -> None:
    scene = scene_of(node)
    scene.reset()
    disk.free()
    scene.finish()
    total = disk.writes
    scene.reset()
    before, texts = pids(scene), files(scene)
    refused = 0
    for room in range(total):
        disk.fill_after(room)
        ended = finish(scene)
        if isinstance(ended, UnwrittenError):
            refused += 1
            assert "cannot be written: the disk is full" in str(ended)
            assert "No unit was stopped, restarted or changed. Free space on this host" in str(ended)
            assert (pids(scene), files(scene)) == (before, texts)
            continue
        assert {result.state for result in ended.results.values()} <= {"ready", "absent"}, room
        disk.free()
        scene.finish()
        scene.check()
        again = scene.finish()
        assert (again.changed, again.diff) == (False, [])
        scene.reset()
    assert 0 < refused < total


def fills_once_all_is_written(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_up = units_apply.Apply._bring_up

    def fills(self: units_apply.Apply, *arguments: Any) -> None:
        disk.fill_after(0)
        bring_up(self, *arguments)

    monkeypatch.setattr(units_apply.Apply, "_bring_up", fills)


@pytest.mark.timeout(180)
def test_what_was_there_is_put_back_also_when_the_disk_filled_up_meanwhile(
    node: Node, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    good, bad = node.engine("back", port), node.engine("back", port, "--fail-load 0.1")
    node.apply([good])
    fills_once_all_is_written(disk, monkeypatch)
    result = node.apply([bad], generation=2).results[good.name]
    assert (result.state, result.put_back) == ("failed", True)
    seen = node.look()[good.name]
    assert (seen.running_digest, seen.actual_text_digest) == (good.process_digest, good.text_digest)
    assert [path.name for path in node.unit_dir.iterdir() if path.is_file() and "back" in path.name] == [good.name]


@pytest.mark.timeout(180)
def test_an_older_version_that_cannot_be_written_is_not_said_to_be_back(
    node: Node, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    good, never = node.engine("older", port), node.engine("older", port, "--fail-load 0.1")
    bad = node.engine("older", port, "--fail-load 0.2")
    node.apply([good])
    node.systemctl("stop", good.name)
    (node.unit_dir / good.name).write_text(never.text)
    node.systemctl("daemon-reload")
    fills_once_all_is_written(disk, monkeypatch)
    result = node.apply([bad], generation=2).results[good.name]
    assert (result.state, result.put_back) == ("failed", False)
    assert f"; the previous version could not be put back: {node.unit_dir / good.name} cannot be" in result.sentence
    disk.free()
    monkeypatch.undo()
    assert node.apply([good], generation=3).results[good.name].state == "ready"


@pytest.mark.timeout(180)
def test_files_of_which_one_cannot_be_put_in_place_are_all_as_they_were(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = everything(node)
    scene.reset()
    before, texts = pids(scene), files(scene)
    put = atomic.put
    last = max(unit.name for unit in scene.after)

    def fails(temporary: str, path: str) -> None:
        if path.endswith(last) and not temporary.endswith(".before"):
            atomic.drop(temporary)
            raise OSError(errno.EIO, "Input/output error", path)
        put(temporary, path)

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "put", fails)
        with pytest.raises(UnwrittenError, match=rf"{last}: Input/output error\. No unit was stopped"):
            scene.finish()
    assert (pids(scene), files(scene)) == (before, texts)
    scene.finish()
    scene.check()


@pytest.mark.timeout(180)
def test_units_that_cannot_be_enabled_leave_all_files_as_they_were(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = everything(node)
    scene.reset()
    before, texts = pids(scene), files(scene)

    def fails(*_: object) -> None:
        raise SystemdError("systemctl enable: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Manager, "enable", fails)
        with pytest.raises(UnwrittenError, match=r"No space left on device\. No unit was stopped"):
            scene.finish()
    assert (pids(scene), files(scene)) == (before, texts)
    scene.finish()
    scene.check()


@contextmanager
def small_filesystem(path: Path) -> Iterator[None]:
    """A filesystem of one MiB at a directory. Engines of this manager see what lies under it: there they log."""
    (path / "logs").mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.timeout(180)
def test_a_real_disk_that_is_full_is_named_and_once_there_is_space_the_run_goes_on(node: Node) -> None:
    port = free_port()
    old, new = node.engine("real", port), node.engine("real", port, "--max-num-seqs 2")
    with small_filesystem(node.state_dir):
        node.apply([old], generation=1)
        pid = node.main_pid(old.name)
        filler = node.state_dir / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as stream:
            while stream.write(b"x" * 4096):
                pass
        with pytest.raises(UnwrittenError) as failed:
            node.apply([new], generation=2)
        assert str(failed.value) == (
            f"{node.state_dir}/applied.json cannot be written: the disk is full (0 of 1 MiB are free in "
            f"{node.state_dir}). No unit was stopped, restarted or changed. Free space on this host (`df -h "
            f"{node.state_dir}` and `df -i {node.state_dir}` show what is left), then apply again."
        )
        assert node.main_pid(old.name) == pid
        assert [path.name for path in node.state_dir.iterdir() if path.name.startswith(".")] == []
        filler.unlink()
        assert node.apply([new], generation=2).results[new.name].state == "ready"
        assert node.look()[new.name].running_digest == new.process_digest

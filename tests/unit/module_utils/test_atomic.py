# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic


def test_a_write_replaces_the_content_and_sets_the_mode_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "unit"
    path.write_text("old")
    before = os.umask(0o077)
    try:
        atomic.write(str(path), b"new", 0o644)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failed_write_keeps_the_old_content_and_leaves_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "unit"
    path.write_text("old")

    def full(handle: int) -> None:
        os.fstat(handle)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*unit"):
        atomic.write(str(path), b"new", 0o644)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["unit"]


def test_what_lies_unfinished_is_not_a_unit_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(entry.name for entry in tmp_path.iterdir()))
    atomic.write(str(tmp_path / "llmgw-a.0.0.service"), b"new", 0o644)
    assert seen[0].startswith(".")
    assert not seen[0].endswith(".service")


def test_a_file_is_on_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    replace = Path.replace

    def renamed(path: Path, target: str) -> Path:
        order.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", lambda handle: order.append(str(Path(f"/proc/self/fd/{handle}").readlink())))
    monkeypatch.setattr(Path, "replace", renamed)
    atomic.write(str(tmp_path / "unit"), b"new", 0o644)
    assert [Path(name).name.startswith(".unit.") for name in order] == [True, False, False]
    assert order[1:] == ["rename", str(tmp_path)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory another group")
def test_a_file_can_take_the_group_of_its_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, -1, 12345)
    atomic.write(str(tmp_path / "bundle.json"), b"{}", 0o640, group_of_directory=True)
    atomic.write(str(tmp_path / "unit"), b"{}", 0o640)
    assert (tmp_path / "bundle.json").stat().st_gid == 12345
    assert (tmp_path / "unit").stat().st_gid == os.getegid()


def test_removing_says_whether_there_was_something(tmp_path: Path) -> None:
    (tmp_path / "unit").write_text("x")
    assert atomic.remove(str(tmp_path / "unit")) is True
    assert atomic.remove(str(tmp_path / "unit")) is False

# SPDX-License-Identifier: Apache-2.0
"""What reaches the disk of a host's files; tests/systemd/test_full_disk.py has what becomes of its units."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import FileChange, Step
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import USER, Manager
from ansible_collections.llmgw.fleet.plugins.module_utils.unit_files import UnitFiles
from tests.unit.module_utils.unit_texts import NAME, running, wanted

NEW, OLD = wanted("/bin/new"), wanted("/bin/old")


class Site:
    """A directory of units that holds an old one, and the step that replaces it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.unit = directory / NAME
        self.unit.write_text(OLD.text)
        self.beside = directory / "llmgw-chat.0.0.env"
        manager = Manager(Host(), USER)
        manager.unit_dir = str(directory)
        self.files = UnitFiles(manager, str(directory))
        changes = (FileChange(str(self.unit), OLD.text, NEW.text), FileChange(str(self.beside), None, "A=1\n"))
        self.step = Step(NAME, "restarted", NEW, running(OLD), changes)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "units")


def refuse_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("links", [True, False])
def test_new_files_are_there_and_the_old_ones_until_the_run_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        refuse_links(monkeypatch)
    site.files.write([site.step])
    assert (site.unit.read_text(), site.beside.read_text()) == (NEW.text, "A=1\n")
    assert site.names() == [f".{NAME}.before", site.beside.name, NAME]
    site.files.forget()
    assert site.names() == [site.beside.name, NAME]


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("at", [0, 1])
def test_one_that_cannot_be_put_in_place_takes_all_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, links: bool, at: int
) -> None:
    if not links:
        refuse_links(monkeypatch)
    put, count = atomic.put, [0]

    def fails(temporary: str, path: str) -> None:
        count[0] += 1
        if count[0] == at + 1:
            atomic.drop(temporary)
            raise OSError(errno.EIO, "Input/output error", path)
        put(temporary, path)

    monkeypatch.setattr(atomic, "put", fails)
    with pytest.raises(OSError, match="Input/output error"):
        site.files.write([site.step])
    assert (site.unit.read_text(), site.names()) == (OLD.text, [NAME])


def test_a_disk_without_room_for_the_second_file_leaves_the_first_as_it_was(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = atomic.stage

    def full(path: str, content: bytes, mode: int) -> str:
        if path == str(site.unit):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return stage(path, content, mode)

    monkeypatch.setattr(atomic, "stage", full)
    with pytest.raises(OSError, match="No space left"):
        site.files.write([site.step])
    assert (site.unit.read_text(), site.names()) == (OLD.text, [NAME])


def test_an_old_file_comes_back_where_nothing_can_be_written(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    site.files.write([site.step])
    monkeypatch.setattr(atomic, "write", full)
    with pytest.raises(OSError, match="No space left"):
        site.files.place(str(site.unit), "another text\n")
    site.files.place(str(site.unit), OLD.text)
    assert site.unit.read_text() == OLD.text
    site.files.forget()
    assert site.names() == [site.beside.name, NAME]


def test_what_a_killed_run_left_is_not_taken_for_the_file_before(site: Site) -> None:
    (site.directory / f".{NAME}.before").write_text("of long ago\n")
    site.files.write([site.step])
    assert (site.directory / f".{NAME}.before").read_text() == OLD.text

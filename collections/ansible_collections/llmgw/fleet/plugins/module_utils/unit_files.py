# SPDX-License-Identifier: BSD-2-Clause
"""Brings the files of a host's units to disk: all of them, or none is changed (R4, Q2).

Private to llmgw. All new texts are brought to disk beside the old ones first. A disk that is full, read-only or broken
shows there, while every unit runs on as it was. Then they are put in place, which takes no space to speak of. The old
files are kept under another name until the run ends: to bring one back takes no space either.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic, systemd
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import make_directory

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import FileChange, Step

_MODE = 0o644


class UnitFiles:
    """The files of one run. `forget` ends it."""

    def __init__(self, manager: systemd.Manager, state_dir: str) -> None:
        self._manager = manager
        self._state_dir = state_dir
        self._kept: dict[str, str] = {}

    def write(self, steps: Sequence[Step]) -> None:
        """Writes what these steps change, those files beside a unit before the unit, and enables what is not.

        systemd has yet to read them. Drop-ins go last: until then they are seen as what they are, edits. Raises OSError
        or SystemdError, and then everything is as it was.
        """
        changes = [one for step in steps for one in self._in_order(step)]
        disabled = [step.name for step in steps if step.observed is None or step.observed.enabled is not True]
        for step in steps:
            self._make_log_directory(step.wanted.text if step.wanted else None)
        staged = self._staged(changes)
        done: list[str] = []
        try:
            for path in list(staged):
                done.append(path)
                atomic.put(staged.pop(path), path)
            if disabled:
                self._manager.enable(disabled)
            for one in changes:
                if one.after is None:
                    remove(one.path)
        except BaseException:
            _drop(staged)
            self._take_back(done, [step.name for step in steps if step.observed is None])
            raise

    def _staged(self, changes: Sequence[FileChange]) -> dict[str, str]:
        """Where the new texts lie, by path. Raises OSError, and leaves none then."""
        staged: dict[str, str] = {}
        try:
            for one in changes:
                if one.after is not None:
                    make_directory(Path(one.path).parent)
                    staged[one.path] = atomic.stage(one.path, one.after.encode("utf-8"), _MODE)
                    self._keep(one.path)
        except BaseException:
            _drop(staged)
            self.forget()
            raise
        return staged

    def _take_back(self, paths: Sequence[str], new: Sequence[str]) -> None:
        """Brings back the files as they were; what is not there in the end is seen, and mended, by the next run."""
        for path in reversed(paths):
            with contextlib.suppress(OSError):
                self._as_it_was(path)
        self.forget()
        if new:
            with contextlib.suppress(systemd.SystemdError):
                self._manager.disable(new)

    def place(self, path: str, text: str) -> None:
        """Puts back one file that an earlier version of a unit had. Raises OSError."""
        content = text.encode("utf-8")
        try:
            make_directory(Path(path).parent)
            atomic.write(path, content, _MODE)
        except OSError:
            kept = self._kept.get(path)
            if kept is None or Path(kept).read_bytes() != content:
                raise
            self._as_it_was(path)

    def forget(self) -> None:
        """Lets go of the old files."""
        for kept in self._kept.values():
            atomic.drop(kept)
        self._kept.clear()

    def _keep(self, path: str) -> None:
        """Gives an old file a second name; where the filesystem has no such thing, a copy. Raises OSError."""
        kept = f"{Path(path).parent}/.{Path(path).name}.before"
        atomic.drop(kept)  # of a run that was killed
        if not Path(path).exists():
            return
        self._kept[path] = kept
        try:
            os.link(path, kept)
        except OSError:
            shutil.copyfile(path, kept)

    def _as_it_was(self, path: str) -> None:
        kept = self._kept.pop(path, None)
        if kept is None:
            atomic.remove(path)
        else:
            atomic.put(kept, path)
            atomic.drop(kept)  # which is still there when nothing had taken the file's place

    def _in_order(self, step: Step) -> list[FileChange]:
        return sorted(step.files, key=lambda one: one.path == f"{self._manager.unit_dir}/{step.name}")

    def _make_log_directory(self, text: str | None) -> None:
        path = systemd.log_path(text)
        if path is not None and path.startswith(self._state_dir + "/"):
            make_directory(Path(path).parent)


def _drop(staged: dict[str, str]) -> None:
    for temporary in staged.values():
        atomic.drop(temporary)


def remove(path: str) -> None:
    """Deletes a file beside a unit, and the drop-in directory that it leaves empty."""
    atomic.remove(path)
    parent = Path(path).parent
    if parent.name.endswith(".service.d"):
        with contextlib.suppress(OSError):
            parent.rmdir()

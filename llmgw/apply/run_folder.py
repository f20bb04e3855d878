# SPDX-License-Identifier: Apache-2.0
"""The folder of one playbook run, and those that runs left behind which were killed."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "llmgw-run-"
_NAME = re.compile(rf"{_PREFIX}(?P<pid>[0-9]+)-[^/]+")


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder that only this user can read and that goes away at the end. Folders of dead runs go away at its
    beginning: a process that is killed cannot remove its own.
    """
    remove_left_behind(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_behind(directory: Path) -> None:
    """Removes this user's folders in `directory` of which neither the run lives nor the Ansible that it had started,
    which goes on alone. Raises nothing.
    """
    for folder in filter(_is_of_a_dead_run, _entries(directory)):
        if not _is_used(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob(f"{_PREFIX}*"))
    except OSError:
        return []


def _is_of_a_dead_run(folder: Path) -> bool:
    found = _NAME.fullmatch(folder.name)
    if found is None:
        return False
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # another user's process lives, or somebody else has just removed the folder
        return False
    return False


def _is_used(folder: Path) -> bool:
    """Whether the folder is named in the environment of some process of this user."""
    named = os.fsencode(folder)
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if named in environment.read_bytes():
                return True
        except OSError:  # another user's, or gone
            continue
    return False

# SPDX-License-Identifier: BSD-2-Clause
"""The versions of one engine on a node: `ROOT/KIND/VERSION/`, each with a mark, and `current`, which names one of them.

Private to llmgw. A folder is an engine only from the moment its mark says that it is complete. What has no mark is not
llmgw's, and is never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic

CURRENT = "current"
MARK = "llmgw-engine.json"
_MARK_BEGUN = f".{MARK}."
"""How `atomic` names what becomes the mark."""
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]*")
_REMOVED = ".removed-"
_DIGITS = 8
_KEPT_NAMES = frozenset((CURRENT, "bin", "include", "lib", "lib64", "share"))

ABSENT = "absent"
FOREIGN = "foreign"
UNFINISHED = "unfinished"
COMPLETE = "complete"


class Version(NamedTuple):
    """A version that llmgw has put on the node; `installed` is when, in Unix seconds."""

    name: str
    installed: float
    complete: bool


class StoreError(Exception):
    """What is on the node and cannot be worked with; the message says where and what to do."""


def folder_name(version: str, recipe: Dict[str, Any]) -> str:
    """The version, and behind it a digest of what else decides what is in the folder, where there is any.

    So that whatever is changed, a folder in which an engine runs stays as it is. Raises StoreError for a version that
    is no name of a folder.
    """
    if not _NAME.fullmatch(version) or version in _KEPT_NAMES:
        raise StoreError(f"{version!r} is no version: use letters, digits and . + ! _ -")
    said = {key: value for key, value in recipe.items() if value}
    if not said:
        return version
    text = json.dumps(said, sort_keys=True)
    return f"{version}-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:_DIGITS]}"


class Store:
    """The folder `ROOT/KIND`. What is missing reads as absent; writes raise OSError."""

    def __init__(self, root: str, kind: str) -> None:
        self.directory = f"{root.rstrip('/')}/{kind}"

    def folder(self, name: str) -> str:
        """Path of a version."""
        return f"{self.directory}/{name}"

    def state(self, name: str) -> str:
        """Whether a version is absent, unfinished, complete, or a folder that llmgw did not make.

        A folder in which nothing is but a mark that was never written whole counts as absent.

        One whose interpreter is gone, as after an upgrade of the operating system, is unfinished.
        """
        folder = self.folder(name)
        if not os.path.lexists(folder):
            return ABSENT
        mark = _mark(folder)
        if mark is None:
            return ABSENT if _is_empty(folder) else FOREIGN
        whole = mark.get("complete") is True and not _dangles(f"{folder}/bin/python")
        return COMPLETE if whole else UNFINISHED

    def current(self) -> str | None:
        """Name of the version that is current; None without one."""
        try:
            target = os.readlink(self.folder(CURRENT))
        except OSError:
            return None
        return target.rstrip("/").rpartition("/")[2] if os.path.isdir(self.folder(CURRENT)) else None

    def make_current(self, name: str) -> None:
        """Moves `current` to a version in one step."""
        link = self.folder(CURRENT)
        if os.path.lexists(link) and (not os.path.islink(link) or "/" in os.readlink(link)):
            raise StoreError(f"{link} is no link of llmgw's to a version beside it. Move it away and run this again")
        beside = self.folder(f".{CURRENT}-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        os.symlink(name, beside)
        os.replace(beside, link)

    def begin(self, name: str, about: Dict[str, Any]) -> str:
        """An empty folder for a version, marked as unfinished; what an earlier attempt left there is gone."""
        if self.state(name) == UNFINISHED:
            self.remove(name)
        folder = self.folder(name)
        os.makedirs(folder, mode=0o755, exist_ok=True)
        for left in _names(folder):
            if left.startswith(_MARK_BEGUN):
                os.unlink(f"{folder}/{left}")
        self._write_mark(folder, {**about, "complete": False})
        return folder

    def finish(self, name: str, about: Dict[str, Any]) -> None:
        """Marks a version as complete: the last thing that is written to its folder."""
        self._write_mark(self.folder(name), {**about, "complete": True})

    def remove(self, name: str) -> None:
        """Takes a version away. It is gone under its name at once, however long its files take."""
        doomed = self.folder(f"{_REMOVED}{name}")
        shutil.rmtree(doomed, ignore_errors=True)
        os.rename(self.folder(name), doomed)
        shutil.rmtree(doomed)

    def sweep(self) -> None:
        """Removes what an interrupted removal left."""
        for name in _names(self.directory):
            if name.startswith((_REMOVED, f".{CURRENT}-")):
                path = self.folder(name)
                os.unlink(path) if os.path.islink(path) else shutil.rmtree(path, ignore_errors=True)

    def versions(self) -> List[Version]:
        """The versions that llmgw put here, the one installed last first."""
        found = []
        for name in _names(self.directory):
            mark = None if name.startswith(".") or name in _KEPT_NAMES else _mark(self.folder(name))
            if mark is not None:
                installed = os.stat(f"{self.folder(name)}/{MARK}").st_mtime
                found.append(Version(name, installed, mark.get("complete") is True))
        return sorted(found, key=lambda version: (-version.installed, version.name))

    @staticmethod
    def _write_mark(folder: str, mark: Dict[str, Any]) -> None:
        text = json.dumps(mark, indent=1, sort_keys=True) + "\n"
        atomic.write(f"{folder}/{MARK}", text.encode("utf-8", "surrogateescape"), 0o644)


def unneeded(versions: Sequence[Version], current: str, used: Sequence[str], keep: int) -> List[str]:
    """Names of the versions that may go, sorted: neither current, nor used, nor among the `keep` newest of the rest.

    An unfinished one is of no use to anybody.
    """
    rest = [version for version in versions if version.name != current and version.name not in used]
    idle = [version.name for version in rest if version.complete]
    return sorted(idle[keep:] + [version.name for version in rest if not version.complete])


def _mark(folder: str) -> Dict[str, Any] | None:
    try:
        with open(f"{folder}/{MARK}", encoding="utf-8", errors="surrogateescape") as stream:
            said = json.load(stream)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _is_empty(folder: str) -> bool:
    """Whether nothing is in it but what an end in the middle of the first mark left."""
    try:
        return all(name.startswith(_MARK_BEGUN) for name in os.listdir(folder))
    except NotADirectoryError:
        return False


def _dangles(link: str) -> bool:
    return os.path.islink(link) and not os.path.exists(link)

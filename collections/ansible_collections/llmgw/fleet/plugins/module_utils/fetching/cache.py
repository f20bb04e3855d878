# SPDX-License-Identifier: BSD-2-Clause
"""A repository's place in a hub cache: what is there, what is left over, how much has come (D12). Private to llmgw."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_hub
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Bounds, Job, Search
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.child import PARTIAL
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import hub_files
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

DEFAULT_REVISION = "main"
_LOOK_S = 60.0


@dataclass(frozen=True)
class HubFile:
    """A file of the repository as the hub has it: bytes, and the name of its blob."""

    name: str
    size: Optional[int]
    blob: Optional[str]

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> HubFile:
        """The file that the child tells of."""
        return cls(about["name"], about.get("size"), about.get("blob"))


class Repository:
    """One repository in the cache `directory`."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.name = name
        folder = "models--" + name.replace("/", "--")
        self.path = f"{directory.rstrip('/')}/{folder}"
        self.blobs = f"{self.path}/blobs"
        self._locks = f"{directory.rstrip('/')}/.locks/{folder}"

    def seen(self, revision: Optional[str]) -> Optional[Weights]:
        """The weights of this revision as discovery sees them, whole or not. Without one those of `main`: an engine
        that asks for no revision opens those.
        """
        outcome = Search(Host(), Bounds(_LOOK_S), weights_hub.visit, lambda path: path).run(
            [Job(weights_hub.REPOSITORY, self.path, self.path)]
        )
        wanted = revision or DEFAULT_REVISION
        found = [one.weights for one in outcome.seen]
        return next((one for one in found if one.revision == wanted or wanted in one.refs), None)

    def missing(self, commit: str, files: tuple[HubFile, ...]) -> tuple[tuple[HubFile, Optional[int]], ...]:
        """The files that are not there whole, each with the bytes still to come (None: nobody told its size)."""
        return tuple(self._missing(commit, files))

    def _missing(self, commit: str, files: tuple[HubFile, ...]) -> Iterator[tuple[HubFile, Optional[int]]]:
        for one in files:
            there = [_size(f"{self.path}/snapshots/{commit}/{one.name}")]
            there += [_size(f"{self.blobs}/{one.blob}")] if one.blob else []
            if any(size is not None and one.size in (None, size) for size in there):
                continue
            begun = _size(f"{self.blobs}/{one.blob}{PARTIAL}") if one.blob else None
            yield one, None if one.size is None else max(0, one.size - (begun or 0))

    def clear(self) -> int:
        """Removes what earlier downloads left and none will go on with; the bytes that are free again.

        The library begins a file anew each time. What another program is fetching now holds the lock of its blob.
        """
        freed = 0
        for entry in _entries(self.blobs):
            blob = entry.name.split(".")[0]
            if entry.name.endswith(".incomplete") and not entry.name.endswith(PARTIAL) and not self._is_held(blob):
                with contextlib.suppress(OSError):
                    size = entry.stat(follow_symlinks=False).st_size
                    os.unlink(entry.path)
                    freed += size
        return freed

    def discard_broken(self, commit: str, files: tuple[HubFile, ...]) -> tuple[str, ...]:
        """Removes files that have another size than the hub says, so that they are fetched again; their names. A
        machine that loses power may leave such files, and the library takes them for whole.
        """
        broken = []
        for one in files:
            pointer = f"{self.path}/snapshots/{commit}/{one.name}"
            blob = os.path.realpath(pointer) if os.path.exists(pointer) else f"{self.blobs}/{one.blob}"
            size = _size(blob)
            if one.size is None or size in (None, one.size) or not blob.startswith(f"{os.path.realpath(self.path)}/"):
                continue
            for path in (pointer, blob):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            broken.append(one.name)
        return tuple(broken)

    def forget_tree(self, commit: str) -> None:
        """Removes the list of all files of a commit, of which only some are wanted: without network the library takes
        the rest of them for missing, and refuses what is there.
        """
        with contextlib.suppress(OSError):
            os.unlink(f"{self.path}/trees/{commit}.json")

    def index_files(self, commit: str, index: Optional[str]) -> tuple[str, ...]:
        """The files that the index of the shards names; none when there is no index, or it cannot be read."""
        if index is None:
            return ()
        with contextlib.suppress(OSError, Unreadable):
            return hub_files.read_index(Path(f"{self.path}/snapshots/{commit}/{index}").read_bytes()).files
        return ()

    def growth(self) -> tuple[int, int]:
        """Bytes of all that was fetched, and something that differs whenever some of it was written to."""
        size = changed = 0
        for entry in _entries(self.blobs):
            with contextlib.suppress(OSError):
                stats = entry.stat(follow_symlinks=False)
                size += stats.st_size
                changed = max(changed, stats.st_mtime_ns)
        return size, changed

    def _is_held(self, blob: str) -> bool:
        try:
            handle = os.open(f"{self._locks}/{blob}.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except OSError:
        return None

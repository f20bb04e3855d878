# SPDX-License-Identifier: BSD-2-Clause
"""A repository's place in a hub cache: what is there, what is left over, how much has come (D12). Private to llmgw."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Iterator, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_hub
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Bounds, Job, Search
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.child import PARTIAL
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.listing import HubFile
from ansible_collections.llmgw.fleet.plugins.module_utils.host import SCAN_LIMIT, Host, Listing
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import hub_files
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

DEFAULT_REVISION = "main"
_LOOK_S = 60.0
_DEEPEST_REF, _MOST_REFS, _MOST_SNAPSHOTS = 4, 50, 50
"""What discovery looks at in one repository: parts of a branch's name, branches and tags, commits."""


class Repository:
    """One repository in the cache `directory`."""

    def __init__(self, directory: str, name: str) -> None:
        self.directory = directory
        self.name = name
        self.folder = "models--" + name.replace("/", "--")
        self.path = f"{directory.rstrip('/')}/{self.folder}"
        self.blobs = f"{self.path}/blobs"
        self._locks = f"{directory.rstrip('/')}/.locks/{self.folder}"

    def seen(self, revision: Optional[str]) -> Optional[Weights]:
        """The weights of this revision as discovery sees them, whole or not. Without one those of `main`: an engine
        that asks for no revision opens those. However many commits and branches there are: it looks at these alone.
        """
        wanted = revision or DEFAULT_REVISION
        commit = _ref(f"{self.path}/refs/{wanted}") or wanted
        outcome = Search(_Narrow(self.path, wanted, commit), Bounds(_LOOK_S), weights_hub.visit, lambda path: path).run(
            [Job(weights_hub.REPOSITORY, self.path, self.path)]
        )
        found = [one.weights for one in outcome.seen]
        return next((one for one in found if one.revision == wanted or wanted in one.refs), None)

    def hidden(self, commit: str, revision: str) -> Optional[str]:
        """Why discovery would not see these weights although they were there, and what to do; None when it would."""
        is_named = revision != commit
        if is_named and revision.count("/") >= _DEEPEST_REF:
            return (
                f"the name of the branch or tag {revision} has more than {_DEEPEST_REF} parts, and llmgw looks no "
                f"deeper for it. Name the commit by `revision`: {commit}"
            )
        named = [ref for ref in _names_below(f"{self.path}/refs") if ref != revision] if is_named else []
        if len(named) >= _MOST_REFS:
            return f"{self.path}/refs holds {len(named)} other names, and llmgw reads {_MOST_REFS}. Remove old ones"
        commits = [entry.name for entry in _entries(f"{self.path}/snapshots") if entry.name < commit]
        if len(commits) >= _MOST_SNAPSHOTS:
            return (
                f"{self.path}/snapshots holds {len(commits)} commits before this one, and llmgw looks at "
                f"{_MOST_SNAPSHOTS}. Remove old ones"
            )
        return None

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
        inside = f"{os.path.realpath(self.path)}/"
        for one in files:
            pointer = f"{self.path}/snapshots/{commit}/{one.name}"
            blob = os.path.realpath(pointer if one.blob is None or os.path.exists(pointer) else self._blob(one.blob))
            size = _size(blob)
            beside = os.path.realpath(os.path.dirname(pointer))
            if (
                one.size is None
                or size in (None, one.size)
                or not all(f"{path}/".startswith(inside) for path in (beside, blob))
            ):
                continue
            for path in (pointer, blob):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(path)
            broken.append(one.name)
        return tuple(broken)

    def _blob(self, name: str) -> str:
        return f"{self.blobs}/{name}"

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


class _Narrow(Host):
    """This machine, with one revision and one commit of a repository."""

    def __init__(self, repository: str, revision: str, commit: str) -> None:
        self._shown = {f"{repository}/snapshots": commit}
        at = f"{repository}/refs"
        for part in revision.split("/"):
            self._shown[at] = part
            at = f"{at}/{part}"

    def scan(self, path: str, limit: int = SCAN_LIMIT) -> Listing:
        listing = super().scan(path, SCAN_LIMIT * 10 if path in self._shown else limit)
        only = self._shown.get(path)
        if only is None:
            return listing
        return listing._replace(entries=tuple(entry for entry in listing.entries if entry.name == only))


def _ref(path: str) -> Optional[str]:
    """The commit that a branch or tag was when it was fetched."""
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def _names_below(path: str) -> list[str]:
    """Names of the files in a tree, from its top."""
    return [os.path.relpath(f"{at}/{name}", path) for at, _folders, names in os.walk(path) for name in names]


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

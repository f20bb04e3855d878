# SPDX-License-Identifier: BSD-2-Clause
"""Links in a cache that would lead what is written there elsewhere (D12). Private to llmgw.

A cache that others may write to can be prepared for whoever fetches into it, who is often root. Links to directories
stay possible for those who may write anywhere all the same: an administrator moves a repository to another disk so.
"""

from __future__ import annotations

import os
import stat
from typing import Collection, Iterator, Optional

_MOST = 20_000
_OURS = ".llmgw"


def in_the_way(directory: str, folder: str, trusted: Optional[Collection[int]] = None) -> Optional[str]:
    """The path of a link that a fetch of the repository `folder` into this cache would write through; None without one.

    `trusted`: user ids whose links to directories are followed; root's and one's own where it is None.
    """
    owners = (0, os.geteuid()) if trusted is None else trusted
    return next(_found(directory.rstrip("/"), folder, owners), None)


def _found(directory: str, folder: str, trusted: Collection[int]) -> Iterator[str]:
    repository, locks = f"{directory}/{folder}", f"{directory}/.locks"
    for path in (f"{directory}/{_OURS}", locks, f"{locks}/{folder}", repository):
        if _leads_away(path, trusted):
            yield path
    for part in ("blobs", "snapshots", "refs", "trees", ".no_exist"):
        if _leads_away(f"{repository}/{part}", trusted):
            yield f"{repository}/{part}"
    files = (f"{directory}/{_OURS}", f"{locks}/{folder}", f"{repository}/trees")
    yield from (entry.path for path in files for entry in _entries(path) if entry.is_symlink())
    yield from (
        entry.path
        for entry in _entries(f"{repository}/blobs")
        if entry.name.endswith(".incomplete") and entry.is_symlink()
    )
    yield from _below(f"{repository}/refs", trusted, files_too=True)
    yield from _below(f"{repository}/snapshots", trusted, files_too=False)


def _below(path: str, trusted: Collection[int], *, files_too: bool) -> Iterator[str]:
    """Links in a tree. Those of a snapshot to its blobs are as they should be, those that are directories are not."""
    ahead = [path]
    looked = 0
    while ahead and looked < _MOST:
        for entry in _entries(ahead.pop()):
            looked += 1
            if entry.is_dir(follow_symlinks=False):
                ahead.append(entry.path)
            elif entry.is_symlink() and (files_too or (os.path.isdir(entry.path) and _leads_away(entry.path, trusted))):
                yield entry.path


def _leads_away(path: str, trusted: Collection[int]) -> bool:
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(about.st_mode) and about.st_uid not in trusted


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            yield from sorted(found, key=lambda entry: entry.name)
    except OSError:
        return

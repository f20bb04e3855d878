# SPDX-License-Identifier: BSD-2-Clause
"""The filesystems that matter to llmgw (D11): those under its model directories, its state directory and the root.

Private to llmgw. One entry a filesystem, not a directory: two directories on one disk are one pool of bytes. Nothing
here waits for a dead share longer than a few seconds, and for each of them only once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Iterable, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    storage_devices,
    storage_findings,
    storage_mounts,
    storage_types,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.storage_mounts import holding
from ansible_collections.llmgw.fleet.plugins.module_utils.host import within

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount

BUDGET_S = 15.0
_ANSWER_S = 3.0
_ROOT = "/"
_GOOD = "good"
_MISSING = frozenset({"ENOENT"})
_DENIED = frozenset({"EACCES", "EPERM"})
_HANGS = "hangs"
_UNMOUNTED = "the automounter could not mount it"
# Free bytes of two datasets in one ZFS pool, read one after the other, differ by what was written in between.
_SAME_POOL = 0.01


@dataclass(frozen=True)
class Storage:
    """Filesystems by mount point (None: mounts cannot be read), and the directories that exist and answer."""

    filesystems: tuple[contract.Filesystem, ...] | None
    answering: tuple[str, ...] = ()
    findings: tuple[contract.Finding, ...] = ()


class _Look(NamedTuple):
    """How looking at a directory went: good, hangs, or the name of an error; and its path without links, if good."""

    directory: str
    state: str
    path: str


def read_storage(
    host: Host, directories: Iterable[str], state_dir: str | None = None, budget_s: float = BUDGET_S
) -> Storage:
    """The filesystems that hold these directories, the state directory and the root.

    A directory that does not exist is skipped. One that does not answer, as on a dead network filesystem, is a finding,
    and is placed by its path alone.
    """
    deadline = time.monotonic() + budget_s
    before = storage_mounts.read_mounts(host)
    wanted = sorted({*directories, *([state_dir] if state_dir else [])} - {_ROOT})
    looks = [_Look(_ROOT, _GOOD, _ROOT), *_look_at_all(host, before or (), wanted, deadline)]
    findings = [finding for look in looks for finding in _finding(look)]
    answering = tuple(look.directory for look in looks if look.state == _GOOD)
    # Looking at a directory mounted it where an automounter is in charge.
    listed = storage_mounts.read_mounts(host) if any(mount.fstype == "autofs" for mount in before or ()) else before
    if listed is None:
        return Storage(None, answering, tuple(findings))
    filesystems = _filesystems(host, listed, [look for look in looks if look.state not in _MISSING])
    findings += storage_findings.judge(filesystems)
    findings += storage_findings.read_only_after_error(listed, filesystems)
    if state_dir is not None:
        findings += storage_findings.state_read_only(state_dir, storage_mounts.reached(host, listed, state_dir))
    return Storage(filesystems, answering, tuple(findings))


def _look_at_all(host: Host, listed: Sequence[Mount], directories: Iterable[str], deadline: float) -> list[_Look]:
    """A look at each directory; a second one on a mount that hangs is not tried."""
    dead: set[str] = set()
    looks = []
    for directory in directories:
        mount = storage_mounts.reached(host, listed, directory)
        # Below an automounter each directory is a server of its own.
        place = "" if mount is None else directory if mount.fstype == "autofs" else mount.device
        seconds = min(_ANSWER_S, deadline - time.monotonic())
        look = _Look(directory, _HANGS, directory)
        if place not in dead and seconds > 0:
            look = _look(host, directory, seconds)
        if look.state == _HANGS:
            dead.add(place)
        if look.state in _MISSING and mount is not None and _is_direct(mount):
            look = look._replace(state=_UNMOUNTED)
        looks.append(look)
    return looks


def _is_direct(mount: Mount) -> bool:
    """Whether it is a place where an automounter mounts one share: such a directory exists, whatever it answers."""
    return mount.fstype == "autofs" and "direct" in mount.super_options


def _look(host: Host, directory: str, seconds: float) -> _Look:
    def look() -> _Look:
        # Its names may be readable and nothing behind them.
        error = host.scan(directory, 0).error or host.measure(directory, ".")[0].error
        return _Look(directory, error or _GOOD, directory if error else host.realpath(directory))

    try:
        return within(seconds, look)
    except TimeoutError:
        return _Look(directory, _HANGS, directory)


def _finding(look: _Look) -> Iterable[contract.Finding]:
    if look.state == _HANGS:
        yield storage_findings.hangs(look.directory)
    elif look.state in _DENIED:
        yield storage_findings.denied(look.directory, look.state)
    elif look.state != _GOOD and look.state not in _MISSING:
        yield storage_findings.fails(look.directory, look.state)


def _filesystems(host: Host, listed: Sequence[Mount], looks: Iterable[_Look]) -> tuple[contract.Filesystem, ...]:
    found: list[contract.Filesystem] = []
    at: dict[tuple[str, str], int] = {}
    for look in looks:
        good = look.state == _GOOD
        mount = holding(listed, look.path) if good else storage_mounts.reached(host, listed, look.directory)
        if mount is None or (not good and mount.fstype == "autofs"):
            continue
        names = [name for name in storage_mounts.names(mount) if name[0] != "zpool"]
        index = next((at[name] for name in names if name in at), None)
        if index is None:
            index = len(found)
            found.append(_filesystem(host, listed, mount, look))
        elif good and not found[index].answers:
            found[index] = replace(_filesystem(host, listed, mount, look), directories=found[index].directories)
        found[index] = replace(found[index], directories=(*found[index].directories, look.directory))
        at.update((name, index) for name in names)
    return tuple(sorted(_pooled(found), key=lambda entry: entry.mount_point))


def _filesystem(host: Host, listed: Sequence[Mount], mount: Mount, look: _Look) -> contract.Filesystem:
    """An entry without its directories; a directory that may not be entered says nothing of what it is on."""
    answers = True if look.state == _GOOD else None if look.state in _DENIED else False
    place = {True: look.directory, None: mount.target, False: None}[answers]
    space = host.statfs(place) if place and storage_types.has_size(mount.fstype, mount.source) else None
    total, free = space if space and space[0] else (None, None)
    shared = storage_mounts.is_shared(listed, mount)
    device = storage_devices.read_device(host, listed, mount) if shared is False else storage_devices.UNKNOWN
    return contract.Filesystem(
        mount_point=printable(mount.target),
        source=printable(mount.source),
        type=mount.fstype,
        total_bytes=total,
        free_bytes=free,
        shared=shared,
        read_only=mount.read_only,
        transport=device.transport or storage_mounts.transport(mount),
        remote=device.remote,
        answers=answers,
    )


def _pooled(entries: Iterable[contract.Filesystem]) -> list[contract.Filesystem]:
    """The entries with ZFS datasets of one pool as one, unless a quota or a reservation gives one its own free space.

    What is free is free to all of them, so it counts once; what each has used adds up.
    """
    found: list[contract.Filesystem] = []
    for entry in entries:
        like = next((index for index, other in enumerate(found) if _one_pool(other, entry)), None)
        if like is None:
            found.append(entry)
            continue
        other = found[like]
        used = (entry.total_bytes or 0) - (entry.free_bytes or 0)
        found[like] = replace(
            other,
            total_bytes=(other.total_bytes or 0) + used,
            directories=(*other.directories, *entry.directories),
        )
    return found


def _one_pool(one: contract.Filesystem, other: contract.Filesystem) -> bool:
    if one.type != "zfs" or other.type != "zfs" or one.free_bytes is None or other.free_bytes is None:
        return False
    same_pool = (one.source or "").split("/")[0] == (other.source or "").split("/")[0]
    return same_pool and abs(one.free_bytes - other.free_bytes) <= _SAME_POOL * max(one.free_bytes, other.free_bytes)

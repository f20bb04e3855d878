# SPDX-License-Identifier: BSD-2-Clause
"""The filesystems that matter to llmgw (D11): those under its model directories, its state directory and the root.

Private to llmgw. One entry a filesystem, not a directory: two directories on one disk are one pool of bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Iterable

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.host import within

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_ANSWER_S = 3.0
_MOUNTS = "/proc/self/mountinfo"
_FIELDS_BEFORE_DASH = 6
_FIELDS_AFTER_DASH = 3
_ESCAPE = re.compile(r"\\([0-7]{3})")
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "9p", "virtiofs"}
_CLUSTER = {"lustre", "gpfs", "beegfs", "beegfs_nodev", "wekafs", "ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs"}
_PARALLEL = {"orangefs", "pvfs2", "fuse.dfuse", "fuse.daos", "ocfs2", "gfs2", "panfs", "vastnfs"}
_OBJECT_STORES = {"fuse.juicefs", "fuse.s3fs", "fuse.rclone"}
_SHARED = frozenset(_NETWORK | _CLUSTER | _PARALLEL | _OBJECT_STORES)
_ON_DISK = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "vfat", "exfat"}
_LOCAL = frozenset(_ON_DISK | {"tmpfs", "ramfs", "overlay", "squashfs", "erofs"})
# A bucket has no size, so these make one up.
_SIZELESS = frozenset({"fuse.s3fs", "fuse.rclone"})


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo (proc(5)); `device` is `major:minor`, the same for every mount of one filesystem."""

    device: str
    root: str
    target: str
    type: str
    source: str
    read_only: bool


@dataclass(frozen=True)
class Storage:
    """Filesystems by mount point (None: mounts cannot be read), and the directories that exist and answer."""

    filesystems: tuple[contract.Filesystem, ...] | None
    answering: tuple[str, ...] = ()
    findings: tuple[contract.Finding, ...] = ()


def read_storage(host: Host, directories: Iterable[str]) -> Storage:
    """The filesystems that hold these directories and the root. A directory that does not exist is skipped.

    One that does not answer, as on a dead network filesystem, is a finding, and is placed by its path alone.
    """
    # Looking at a directory first mounts it where an automounter is in charge.
    states = {directory: _answers(host, directory) for directory in sorted({"/", *directories})}
    answering = tuple(directory for directory, state in states.items() if state)
    findings = tuple(_hangs(directory) for directory, state in states.items() if state is None)
    table = host.read(_MOUNTS)
    if table is None:
        return Storage(None, answering, findings)
    listed = mounts(table.decode("utf-8", "replace"))
    found: dict[str, contract.Filesystem] = {}
    for directory in (directory for directory, state in states.items() if state is not False):
        answers = directory in answering
        mount = holding(listed, host.realpath(directory) if answers else directory)
        if mount is not None:
            entry = found.get(mount.device) or _filesystem(mount, host.statfs(directory) if answers else None)
            found[mount.device] = replace(entry, directories=(*entry.directories, directory))
    return Storage(tuple(sorted(found.values(), key=lambda entry: entry.mount_point)), answering, findings)


def mounts(text: str) -> tuple[Mount, ...]:
    """Every mount of a mountinfo text, in its order; lines that are none are passed over."""
    found = []
    for line in text.split("\n"):
        before, separator, after = line.partition(" - ")
        left, right = before.split(" "), after.rstrip("\r").split(" ", 2)
        if not separator or len(left) < _FIELDS_BEFORE_DASH or len(right) < _FIELDS_AFTER_DASH:
            continue
        options = {*left[5].split(","), *right[2].split(",")}
        found.append(
            Mount(left[2], _decoded(left[3]), _decoded(left[4]), right[0], _decoded(right[1]), "ro" in options)
        )
    return tuple(found)


def holding(listed: Iterable[Mount], path: str) -> Mount | None:
    """The mount that a path (without symbolic links) is on: the longest prefix, and of equals the one on top."""
    best: Mount | None = None
    for mount in listed:
        inside = path == mount.target or path.startswith(mount.target.rstrip("/") + "/")
        if inside and (best is None or len(mount.target) >= len(best.target)):
            best = mount
    return best


def is_shared(filesystem_type: str) -> bool | None:
    """Whether other machines see the same files, judged by type; None for types that may be either."""
    if filesystem_type in _SHARED:
        return True
    return False if filesystem_type in _LOCAL else None


def _filesystem(mount: Mount, space: tuple[int, int] | None) -> contract.Filesystem:
    total, free = space if space and space[0] and mount.type not in _SIZELESS else (None, None)
    return contract.Filesystem(
        mount_point=mount.target,
        source=mount.source,
        type=mount.type,
        total_bytes=total,
        free_bytes=free,
        shared=is_shared(mount.type),
        read_only=mount.read_only,
    )


def _answers(host: Host, directory: str) -> bool | None:
    """Whether a directory exists; None when that cannot be told in time."""
    try:
        return within(_ANSWER_S, lambda: host.exists(directory))
    except TimeoutError:
        return None


def _hangs(directory: str) -> contract.Finding:
    return contract.Finding(
        code="storage-hangs",
        severity="warn",
        message=f"{directory} does not answer: its filesystem hangs",
        remedy="Bring its server back, or unmount it (umount -f -l).",
        subject=directory,
    )


def _decoded(field: str) -> str:
    return _ESCAPE.sub(lambda escape: chr(int(escape.group(1), 8)), field)

# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with the filesystems of a node (D11). Private to llmgw and pure."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Iterable, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Filesystem, Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_types
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount

_GB = 10**9
# Free space below both shares is too little: of a small disk the part counts, of a large one the bytes.
_FULL = (20, 10 * _GB)
_FILLING = (10, 100 * _GB)


def hangs(directory: str) -> Finding:
    """A directory that gives no answer."""
    directory = printable(directory)
    return Finding(
        code="storage-hangs",
        severity="warn",
        message=f"{directory} does not answer: its filesystem hangs",
        remedy="Bring its server back, or unmount it (umount -f -l).",
        subject=directory,
    )


def denied(directory: str, error: str) -> Finding:
    """A directory that may not be entered: what is in it is unknown."""
    return Finding(
        code="storage-denied",
        severity="warn",
        message=f"{directory} cannot be entered by the user that looks: {_words(error)}",
        remedy="Let this user read it, or look as root (become).",
        subject=directory,
        evidence=(error,),
    )


def fails(directory: str, error: str) -> Finding:
    """A directory that answers with an error: a stale share, a dead FUSE program, a broken disk."""
    is_file = error == "ENOTDIR"
    remedy = "Name a directory." if is_file else "Mount it again, and look at the kernel log for its errors."
    return Finding(
        code="storage-fails",
        severity="warn",
        message=f"{directory} cannot be looked at: {_words(error)}",
        remedy=remedy,
        subject=directory,
        evidence=(error,),
    )


def judge(filesystems: Iterable[Filesystem]) -> tuple[Finding, ...]:
    """Filesystems with little space left. A share is the whole fleet's, so that a single node only mentions it."""
    found = []
    for one in filesystems:
        if one.total_bytes is None or one.free_bytes is None or one.read_only or storage_types.is_image(one.type or ""):
            continue
        full, filling = _below(one, _FULL), _below(one, _FILLING)
        if not full and (not filling or one.shared is not False):
            continue
        free = f"{one.free_bytes / _GB:.1f} of {one.total_bytes / _GB:.1f} GB"
        found.append(
            Finding(
                code="storage-nearly-full",
                severity="warn" if full and one.shared is False else "info",
                message=f"{one.mount_point} has {free} left",
                remedy="Remove what nobody needs: old revisions of models (hf cache prune), logs, packages.",
                subject=one.mount_point,
                evidence=(f"free_bytes={one.free_bytes}", f"total_bytes={one.total_bytes}"),
            )
        )
    return tuple(found)


def state_read_only(state_dir: str, mount: Mount | None) -> tuple[Finding, ...]:
    """A state directory, there or not yet, on a filesystem that cannot be written."""
    if mount is None or not mount.read_only:
        return ()
    target = printable(mount.target)
    return (
        Finding(
            code="storage-state-read-only",
            severity="warn",
            message=f"llmgw cannot write its state: {state_dir} is on {target}, which is mounted read-only",
            remedy="Mount it read-write, or choose another directory (llmgw_state_dir).",
            subject=target,
        ),
    )


def read_only_after_error(listed: Sequence[Mount], filesystems: Iterable[Filesystem]) -> tuple[Finding, ...]:
    """Filesystems that the kernel made read-only: mounted for writing, and the filesystem itself no longer is."""
    targets = {printable(mount.target): mount for mount in listed}
    found = []
    for one in filesystems:
        mount = targets.get(one.mount_point)
        if mount is None or one.shared is not False or storage_types.is_image(mount.fstype):
            continue
        if "rw" in mount.options and "ro" in mount.super_options:
            found.append(
                Finding(
                    code="storage-turned-read-only",
                    severity="warn",
                    message=f"{one.mount_point} was mounted for writing and is read-only now: its disk may have failed",
                    remedy="Look at the kernel log, check the filesystem, replace the disk if it fails.",
                    subject=one.mount_point,
                    evidence=(
                        f"mount options {','.join(mount.options)}",
                        f"filesystem {','.join(mount.super_options)}",
                    ),
                )
            )
    return tuple(found)


def _below(one: Filesystem, limit: tuple[int, int]) -> bool:
    part, most = limit
    return (one.free_bytes or 0) < min((one.total_bytes or 0) // part, most)


def _words(error: str) -> str:
    """`ESTALE` in the words of the system."""
    number = getattr(errno, error, None)
    return f"{os.strerror(number)} ({error})" if isinstance(number, int) else error

# SPDX-License-Identifier: BSD-2-Clause
"""Which mount a path is on, and which mounts are one pool of bytes (D11).

Private to llmgw. Finding the mount touches no filesystem that could hang: links are followed by hand, up to the first
mount that is reached over a network.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Iterable, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage_types
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import mountinfo
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.mountinfo import Mount

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils import contract
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_TABLE = "/proc/self/mountinfo"
_HOPS = 40
_LAYERS = ("lowerdir=", "lowerdir+=", "upperdir=", "datadir+=")
_COLON = re.compile(r"(?<!\\):")


def read_mounts(host: Host) -> tuple[Mount, ...] | None:
    """What is mounted now; None when the kernel does not tell."""
    table = host.read(_TABLE)
    return None if table is None else mounts(table.decode("utf-8", "surrogateescape"))


def mounts(text: str) -> tuple[Mount, ...]:
    """Every mount of a mountinfo text, in its order; () when it holds none."""
    try:
        return mountinfo.read(text).mounts
    except Unreadable:
        return ()


def holding(listed: Iterable[Mount], path: str) -> Mount | None:
    """The mount that a path (without symbolic links) is on: the longest prefix, and of equals the one on top."""
    best: Mount | None = None
    for mount in listed:
        inside = path == mount.target or path.startswith(mount.target.rstrip("/") + "/")
        if inside and (best is None or len(mount.target) >= len(best.target)):
            best = mount
    return best


def reached(host: Host, listed: Sequence[Mount], path: str) -> Mount | None:
    """The first mount on the way to a path that may hang, else the one that the path is on."""
    targets = {mount.target: mount for mount in listed}
    here = ""
    ahead = path.split("/")
    hops = _HOPS
    while ahead:
        name = ahead.pop(0)
        if name in {"", "."}:
            continue
        if name == "..":
            here = here.rpartition("/")[0]
            continue
        there = f"{here}/{name}"
        mount = targets.get(there)
        if mount is not None and storage_types.is_shared(mount.fstype, mount.source) is not False:
            return mount
        link = None if mount is not None else host.readlink(there)
        if link is None:
            here = there
            continue
        hops -= 1
        if hops < 0:
            break
        here = "" if link.startswith("/") else here
        ahead = link.split("/") + ahead
    return holding(listed, here or "/")


def is_shared(listed: Sequence[Mount], mount: Mount) -> bool | None:
    """Whether other machines see the same files. An overlay above a share is neither, for all that is seen here."""
    if mount.fstype == "overlay":
        layers = (holding(listed, path) for path in _layers(mount))
        if any(layer and storage_types.is_shared(layer.fstype, layer.source) is not False for layer in layers):
            return None
    return storage_types.is_shared(mount.fstype, mount.source)


def names(mount: Mount) -> tuple[tuple[str, str], ...]:
    """What tells that two mounts are one pool of bytes, the surest first: device, source of a share, ZFS pool.

    One export mounted twice with different options has two devices, as has every dataset of one ZFS pool.
    """
    found = [("device", mount.device)]
    source = storage_types.names_by_source(mount.fstype, mount.source)
    if source is not None:
        found.append(("source", source))
    if mount.fstype == "zfs":
        found.append(("zpool", mount.source.split("/")[0]))
    return tuple(found)


def entry_of(
    mount: Mount, listed: Sequence[Mount], filesystems: Iterable[contract.Filesystem]
) -> contract.Filesystem | None:
    """The filesystem among these that a mount belongs to, or None."""
    targets = {printable(one.target): one for one in listed}
    known: dict[tuple[str, str], contract.Filesystem] = {}
    for filesystem in filesystems:
        at = targets.get(filesystem.mount_point)
        for name in () if at is None else names(at):
            known.setdefault(name, filesystem)
    return next((known[name] for name in names(mount) if name in known), None)


def transport(mount: Mount) -> str | None:
    """How a share is reached, where the mount says so: `rdma` or `tcp`."""
    if mount.fstype in {"nfs", "nfs4"}:
        protocols = [option[len("proto=") :] for option in mount.super_options if option.startswith("proto=")]
        return protocols[-1].rstrip("6") if protocols else None
    if mount.fstype == "lustre":
        return "rdma" if "@o2ib" in mount.source else "tcp" if "@tcp" in mount.source else None
    return None


def _layers(mount: Mount) -> list[str]:
    """Directories that an overlay consists of; commas and colons in their names are escaped."""
    found = []
    for option in mount.super_options:
        layer = next((option[len(name) :] for name in _LAYERS if option.startswith(name)), None)
        if layer is not None:
            found += [path.replace("\\:", ":") for path in _COLON.split(layer) if path]
    return found

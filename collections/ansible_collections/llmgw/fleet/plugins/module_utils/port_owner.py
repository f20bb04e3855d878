# SPDX-License-Identifier: BSD-2-Clause
"""Whose process listens on a port: a recycled port must not pass for the engine that was meant to have it (D14, R7).

Private to llmgw. The kernel names a listening socket by its inode; a process of the unit's cgroup must hold it.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Iterator, NamedTuple

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_TABLE_LIMIT = 4 * 1024 * 1024  # listening sockets come first in the table
_LISTEN = "0A"


class Holder(NamedTuple):
    """The process that listens on a port: all None when it cannot be seen. `units`: the systemd units it is part of."""

    pid: int | None = None
    name: str | None = None
    units: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another user"
        return f"{self.name or 'a process'} (process {self.pid})"


def holder(host: Host, address: str | None, port: int) -> Holder | None:
    """Who listens where a server on this address (None: 127.0.0.1) and port would have to; None when nobody does."""
    inodes = _listeners(host, address, port)
    if not inodes:
        return None
    for name in host.list("/proc") or ():
        if not name.isdigit():
            continue
        handles = host.list(f"/proc/{name}/fd") or ()
        if any(host.readlink(f"/proc/{name}/fd/{handle}") in inodes for handle in handles):
            said = (host.read(f"/proc/{name}/comm") or b"").decode("utf-8", "replace")
            lines = (host.read(f"/proc/{name}/cgroup") or b"").decode("utf-8", "replace").split("\n")
            units = tuple(part for line in lines for part in line.split("/") if part.endswith(".service"))
            return Holder(int(name), "".join(filter(str.isprintable, said)).strip() or None, units)
    return Holder()


def owns(host: Host, control_group: str, main_pid: int | None, address: str | None, port: int) -> bool | None:
    """Whether a process of the control group listens there; None when the sockets or processes cannot be seen.

    That is so for a unit in a network namespace of its own, and for another user's processes.
    """
    inodes = _listeners(host, address, port)
    if not inodes or not control_group:
        return None
    unreadable = False
    for pid in _members(host, control_group, main_pid):
        handles = host.list(f"/proc/{pid}/fd")
        if handles is None:
            unreadable = unreadable or host.exists(f"/proc/{pid}")
            continue
        if any(host.readlink(f"/proc/{pid}/fd/{handle}") in inodes for handle in handles):
            return True
    return None if unreadable else False


def _listeners(host: Host, address: str | None, port: int) -> set[str]:
    """`socket:[INODE]` of every socket that would take a connection to this address and port."""
    accepted = _spellings(address)
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in (host.read(table, _TABLE_LIMIT) or b"").decode("ascii", "replace").split("\n")[1:]:
            fields = line.split()
            if len(fields) < 10 or fields[3] != _LISTEN:  # noqa: PLR2004 - the inode is the tenth column
                continue
            local, number = fields[1].rsplit(":", 1)
            if int(number, 16) == port and (accepted is None or local in accepted):
                found.add(f"socket:[{fields[9]}]")
    return found


def _spellings(address: str | None) -> set[str] | None:
    """How the kernel's tables write an address and the wildcards that cover it; None: a name, any address will do."""
    wildcards = {_words(b"\0" * 4), _words(b"\0" * 16)}
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            packed = socket.inet_pton(family, address or "127.0.0.1")
        except (OSError, ValueError):
            continue
        mapped = {_words(b"\0" * 10 + b"\xff\xff" + packed)} if family == socket.AF_INET else set()
        return wildcards | mapped | {_words(packed)}
    return None


def _words(packed: bytes) -> str:
    """Bytes in network order as the kernel prints them: 32-bit words in the machine's order, in hexadecimal."""
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))


def _members(host: Host, control_group: str, main_pid: int | None) -> Iterator[int]:
    """Processes of a control group and those below it, the main one first: it nearly always holds the port."""
    if main_pid:
        yield main_pid
    for name in host.list("/proc") or ():
        if not name.isdigit() or int(name) == main_pid:
            continue
        lines = (host.read(f"/proc/{name}/cgroup") or b"").decode("utf-8", "replace").split("\n")
        paths = (line.split(":", 2)[2] for line in lines if line.count(":") >= 2)  # noqa: PLR2004 - ID:NAMES:PATH
        if any(path == control_group or path.startswith(control_group + "/") for path in paths):
            yield int(name)

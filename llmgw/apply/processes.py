# SPDX-License-Identifier: Apache-2.0
"""Which process carries an apply out, so that others can tell whether it still does."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

GIVEN_UP_AFTER_S = 24 * 3600.0
"""A process that cannot be looked at from here counts as gone after a day: no apply takes that long."""
_MOST_IDS = 2**31
_STARTED = 19
"""The start time's place in /proc/PID/stat behind the program's name, which may hold blanks and brackets."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of one boot of one machine. Process ids are used again: `started` (clock ticks since boot) tells two
    apart. `namespace`: where the id holds; containers of one machine have their own.
    """

    host: str | None = None
    boot_id: str | None = None
    namespace: int | None = None
    pid: int | None = None
    started: int | None = None


def process(pid: int) -> Process:
    """That process of this machine."""
    return Process(
        host=socket.gethostname(),
        boot_id=_boot_id(),
        namespace=_namespace(),
        pid=pid if pid > 1 else None,  # 1: what had started this one is gone already
        started=_started(pid),
    )


def is_gone(one: Process, began: float, now: float) -> bool:
    """Whether that process is known to be gone, or so long at it that nobody waits for it. Times are Unix seconds."""
    overdue = now - began > GIVEN_UP_AFTER_S
    here = process(os.getpid())
    if one.pid is None or not 1 < one.pid < _MOST_IDS or one.host != here.host:
        return overdue
    if one.boot_id != here.boot_id:
        return True
    if one.namespace != here.namespace:
        return overdue
    return not _lives(one.pid) or (one.started is not None and _started(one.pid) not in (None, one.started))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None


def _namespace() -> int | None:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return None


def _started(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[_STARTED])
    except (OSError, ValueError, IndexError):
        return None

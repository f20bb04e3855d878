# SPDX-License-Identifier: BSD-2-Clause
"""One llmgw run at a time on a host (R9).

Private to llmgw. The kernel drops the lock with its holder, however that ends; the file's text only tells who it was.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Iterator

_TICK_S = 0.1
_LONGEST = 200


class LockHeldError(Exception):
    """Another run holds the lock and did not let go in time; the message names it."""


@contextlib.contextmanager
def hold(path: str, wait_s: float, by: str | None = None) -> Iterator[None]:
    """Holds the lock for the length of a `with` block. Raises LockHeldError after `wait_s`, OSError for the file.

    `by`: for whom (`user@host`), which whoever waits in vain is told.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(handle, path, wait_s)
        holder = {"pid": os.getpid(), "since": time.time(), "by": by}
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(holder).encode("ascii"), 0)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, path: str, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not _taken(handle):
        if time.monotonic() >= deadline:
            raise LockHeldError(_held(path, wait_s))
        time.sleep(_TICK_S)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _held(path: str, wait_s: float) -> str:
    """A sentence that names the holder as far as the file tells."""
    holder = "another llmgw run"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
        said = json.loads(Path(path).read_text(encoding="ascii"))
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(said["since"])))
        by = "".join(filter(str.isprintable, str(said.get("by") or "")))[:_LONGEST]
        holder = f"another llmgw run (pid {int(said['pid'])}{f', by {by}' if by else ''}, since {since})"
    return f"{holder} holds {path}; gave up after {wait_s:g} s. Wait until it ends, then plan again."

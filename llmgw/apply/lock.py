# SPDX-License-Identifier: Apache-2.0
"""Locks between runs of llmgw on one controller. The kernel drops a lock with its holder, however that ends; what the
file says only tells who it was.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from llmgw.errors import LlmgwError

FACTS_LOCK = ".lock"
"""In the facts cache; no host has a file of this name."""
FACTS_WAIT_S = 60.0
_TICK_S = 0.05


@contextmanager
def facts_of_a_host(directory: Path, wait_s: float = FACTS_WAIT_S) -> Iterator[None]:
    """Holds the facts cache for as long as facts of one host are joined and written: a reading in part that ends at the
    same time as another one would else put back what that one has just replaced.

    Raises LlmgwError `facts-unwritable`, and `facts-locked` after `wait_s`.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from error
    path = directory / FACTS_LOCK
    with held(path, wait_s) as holder:
        if holder is not None:
            raise LlmgwError(
                "facts-locked",
                f"the facts cache has been held for {wait_s:g} s by {holder}: what was read now is not kept",
                where=str(path),
                fix="see what hangs there, and run `llmgw facts refresh` again",
            )
        yield


@contextmanager
def held(path: Path, wait_s: float) -> Iterator[str | None]:
    """Holds the lock for the length of a `with` block, and gives None; after `wait_s` it gives who holds it, in words.

    Raises LlmgwError `facts-unwritable` where there can be no such file.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        if not _acquired(handle, wait_s):
            yield _holder(path)
            return
        with suppress(OSError):  # a full disk keeps nobody from working under the lock
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps({"pid": os.getpid(), "since": time.time()}).encode("ascii"), 0)
        yield None
    finally:
        os.close(handle)


def _acquired(handle: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_TICK_S)
        else:
            return True


def _holder(path: Path) -> str:
    with suppress(OSError, ValueError, TypeError, KeyError, OverflowError):
        said = json.loads(path.read_text(encoding="ascii"))
        since = datetime.fromtimestamp(float(said["since"]), UTC)
        return f"process {int(said['pid'])} (since {since:%Y-%m-%d %H:%M:%S} UTC)"
    return "another process"


def _unwritable(path: Path, error: OSError) -> LlmgwError:
    reason = (error.strerror or type(error).__name__).lower()
    fix = "let the user who runs llmgw write there, or name another facts cache with --facts"
    return LlmgwError("facts-unwritable", f"facts cannot be kept: {reason}", where=str(path), fix=fix)

# SPDX-License-Identifier: BSD-2-Clause
"""Holds the commands that this process started, so that none outlives it, however it ends (D15).

Private to llmgw. Being killed leaves no time to end anything, so a small shell beside this process does it: it is told
of every process group, and kills those that are left when the pipe to it closes.
"""

from __future__ import annotations

import os
import threading

_SHELL = "/bin/sh"
_WATCH = """
trap '' HUP INT TERM
cd /
live=
while read -r word group; do
    kept=
    for one in $live; do
        [ "$one" = "$group" ] || kept="$kept $one"
    done
    live=$kept
    [ "$word" = hold ] && live="$live $group"
done
for group in $live; do
    kill -s KILL -- "-$group"
done
"""
_lock = threading.Lock()
_watchers: dict[int, int | None] = {}
"""Process id to the writing end of the pipe to its shell; None where none could be started. A fork has its own."""


def ready() -> None:
    """Starts the shell, so that what is started next is held at once."""
    _tell("")


def hold(group: int) -> None:
    """From now on this process group ends with this process."""
    _tell(f"hold {group}\n")


def let_go(group: int) -> None:
    """The process group is gone; its number may soon be another's."""
    _tell(f"free {group}\n")


def end() -> None:
    """Ends all that is still held now, and not when this process ends."""
    with _lock:
        pipe = _watchers.pop(os.getpid(), None)
        if pipe is not None:
            os.close(pipe)


def _tell(line: str) -> None:
    with _lock:
        own = os.getpid()
        if own not in _watchers:
            _watchers[own] = _start()
        pipe = _watchers[own]
        if pipe is None:
            return
        try:
            os.write(pipe, line.encode("ascii"))
        except OSError:  # somebody killed the shell
            os.close(pipe)
            _watchers[own] = None


def _start() -> int | None:
    try:
        reading, writing = os.pipe()
    except OSError:  # too many files are open
        return None
    actions = (
        (os.POSIX_SPAWN_DUP2, reading, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    )
    try:
        os.posix_spawn(_SHELL, (_SHELL, "-c", _WATCH), {}, file_actions=actions, setpgroup=0)
    except OSError:  # there is no shell, or no room for a process
        os.close(writing)
        return None
    finally:
        os.close(reading)
    return writing

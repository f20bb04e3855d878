# SPDX-License-Identifier: BSD-2-Clause
"""Lets a process of its own look at the machine, so that this one ends whatever happens to that one (D15).

Private to llmgw. A thread that waits for a filesystem whose daemon is dead can be abandoned, but a process with such a
thread never ends, however it is killed. So the process that has to end must not have one.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import threading
import time
from typing import Callable, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils import leash

_CHUNK = 65536
_LENGTH = 8
_LOOK_S = 60.0
_REAP_S = 0.5
_PAUSE_S = 0.001
_T = TypeVar("_T")


class NoResult(Exception):  # noqa: N818 - it says what is not there
    """The other process ended without a result, or did not end in time; the message says which."""


def call(function: Callable[[], _T], seconds: float) -> _T:
    """What the function returns in a process of its own, which is killed after `seconds`, or when this one ends.

    What it raises is raised here. Its standard input and outputs are closed to it. Raises NoResult. To be called while
    this process has one thread.
    """
    deadline = time.monotonic() + seconds
    pipes: list[int] = []
    try:
        pipes += os.pipe()
        pipes += os.pipe()
        other = os.fork()
    except OSError:  # no room for a process, or too many files are open
        for handle in pipes:
            os.close(handle)
        return function()
    result, told, alive, life = pipes  # to `life` nothing is written: it ends when this process does
    if other == 0:
        os.close(result)
        os.close(life)
        _be_other(function, told, alive)
    os.close(told)
    os.close(alive)
    process = _Other(other)
    try:
        answer = _whole(result, deadline)
        if answer is None:
            raise NoResult(process.how(seconds))
    finally:
        process.end()
        os.close(result)
        os.close(life)
    worked, value = pickle.loads(answer)  # noqa: S301 - this process forked the one that wrote it
    if not worked:
        raise value
    found: _T = value
    return found


def _be_other(function: Callable[[], _T], told: int, alive: int) -> None:
    """The life of the other process."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for handle in (0, 1, 2):
            os.dup2(nothing, handle)
        with contextlib.suppress(RuntimeError):  # no room for a thread
            threading.Thread(target=_follow, args=(alive,), daemon=True).start()
        answer = pickle.dumps(_outcome(function))
        waiting = memoryview(len(answer).to_bytes(_LENGTH, "big") + answer)
        while waiting:
            waiting = waiting[os.write(told, waiting) :]
    finally:
        leash.end()
        os._exit(0)


def _outcome(function: Callable[[], _T]) -> tuple[bool, object]:
    try:
        return True, function()
    except Exception as error:  # noqa: BLE001 - raised again in the process that asked
        with contextlib.suppress(Exception):
            pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
            return False, error
        return False, RuntimeError(f"{type(error).__name__}: {error}")


def _follow(alive: int) -> None:
    """Ends this process when the one that started it has ended."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _whole(result: int, deadline: float) -> bytes | None:
    """The answer; None when the pipe ends before it does, or there is no more time."""
    answer = b""
    length = None
    poll = select.poll()
    poll.register(result, select.POLLIN)
    while length is None or len(answer) < length:
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        if not poll.poll(min(left, _LOOK_S) * 1000):
            continue
        chunk = os.read(result, _CHUNK)
        if not chunk:
            return None
        answer += chunk
        if length is None and len(answer) >= _LENGTH:
            length = int.from_bytes(answer[:_LENGTH], "big")
            answer = answer[_LENGTH:]
    return answer


class _Other:
    """The other process, as its parent sees it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def how(self, seconds: float) -> str:
        """How it ended, when it said nothing."""
        if not self._ends():
            return f"it did not end within {seconds:.0f} s"
        status = self._status or 0
        if os.WIFSIGNALED(status):
            return f"its process was killed by signal {os.WTERMSIG(status)}"
        return f"its process ended with status {os.WEXITSTATUS(status)}"

    def end(self) -> None:
        """Ends it. One that is stuck in the kernel is left to the kernel."""
        if not self._ends():
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
            self._ends()

    def _ends(self) -> bool:
        """Whether it ends in a moment."""
        deadline = time.monotonic() + _REAP_S
        while self._status is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # this process does not want to hear of its children
                pid, status = self._pid, 0
            if pid:
                self._status = status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(_PAUSE_S)
        return True

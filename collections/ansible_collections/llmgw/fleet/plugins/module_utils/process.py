# SPDX-License-Identifier: BSD-2-Clause
"""Runs one command within a time limit and returns all that it printed (D15).

Private to llmgw. The command gets its own session, so that the whole of its process group can be killed: nothing that
it started goes on after it, or after this process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import IO, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import leash

MISSING = 127
UNUSABLE = 126
_OUTPUT_LIMIT = 32 * 1024 * 1024
_FLOOD_KEPT = 4096
_CHUNK = 65536
_DRAIN_S = 1.0
_REAP_S = 1.0
_TICK_S = 0.05
_PAUSE_S = 0.001


class Result(NamedTuple):
    """How a command ended. `rc` is its exit status, -N when signal N ended it, 127 when it could not be found."""

    rc: int
    stdout: str
    stderr: str
    timed_out: bool = False


def run(argv: Sequence[str], timeout_s: float, environment: dict[str, str], stdin: str | None = None) -> Result:
    """How the command ended; never raises. rc 127: no such command, 126: it could not be started; stderr says why.

    After `timeout_s` its process group is killed, as it is at once when it prints without end: then its output is only
    how that began. A background child that keeps the pipes open is not waited for, and ends with the command.
    """
    leash.ready()
    try:
        process = subprocess.Popen(  # noqa: S603 - an argument list: no shell reads it
            list(argv),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError:
        return Result(MISSING, "", f"{argv[0]}: command not found")
    except (OSError, ValueError) as error:
        return Result(UNUSABLE, "", f"{argv[0]}: {error}")
    leash.hold(process.pid)
    deadline = time.monotonic() + timeout_s
    try:
        conversation = _Conversation(process, (stdin or "").encode("utf-8", "surrogateescape"))
    except OSError as error:  # too many files are open
        _end(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            _finish(stream)
        return Result(UNUSABLE, "", f"{argv[0]}: {error}")
    conversation.hold(deadline)
    ended = _ends(process, time.monotonic() if conversation.is_flood else deadline)
    rc = _end(process)
    stdout, stderr = conversation.close()
    if conversation.is_flood:
        note = f"{argv[0]}: stopped, for it had printed {_OUTPUT_LIMIT >> 20} MiB\n"
        return Result(rc, stdout[:_FLOOD_KEPT], note + stderr[:_FLOOD_KEPT])
    return Result(rc, stdout, stderr, not ended)


class _Conversation:
    """What is written to and read from a running process."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self._process = process
        self._waiting = memoryview(stdin)
        self._kept = 0
        self.is_flood = False
        self._output: dict[int, list[bytes]] = {}
        self._selector = selectors.DefaultSelector()
        self._streams: list[IO[bytes]] = []
        for stream in (process.stdout, process.stderr, process.stdin):
            if stream is None:
                continue
            os.set_blocking(stream.fileno(), False)
            self._streams.append(stream)
            if stream is not process.stdin:
                self._output[stream.fileno()] = []
            self._selector.register(stream, selectors.EVENT_WRITE if stream is process.stdin else selectors.EVENT_READ)

    def hold(self, deadline: float) -> None:
        """Exchanges data until every pipe is closed, the process has ended and is silent, or the deadline passes."""
        drained: float | None = None
        while self._selector.get_map() and not self.is_flood:
            now = time.monotonic()
            left = min(deadline, drained or deadline) - now
            if left <= 0:
                return
            ready = self._selector.select(min(left, _TICK_S))
            if drained is None and _has_ended(self._process):
                drained = now + _DRAIN_S
            if not ready and drained is not None:
                return  # whoever else holds its pipes is no concern of ours
            for key, events in ready:
                finished = self._write(key.fd) if events & selectors.EVENT_WRITE else self._read(key.fd)
                if finished:
                    self._selector.unregister(key.fileobj)
                    if events & selectors.EVENT_WRITE:
                        _finish(self._process.stdin)

    def close(self) -> list[str]:
        """What was printed, standard output first; releases the pipes."""
        self._selector.close()
        for stream in self._streams:
            _finish(stream)
        return [b"".join(chunks).decode("utf-8", "replace") for chunks in self._output.values()]

    def _read(self, handle: int) -> bool:
        try:
            chunk = os.read(handle, _CHUNK)
        except BlockingIOError:
            return False
        self._output[handle].append(chunk)
        self._kept += len(chunk)
        self.is_flood = self._kept > _OUTPUT_LIMIT
        return not chunk

    def _write(self, handle: int) -> bool:
        try:
            self._waiting = self._waiting[os.write(handle, self._waiting[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except OSError:  # it does not read on
            return True
        return not self._waiting


def _finish(stream: IO[bytes] | None) -> None:
    if stream is not None:
        with contextlib.suppress(OSError):
            stream.close()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended. It is not reaped yet: until then its number, and that of its group, are nobody else's."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # this process does not want to hear of its children
        return True


def _ends(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether it ends by the deadline."""
    pause = _PAUSE_S
    while not _has_ended(process):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, _TICK_S)
    return True


def _end(process: subprocess.Popen[bytes]) -> int:
    """Ends what is left of its process group; its exit status."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        rc = process.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        return -int(signal.SIGKILL)  # stuck in the kernel: it goes when the kernel lets it go
    leash.let_go(process.pid)
    return rc

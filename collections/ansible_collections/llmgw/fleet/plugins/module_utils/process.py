# SPDX-License-Identifier: BSD-2-Clause
"""Runs one command within a time limit and returns all that it printed (D15).

Private to llmgw. The command gets its own session, so that the whole of its process group can be killed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import IO, NamedTuple, Sequence

MISSING = 127
UNUSABLE = 126
_OUTPUT_LIMIT = 64 * 1024 * 1024
_CHUNK = 65536
_REAP_S = 1.0
_TICK_S = 0.05


class Result(NamedTuple):
    """How a command ended. `rc` is its exit status, -N when signal N ended it, 127 when it could not be found."""

    rc: int
    stdout: str
    stderr: str
    timed_out: bool = False


def run(argv: Sequence[str], timeout_s: float, environment: dict[str, str], stdin: str | None = None) -> Result:
    """How the command ended; never raises. rc 127: no such command, 126: it could not be started; stderr says why.

    After `timeout_s` its process group is killed. A background child that keeps the pipes open is not waited for.
    """
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
    deadline = time.monotonic() + timeout_s
    conversation = _Conversation(process, (stdin or "").encode("utf-8", "surrogateescape"))
    conversation.hold(deadline)
    rc, killed = _reap(process, deadline)
    stdout, stderr = conversation.close()
    return Result(rc, stdout, stderr, killed)


class _Conversation:
    """What is written to and read from a running process."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes) -> None:
        self._process = process
        self._waiting = memoryview(stdin)
        self._kept = 0
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
        while self._selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            ready = self._selector.select(min(left, _TICK_S))
            if not ready and self._process.poll() is not None:
                return  # whoever else holds its pipes is no concern of ours
            for key, events in ready:
                finished = self._write(key.fd) if events & selectors.EVENT_WRITE else self._read(key.fd)
                if finished:
                    self._selector.unregister(key.fileobj)
                    if events & selectors.EVENT_WRITE:
                        self._finish(self._process.stdin)

    def close(self) -> list[str]:
        """What was printed, standard output first; releases the pipes."""
        self._selector.close()
        for stream in self._streams:
            self._finish(stream)
        return [b"".join(chunks).decode("utf-8", "replace") for chunks in self._output.values()]

    def _read(self, handle: int) -> bool:
        try:
            chunk = os.read(handle, _CHUNK)
        except BlockingIOError:
            return False
        if self._kept < _OUTPUT_LIMIT:
            self._output[handle].append(chunk)
            self._kept += len(chunk)
        return not chunk

    def _write(self, handle: int) -> bool:
        try:
            self._waiting = self._waiting[os.write(handle, self._waiting[:_CHUNK]) :]
        except BlockingIOError:
            return False
        except OSError:  # it does not read on
            return True
        return not self._waiting

    @staticmethod
    def _finish(stream: IO[bytes] | None) -> None:
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _reap(process: subprocess.Popen[bytes], deadline: float) -> tuple[int, bool]:
    """Exit status of a process, and whether it had to be killed."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(max(0.0, deadline - time.monotonic())), False
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_REAP_S), True
    return -int(signal.SIGKILL), True  # stuck in the kernel: it goes when the kernel lets it go

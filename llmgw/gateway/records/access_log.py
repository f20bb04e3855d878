# SPDX-License-Identifier: Apache-2.0
"""The access log: one line of JSON a request, written by a thread of its own, dropped and counted when it cannot be.

A request is never held up by it. The event loop only appends to a bounded queue; the thread takes what has come every
few hundredths of a second, and between two writes the event loop has the interpreter to itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final

import msgspec
import structlog

from llmgw.gateway.records.log_file import LogFile, NotWrittenError
from llmgw.gateway.records.record import MOST_CHARACTERS, RequestRecord

MOST_WAITING: Final = 16_384
"""Requests that may wait to be written: a second and a half of 10,000 requests/s, some 10 MB."""
LINGER_S: Final = 0.05
"""Seconds between a request's end and its line, so that a wake-up of the thread writes many."""
LINES_AT_ONCE: Final = 64
"""Lines of one write: making them keeps the event loop waiting, for about 0.1 ms."""
AGAIN_S: Final = 1.0
"""Seconds after a failure before the file is tried again."""
CLOSE_S: Final = 5.0

log = structlog.get_logger()


class AccessLog:
    """An access log, one a process. `start` it in the process that writes; `close` writes what is still waiting.

    `path`: the file, or None for no access log; it may be set anew at any time. `write` is for one thread alone, which
    is the event loop's.
    """

    def __init__(self, path: str | None, *, most_waiting: int = MOST_WAITING) -> None:
        self._path = path
        self.written = 0
        """Lines in the file since the start."""
        self._most_waiting = most_waiting
        self._waiting: deque[RequestRecord] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access-log", daemon=True)
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._file: LogFile | None = None
        self._problem: str | None = None
        self._again_at = 0.0
        # Each is added to by one thread alone: the event loop's, and the log's.
        self._no_room = self._unwritten = 0
        self._dropped_before = 0

    @property
    def path(self) -> str | None:
        """Where lines go from now on. None: nothing is taken any more, and what waits goes where lines went before."""
        return self._path

    @path.setter
    def path(self, path: str | None) -> None:
        self._path = path
        self._wake.set()

    @property
    def dropped(self) -> int:
        """Lines that were not written since the start: too many waited, or the file could not be written to."""
        return self._no_room + self._unwritten

    def start(self) -> None:
        """Starts the thread. After a fork, not before: threads do not cross it."""
        self._thread.start()

    def write(self, record: RequestRecord) -> None:
        """Has the record written soon. Never waits, never fails."""
        if self._path is None:
            return
        waiting = self._waiting
        if len(waiting) >= self._most_waiting:
            self._no_room += 1
            return
        model = record.model
        if len(record.path) > MOST_CHARACTERS or (model is not None and len(model) > MOST_CHARACTERS):
            record.tidy()
        waiting.append(record)
        if len(waiting) == 1:
            self._wake.set()

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Writes what is waiting and ends the thread; after `timeout_s` what a stuck disk holds up is given up."""
        self._closing.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        closing = False
        while not closing:
            self._wake.wait()
            self._wake.clear()
            closing = self._closing.wait(LINGER_S)
            self._write_all()
        if self._file is not None:
            self._file.close()

    def _write_all(self) -> None:
        """Writes until nothing waits; what is appended after that wakes the thread again."""
        waiting = self._waiting
        while waiting:
            batch = [waiting.popleft() for _line in range(min(len(waiting), LINES_AT_ONCE))]
            done = 0
            try:
                done = self._write(batch)
            except Exception as error:  # noqa: BLE001 - a fault in here must not end the log
                self._failed(f"{type(error).__name__}: {error}")
            self.written += done
            self._unwritten += len(batch) - done
        if self._path is None and self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, batch: list[RequestRecord]) -> int:
        """Writes them and returns how many are in the file."""
        file = self._file_now()
        if file is None or time.monotonic() < self._again_at:
            return 0
        for record in batch:
            record.tidy()
        try:
            file.append(self._encode_lines(batch), patient=self._problem is None)
        except NotWrittenError as error:
            self._failed(error.problem)
            return error.lines
        if self._problem is not None:
            self._problem = None
            log.info("the access log is written again", path=file.path, dropped=self.dropped - self._dropped_before)
        return len(batch)

    def _file_now(self) -> LogFile | None:
        path, file = self._path, self._file
        if path is None or (file is not None and file.path == path):
            return file
        if file is not None:
            file.close()
        self._file = LogFile(path)
        self._problem = None
        self._again_at = 0.0
        return self._file

    def _failed(self, problem: str) -> None:
        """Says it once, until it is mended or something else is wrong."""
        self._again_at = time.monotonic() + AGAIN_S
        if self._problem is None:
            self._dropped_before = self.dropped
        if problem != self._problem:
            log.warning("the access log cannot be written: lines are dropped", path=self._path, problem=problem)
        self._problem = problem

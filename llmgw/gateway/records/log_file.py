# SPDX-License-Identifier: Apache-2.0
"""A file that whole lines are appended to, wherever its path leads just now: rotated, missing, full, or a pipe.

Several processes may append to one file of a local disk: it is open with O_APPEND, and each call hands whole lines over
in one write, which the kernel puts in one piece.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import Final

MODE: Final = 0o640
PIPE_BYTES: Final = select.PIPE_BUF
"""What a pipe takes in one piece or not at all."""
READER_WAIT_S: Final = 1.0
"""Seconds that the reader of a pipe may take to make room."""
WITHIN_A_WRITE_S: Final = 0.02
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
NO_READER: Final = "nobody reads from this pipe"
SLOW_READER: Final = "the reader of this pipe makes no room"
FULL: Final = "no space left on device"


class NotWrittenError(Exception):
    """Some lines are not in the file. `lines`: how many are, from the first on."""

    def __init__(self, problem: str, lines: int = 0) -> None:
        super().__init__(problem)
        self.problem = problem
        self.lines = lines


class LogFile:
    """The file at `path`, opened when it is first needed, and again after each failure."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._path = Path(path)
        self._fd: int | None = None
        self._place: tuple[int, int] | None = None
        self._regular = True
        self._look_at_end = True

    def append(self, lines: bytes, *, patient: bool = True) -> None:
        """Appends whole lines, each with its end. Raises NotWrittenError.

        `patient`: whether the reader of a pipe is waited for until it makes room, for a second at most. Where a disk
        gets full within a line, that line is not one: the next one begins after a line break.
        """
        try:
            fd = self._open()
            if self._regular:
                self._to_file(fd, lines)
            else:
                _to_reader(fd, lines, patient=patient)
        except OSError as error:
            self.close()
            no_reader = error.errno in {errno.ENXIO, errno.EPIPE}
            raise NotWrittenError(NO_READER if no_reader else (error.strerror or str(error)).lower()) from error
        except NotWrittenError:
            self.close()
            raise

    def close(self) -> None:
        """Lets go of the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        """The descriptor of what the path leads to now: log rotation moves the file away."""
        if self._fd is not None:
            if self._place == self._place_now():
                return self._fd
            self.close()
        # O_NONBLOCK: opening a pipe that nobody reads fails at once, instead of waiting for a reader.
        fd = os.open(self._path, _FLAGS, MODE)
        self._fd = fd
        status = os.fstat(fd)
        self._place = status.st_dev, status.st_ino
        self._regular = stat.S_ISREG(status.st_mode)
        self._look_at_end = True
        return fd

    def _place_now(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _to_file(self, fd: int, lines: bytes) -> None:
        if self._look_at_end:
            if not self._ends_whole():
                os.write(fd, b"\n")
            self._look_at_end = False
        done = os.write(fd, lines)
        if done < len(lines):
            raise NotWrittenError(FULL, lines.count(b"\n", 0, done))

    def _ends_whole(self) -> bool:
        """Whether nothing is in the file but whole lines. Where that cannot be read, no: an empty line harms none."""
        try:
            size, whole = self._end()
            if not whole:
                # Another process may be within its write, which shows bit by bit.
                time.sleep(WITHIN_A_WRITE_S)
                size_then, whole = self._end()
                whole = whole or size_then != size
        except OSError:
            return False
        return whole

    def _end(self) -> tuple[int, bool]:
        """The file's size, and whether its last line is ended."""
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return size, file.read(1) in {b"", b"\n"}


def _to_reader(fd: int, lines: bytes, *, patient: bool) -> None:
    """Hands lines over to whoever reads, in pieces that arrive whole beside those of other writers."""
    done = 0
    while done < len(lines):
        piece = _whole_lines(lines, done)
        try:
            done += os.write(fd, piece)
        except BlockingIOError:
            if not patient or not _has_room(fd):
                raise NotWrittenError(SLOW_READER, lines.count(b"\n", 0, done)) from None


def _whole_lines(lines: bytes, start: int) -> bytes:
    """As many whole lines from `start` on as a pipe takes in one piece; at least one, whatever its length."""
    end = lines.rfind(b"\n", start, start + PIPE_BYTES) + 1
    return lines[start : end or lines.index(b"\n", start) + 1]


def _has_room(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(READER_WAIT_S * 1000))

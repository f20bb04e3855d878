# SPDX-License-Identifier: Apache-2.0
"""Named numbers that one process writes and another reads, in memory that both have mapped.

A worker writes all its numbers about twenty times a second; the control process reads them without asking. They
outlive the writer: a worker that was killed takes none of its totals along. The memory itself says what is in it, so a
reader of another version reads the names that it knows.

Layout: turn and beat, then two banks, each a head, `MOST` doubles and their names as UTF-8, ended by newlines. The
writer fills the bank that is not in force and then makes the turn one more, which puts it in force: wherever the writer
dies, one bank is whole.
"""

from __future__ import annotations

import mmap
import os
import struct
from array import array
from collections.abc import Sequence

MOST = 32 * 1024
"""Numbers that one process can share; further ones are left out, the last first."""
NAME_BYTES = 4 * 1024 * 1024
"""Room for their names. Memory that nobody touches costs nothing."""

_TURN = struct.Struct("<Q")
_BEAT = struct.Struct("<d")
_HEAD = struct.Struct("<QQQQ")
"""Of a bank: its layout, how many numbers, how many of them are live, bytes of names."""
_BEAT_AT = 8
_BANK_AT = 64
_NUMBERS_AT = 64
_NAMES_AT = _NUMBERS_AT + MOST * 8
_BANK = _NAMES_AT + NAME_BYTES
SIZE = _BANK_AT + 2 * _BANK


def make() -> int:
    """A new piece of memory, as a file descriptor that processes hand on."""
    descriptor = os.memfd_create("llmgw-cells")
    os.ftruncate(descriptor, SIZE)
    return descriptor


class Writer:
    """The writing end; there is one."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)
        self._turn = self._layout = self._named = 0
        self._banks = [-1, -1]
        """The layout whose names each bank holds."""
        self._names: Sequence[str] | None = None
        self._text = b""
        self._values = array("d")

    def write(self, names: Sequence[str], values: Sequence[float], live: int, now: float) -> None:
        """Makes `values` what readers see under `names`, of which the first `live` are asked for often.

        Names are taken to be as before when it is the same object. `now`: monotonic seconds.
        """
        fresh = array("d", values[:MOST])
        if names is not self._names:
            self._names = names
            self._layout += 1
            lines = [name.encode() + b"\n" for name in names[: len(fresh)]]
            while sum(map(len, lines)) > NAME_BYTES:
                lines = lines[: len(lines) // 2]
            self._text = b"".join(lines)
            self._named = len(lines)
        elif fresh == self._values:
            self.beat(now)
            return
        self._values = fresh
        bank = (self._turn + 1) % 2
        at = _BANK_AT + bank * _BANK
        memory = self._memory
        if self._banks[bank] != self._layout:
            self._banks[bank] = self._layout
            memory[at + _NAMES_AT : at + _NAMES_AT + len(self._text)] = self._text
        count = min(len(fresh), self._named)
        _HEAD.pack_into(memory, at, self._layout, count, min(live, count), len(self._text))
        memory[at + _NUMBERS_AT : at + _NUMBERS_AT + len(fresh) * 8] = fresh.tobytes()
        self._turn += 1
        _TURN.pack_into(memory, 0, self._turn)
        self.beat(now)

    def beat(self, now: float) -> None:
        """Says that the writer lives, and that its numbers are what they were."""
        _BEAT.pack_into(self._memory, _BEAT_AT, now)

    def close(self) -> None:
        """Lets go of the memory."""
        self._memory.close()


class Reader:
    """A reading end."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE, access=mmap.ACCESS_READ)
        self._layout = 0
        self._names: list[str] = []
        self._seen: dict[bool, tuple[int, dict[str, float]]] = {}

    @property
    def beat(self) -> float:
        """Monotonic seconds at which the writer last said that it lives; 0 before it did."""
        return float(_BEAT.unpack_from(self._memory, _BEAT_AT)[0])

    def read(self, *, live: bool = False) -> dict[str, float]:
        """The numbers that were written last, or only the live ones among them. Not to be changed."""
        while True:
            turn = _TURN.unpack_from(self._memory, 0)[0]
            seen = self._seen.get(live)
            if seen is not None and seen[0] == turn:
                return seen[1]
            numbers = self._take(_BANK_AT + turn % 2 * _BANK, live=live)
            if _TURN.unpack_from(self._memory, 0)[0] == turn:
                self._seen[live] = turn, numbers
                return numbers
            self._layout = 0  # the bank may have been written to meanwhile, names too

    def _take(self, at: int, *, live: bool) -> dict[str, float]:
        memory = self._memory
        layout, count, first, size = _HEAD.unpack_from(memory, at)
        if layout != self._layout:
            self._names = memory[at + _NAMES_AT : at + _NAMES_AT + size].decode(errors="replace").split("\n")
            self._layout = layout
        values = array("d")
        begin = at + _NUMBERS_AT
        values.frombytes(memory[begin : begin + (first if live else count) * 8])
        return dict(zip(self._names, values, strict=False))

    def close(self) -> None:
        """Lets go of the memory."""
        self._memory.close()

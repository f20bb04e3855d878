# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from llmgw.gateway.processes import cells
from llmgw.gateway.processes.cells import Reader, Writer

WAIT_S = 20.0


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = cells.make()
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def pair(memory: int) -> Iterator[tuple[Writer, Reader]]:
    writer, reader = Writer(memory), Reader(memory)
    yield writer, reader
    writer.close()
    reader.close()


def test_before_anything_is_written_there_is_nothing_to_read(pair: tuple[Writer, Reader]) -> None:
    _writer, reader = pair
    assert reader.read() == {}
    assert reader.beat == 0


def test_what_is_written_is_read_and_the_live_part_alone_when_asked_for(pair: tuple[Writer, Reader]) -> None:
    writer, reader = pair
    names = ["a", "b", "c"]
    writer.write(names, [1, 2.5, 3], 2, 7.0)
    assert reader.read() == {"a": 1, "b": 2.5, "c": 3}
    assert reader.read(live=True) == {"a": 1, "b": 2.5}
    writer.write(names, [4, 2.5, 3], 2, 8.0)
    assert reader.read(live=True) == {"a": 4, "b": 2.5}
    assert reader.read() == {"a": 4, "b": 2.5, "c": 3}
    assert reader.beat == 8.0


def test_a_beat_without_news_changes_no_number(pair: tuple[Writer, Reader]) -> None:
    writer, reader = pair
    names = ["a"]
    writer.write(names, [1], 1, 7.0)
    before = reader.read()
    writer.write(names, [1], 1, 9.0)
    assert reader.beat == 9.0
    assert reader.read() is before


@pytest.mark.parametrize("between", [False, True])
def test_other_names_take_the_place_of_those_before(pair: tuple[Writer, Reader], *, between: bool) -> None:
    writer, reader = pair
    first, second = ["a", "b"], ["a", "longer", "c"]
    for names, values in [(first, [1.0, 2.0]), (second, [3.0, 4.0, 5.0]), (second, [3.0, 4.0, 6.0]), (["x"], [9.0])]:
        writer.write(names, values, 1, 1.0)
        if between:
            assert reader.read() == dict(zip(names, values, strict=True))
    assert reader.read() == {"x": 9}


def test_what_has_no_room_is_left_out_from_the_end(
    pair: tuple[Writer, Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = pair
    monkeypatch.setattr(cells, "MOST", 2)
    writer.write(["a", "b", "c"], [1, 2, 3], 3, 1.0)
    assert reader.read() == {"a": 1, "b": 2}


@pytest.mark.parametrize("length", [3, 700])
def test_a_reader_never_sees_half_of_a_write_wherever_the_writer_is_killed(memory: int, length: int) -> None:
    pid = os.fork()
    if pid == 0:
        _write_for_ever(memory, length)
    reader = Reader(memory)
    deadline = time.monotonic() + WAIT_S
    seen: set[float] = set()
    try:
        while len(seen) < 30 and time.monotonic() < deadline:
            numbers = reader.read()
            if numbers:
                assert len(set(numbers.values())) == 1, "numbers of two writes"
                assert len({name[-1] for name in numbers}) == 1, "names of two layouts"
                seen.add(next(iter(numbers.values())))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    last = reader.read()
    assert len(seen) == 30
    assert len(set(last.values())) == 1
    assert max(last.values()) >= max(seen)
    reader.close()


def _write_for_ever(memory: int, length: int) -> None:
    """All numbers of one write are alike, and so are the last letters of its names."""
    writer = Writer(memory)
    layouts = [[f"{place}{mark}" for place in range(length)] for mark in "abc"]
    number = 0
    while True:
        number += 1
        writer.write(layouts[number // 7 % 3], [number] * length, length, 1.0)

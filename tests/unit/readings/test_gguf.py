# SPDX-License-Identifier: Apache-2.0
"""Headers of GGUF files: whose part it is, how long the file is by them, and what is no such header."""

from __future__ import annotations

import contextlib
import io
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import gguf
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.gguf import CutOff, GgufHeader, TooLong
from tests.support import model_files
from tests.support.model_files import F16, Q4_0, Q4_K

TENSORS = {"token_embd.weight": (F16, (32, 8)), "blk.0.attn_q.weight": (Q4_K, (256, 2)), "output.weight": (Q4_0, (64,))}
FILE = model_files.gguf(TENSORS, split=(1, 3))
DATA = 512 + 288 + 36


def read(content: bytes) -> GgufHeader:
    return gguf.read_header(io.BytesIO(content))


def pairs(*encoded: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(encoded)) + b"".join(encoded)


def pair(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def test_a_file_tells_what_it_is_a_part_of_and_how_long_it_is() -> None:
    found = read(FILE)
    assert (found.architecture, found.name, found.tensors) == ("llama", "Tiny", 3)
    assert (found.split_no, found.split_count, found.split_tensors) == (1, 3, 9)
    assert (found.tensor_bytes, found.least_bytes) == (DATA, len(FILE))


@pytest.mark.parametrize("words", [0, 1, 3_000, 60_000])
def test_a_vocabulary_of_any_size_is_passed_over(words: int) -> None:
    content = model_files.gguf(words=words)
    assert read(content).least_bytes == len(content)


def test_a_file_of_the_other_byte_order_is_read() -> None:
    content = model_files.gguf(TENSORS, order=">")
    assert (read(content).tensor_bytes, read(content).least_bytes) == (DATA, len(content))


def test_data_begins_where_the_alignment_puts_it() -> None:
    content = model_files.gguf(TENSORS, alignment=4096)
    assert (read(content).data_begin, read(content).least_bytes) == (4096, len(content))


@pytest.mark.parametrize(
    "begin",
    [
        struct.pack("<QQ", 0, 1 << 63),
        struct.pack("<QQ", 1 << 63, 0),
        struct.pack("<QQ", 0, 1) + pair(b"a", 9, struct.pack("<IQ", 9, 1 << 62)),
        struct.pack("<QQ", 0, 1) + pair(b"a", 9, struct.pack("<IQIQ", 9, 150_000, 9, 150_000)),
    ],
    ids=["values", "tensors", "arrays", "arrays of arrays"],
)
def test_space_that_was_never_written_is_not_read_for_seconds(begin: bytes) -> None:
    content = b"GGUF" + struct.pack("<I", 3) + begin + bytes(gguf.HEADER_LIMIT)
    started = time.process_time()
    with pytest.raises(TooLong, match="no more than 200000 values and tensors"):
        read(content)
    assert time.process_time() - started < 1


def test_a_part_without_tensors_has_its_header_alone() -> None:
    content = model_files.gguf({}, split=(0, 2))
    found = read(content)
    assert found.tensor_bytes == 0
    assert found.least_bytes <= len(content)


def test_the_size_of_a_tensor_of_a_new_type_is_unknown() -> None:
    found = read(model_files.gguf({"a": (200, (64,)), "b": (F16, (8,))}))
    assert found.tensor_bytes is None
    assert found.least_bytes == found.data_begin + 64 + 16


@pytest.mark.parametrize("length", range(0, len(FILE) - DATA - 32, 7))
def test_a_file_that_ends_in_its_header_is_cut_off(length: int) -> None:
    with pytest.raises(CutOff):
        read(FILE[:length])


@pytest.mark.parametrize(
    "content",
    [
        b"GGML" + bytes(100),
        b"version https://git-lfs.github.com/spec/v1\n",
        b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 99, 0, 0),
        pairs(pair(b"a", 77, b"")),
        pairs(pair(b"a", 9, struct.pack("<IQ", 77, 1))),
        b"GGUF" + struct.pack("<IQQQ", 3, 1, 0, 1) + b"t" + struct.pack("<I", 2**31),
    ],
)
def test_what_is_no_header_is_unreadable(content: bytes) -> None:
    with pytest.raises(Unreadable) as raised:
        read(content)
    assert type(raised.value) is Unreadable


def test_arrays_of_arrays_are_passed_over_to_a_depth() -> None:
    inner = struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 4, 2) + bytes(8)
    assert read(pairs(pair(b"a", 9, inner))).tensors == 0
    with pytest.raises(Unreadable):
        read(pairs(pair(b"a", 9, struct.pack("<IQ", 9, 1) * 10)))


@pytest.mark.parametrize("kind", [4, 8])
def test_an_array_that_is_said_to_be_endless_is_cut_off(kind: int) -> None:
    with pytest.raises(CutOff):
        read(pairs(pair(b"a", 9, struct.pack("<IQ", kind, 2**62) + bytes(2000))))


def test_a_header_that_is_too_long_to_be_read_is_told_apart() -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return bytes(size)

    begin = pairs(pair(b"a", 9, struct.pack("<IQ", 4, 2**62)))
    source = io.BufferedReader(Joined(begin, Endless()))
    with pytest.raises(TooLong):
        gguf.read_header(source)


class Joined(io.RawIOBase):
    """Some bytes and then another source."""

    def __init__(self, first: bytes, then: io.RawIOBase) -> None:
        self._first = io.BytesIO(first)
        self._then = then

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self._first.read(len(buffer)) or self._then.read(len(buffer)) or b""
        buffer[: len(content)] = content
        return len(content)


@given(st.integers(0, len(FILE)), st.integers(0, 40), st.binary(max_size=20))
def test_no_damage_raises_anything_else(start: int, length: int, insert: bytes) -> None:
    for tried in (FILE[:start] + insert + FILE[start + length :], insert, b"GGUF" + insert):
        with contextlib.suppress(Unreadable):
            assert read(tried).least_bytes >= 24

# SPDX-License-Identifier: Apache-2.0
"""Headers of safetensors files: how long the file is by them, and what is no such header."""

from __future__ import annotations

import contextlib
import io
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import safetensors
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.safetensors import SafetensorsHeader, TooLong
from tests.support import model_files

FILE = model_files.safetensors({"embed": (6, 4), "norm": (4,)})


def read(content: bytes) -> SafetensorsHeader:
    return safetensors.read_header(io.BytesIO(content))


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def test_the_length_of_a_whole_file_is_in_its_header() -> None:
    found = read(FILE)
    assert (found.tensor_bytes, found.tensors, found.file_bytes) == (6 * 4 * 4 + 4 * 4, 2, len(FILE))


def test_tensors_need_not_be_in_the_order_of_their_data() -> None:
    header = {
        "b": {"dtype": "U8", "shape": [2], "data_offsets": [3, 5]},
        "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
    }
    assert read(with_header(json.dumps(header).encode(), b"12345")).tensor_bytes == 5


def test_a_file_without_tensors_is_whole_without_data() -> None:
    content = with_header(b"{}")
    assert read(content).file_bytes == len(content)


@pytest.mark.parametrize("length", range(len(FILE) - 112))
def test_a_file_that_ends_in_its_header_is_unreadable(length: int) -> None:
    with pytest.raises(Unreadable):
        read(FILE[:length])


@pytest.mark.parametrize(
    "content",
    [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4976698672\n",
        bytes(1000),
        with_header(b"[]"),
        with_header(b"not json"),
        with_header(b"\xff\xfe"),
        with_header(b'{"a": 1}'),
        with_header(b'{"a": {"data_offsets": [0]}}'),
        with_header(b'{"a": {"data_offsets": [5, 3]}}'),
        with_header(b'{"a": {"data_offsets": [-1, 3]}}'),
        with_header(b'{"a": {"data_offsets": [0, true]}}'),
        with_header(b'{"a": {"data_offsets": [0, 1e400]}}'),
        with_header(b'{"a":' * 50_000),
    ],
)
def test_what_is_no_header_is_unreadable(content: bytes) -> None:
    with pytest.raises(Unreadable):
        read(content)


def test_a_header_that_is_too_long_to_be_read_is_told_apart() -> None:
    with pytest.raises(TooLong):
        read(struct.pack("<Q", safetensors.HEADER_LIMIT + 1) + b"{")


def test_a_source_that_gives_little_at_a_time_is_read_to_the_end() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 3))

    assert safetensors.read_header(Slow(FILE)) == read(FILE)


@given(st.binary(), st.binary(max_size=64))
def test_no_bytes_raise_anything_else(content: bytes, inner: bytes) -> None:
    for tried in (content, with_header(inner), with_header(b'{"a":' + inner + b"}")):
        with contextlib.suppress(Unreadable):
            assert read(tried).file_bytes >= 10

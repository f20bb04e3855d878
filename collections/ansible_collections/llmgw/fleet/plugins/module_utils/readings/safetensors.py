# SPDX-License-Identifier: BSD-2-Clause
"""Reads the beginning of a safetensors file: how long the whole file has to be.

Private to llmgw and pure. The format: the header's length N in 8 bytes, little-endian; N bytes of JSON that give every
tensor its place in the data; the data, without holes. So a file is whole when it has 8 + N + the last end bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, BinaryIO

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

PREFIX_BYTES = 8
HEADER_LIMIT = 16 * 1024 * 1024
"""Bytes of header that are read. The format allows 100 MB; headers of thousands of tensors have one or two."""
_METADATA = "__metadata__"


class TooLong(Unreadable):
    """The header may be right, but is longer than what is read of it."""


@dataclass(frozen=True)
class SafetensorsHeader:
    """`header_bytes` is N, `tensor_bytes` the length of the data."""

    header_bytes: int
    tensor_bytes: int
    tensors: int

    @property
    def file_bytes(self) -> int:
        """Bytes that the file has when nothing of it is missing."""
        return PREFIX_BYTES + self.header_bytes + self.tensor_bytes


def header_length(prefix: bytes) -> int:
    """N, from the first eight bytes. Raises Unreadable when there are fewer, or when N cannot be the length of JSON."""
    if len(prefix) < PREFIX_BYTES:
        raise Unreadable("a safetensors file begins with eight bytes of header length, and there are fewer")
    length = int.from_bytes(prefix[:PREFIX_BYTES], "little")
    if length < len("{}"):
        raise Unreadable("the header length is 0, so this is no safetensors file, or space that was never written")
    return length


def read_header(stream: BinaryIO) -> SafetensorsHeader:
    """The header at the start of a file. Raises Unreadable, as TooLong where N is above what is read."""
    length = header_length(first_bytes(stream, PREFIX_BYTES))
    if length > HEADER_LIMIT:
        raise TooLong(f"the header is said to have {length} bytes, and no more than {HEADER_LIMIT} are read")
    header = first_bytes(stream, length)
    if len(header) < length:
        raise Unreadable(f"the header has {length} bytes, of which {len(header)} are there")
    try:
        tensors = json.loads(header)
    except (ValueError, RecursionError):
        raise Unreadable("the header is no JSON") from None
    if not isinstance(tensors, dict):
        raise Unreadable("the header is no JSON object")
    ends = [_end(tensor) for name, tensor in tensors.items() if name != _METADATA]
    return SafetensorsHeader(length, max(ends, default=0), len(ends))


def _end(tensor: Any) -> int:
    offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
    if not isinstance(offsets, list) or not all(_is_whole(offset) for offset in offsets):
        raise Unreadable("a tensor has no data_offsets of whole numbers")
    if len(offsets) != len(("begin", "end")) or not 0 <= offsets[0] <= offsets[1]:
        raise Unreadable("a tensor's data_offsets are not a begin and an end")
    end: int = offsets[1]
    return end


def first_bytes(stream: BinaryIO, count: int) -> bytes:
    """So many bytes of a stream, or what there is of them: a file may give fewer than asked for at a time."""
    chunks = []
    while count > 0:
        chunk = stream.read(count)
        if not chunk:
            break
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

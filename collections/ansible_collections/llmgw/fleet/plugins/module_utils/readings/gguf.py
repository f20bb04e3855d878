# SPDX-License-Identifier: BSD-2-Clause
"""Reads the beginning of a GGUF file: what model it is a part of, and how long the whole file has to be.

Private to llmgw and pure. The format: magic, version, two counts; key-value pairs, among them the vocabulary; one
record a tensor with its place in the data; padding; the data. The vocabulary is passed over as it streams by: it is
megabytes of strings, each with its length before it, and nothing says where it ends.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Dict, List, Mapping, Optional, Union

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.gguf_types import tensor_bytes

MAGIC = b"GGUF"
HEADER_LIMIT = 64 * 1024 * 1024
"""Bytes of header that are read; those of large vocabularies have some fifteen million."""
ENTRIES_LIMIT = 200_000
"""Values and tensors that are read one by one; the largest models have some thousands."""
_CHUNK = 256 * 1024
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_TEXT_LIMIT = 1024
_DEPTH = 4
_DIMENSIONS = 8
_ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type of a value to its code for `struct`."""
_Number = Union[int, float]
_Numbers = List[_Number]
_Value = Union[str, int, float, _Numbers, None]
_NUMBERS_LIMIT = 500
_LIST_LIMIT = 1024
"""Numbers of a list that is kept: one a layer. Vocabularies have lists of hundreds of thousands."""


class CutOff(Unreadable):
    """The bytes end within the header."""


class TooLong(Unreadable):
    """The header may be right, but is longer than what is read of it."""


@dataclass(frozen=True)
class GgufHeader:
    """`data_begin` is where the data starts; `tensor_bytes` None where a tensor is of a type that is not known here.

    `least_bytes` is what the file has at least: exactly the end of its last tensor when all types are known. `split_*`
    are of the file's place among the parts of one model, from 0. `numbers` are the model's own: those named after its
    architecture, without that word, where a list has one a layer.
    """

    architecture: Optional[str]
    name: Optional[str]
    split_no: Optional[int]
    split_count: Optional[int]
    split_tensors: Optional[int]
    tensors: int
    data_begin: int
    least_bytes: int
    tensor_bytes: Optional[int]
    numbers: Mapping[str, Union[int, float, List[Union[int, float]]]] = field(default_factory=dict)


def read_header(stream: BinaryIO) -> GgufHeader:
    """The header at the start of a file. Raises Unreadable: CutOff where the bytes end early, TooLong at a limit."""
    source = _Source(stream)
    if source.take(len(MAGIC)) != MAGIC:
        raise Unreadable("a GGUF file begins with the letters GGUF")
    version = source.number("I")
    if version & 0xFFFF == 0:
        source = replace(source, order=">")
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in _VERSIONS:
        raise Unreadable(f"GGUF versions 2 and 3 can be read, not {version}")
    tensors, pairs = source.number("Q"), source.number("Q")
    source.expect(tensors + pairs)
    known: Dict[str, _Value] = {}
    for _pair in range(pairs):
        name = source.text()
        value = source.value(source.number("I"))
        if name is not None and value is not None:
            known[name] = value
    end, total = 0, 0
    exact = True
    for _tensor in range(tensors):
        source.skip(source.number("Q"))
        count = 1
        dimensions = source.number("I")
        if dimensions > _DIMENSIONS:
            raise Unreadable(f"a tensor is said to have {dimensions} dimensions")
        for _dimension in range(dimensions):
            count *= source.number("Q")
        size = tensor_bytes(source.number("I"), count)
        exact = exact and size is not None
        end, total = max(end, source.number("Q") + (size or 0)), total + (size or 0)
    alignment = _whole(known.get("general.alignment")) or _ALIGNMENT
    architecture = _text(known.get("general.architecture"))
    begin = -(-source.position // alignment) * alignment
    return GgufHeader(
        architecture=architecture,
        name=_text(known.get("general.name")),
        split_no=_whole(known.get("split.no")),
        split_count=_whole(known.get("split.count")),
        split_tensors=_whole(known.get("split.tensors.count")),
        tensors=tensors,
        data_begin=begin,
        least_bytes=begin + end if tensors else source.position,
        tensor_bytes=total if exact else None,
        numbers=_numbers(known, f"{architecture}."),
    )


@dataclass
class _Source:
    """The bytes as they come, in chunks; `position` is that of the next one in the file."""

    stream: BinaryIO
    order: str = "<"
    position: int = 0
    _chunk: bytes = b""
    _at: int = 0
    _entries: int = 0
    _scalars: Dict[str, struct.Struct] = field(default_factory=dict, init=False)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self._fill(count)
        begin = self._at
        self._at += count
        self.position += count
        return self._chunk[begin : self._at]

    def number(self, code: str) -> int:
        """The next number of this `struct` code."""
        scalar = self._scalars.get(code)
        if scalar is None:
            scalar = self._scalars[code] = struct.Struct(self.order + code)
        found: int = scalar.unpack(self.take(scalar.size))[0]
        return found

    def text(self) -> str | None:
        """The next string; None for one that is too long to matter."""
        length = self.number("Q")
        if length > _TEXT_LIMIT:
            self.skip(length)
            return None
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> _Value:
        """The next value; None for arrays other than short ones of numbers: those are passed over."""
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY or depth == _DEPTH:
            raise Unreadable(f"there is no value of type {kind} in GGUF")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS and count <= _LIST_LIMIT and depth == 0:
            return [self.number(_SCALARS[inner]) for _one in range(count)]
        if inner in _SCALARS:
            self.skip(count * struct.calcsize(self.order + _SCALARS[inner]))
        elif inner == _STRING:
            self._skip_strings(count)
        else:
            self.expect(count)
            for _value in range(count):
                self.value(inner, depth + 1)
        return None

    def expect(self, entries: int) -> None:
        """Raises TooLong where these and those before are too many to read: space never written has any number."""
        self._entries += entries
        if self._entries > ENTRIES_LIMIT:
            raise TooLong(f"no more than {ENTRIES_LIMIT} values and tensors are read")

    def skip(self, count: int) -> None:
        """Passes over the next bytes."""
        while count > 0:
            self._fill(1)
            step = min(count, len(self._chunk) - self._at)
            self._at += step
            self.position += step
            count -= step

    def _skip_strings(self, count: int) -> None:
        """Passes over strings. Apart from `skip` because there are hundreds of thousands of them."""
        unpack = struct.Struct(self.order + "Q").unpack_from
        while count > 0:
            self._fill(8)
            chunk, at = self._chunk, self._at
            last = len(chunk) - 8
            while count > 0 and at <= last:
                at += 8 + unpack(chunk, at)[0]
                count -= 1
            beyond = max(0, at - len(chunk))
            at -= beyond
            self.position += at - self._at
            self._at = at
            self.skip(beyond)

    def _fill(self, count: int) -> None:
        """Makes so many bytes lie ahead in the chunk."""
        while len(self._chunk) - self._at < count:
            if self.position + count > HEADER_LIMIT:
                raise TooLong(f"no more than {HEADER_LIMIT} bytes of a header are read")
            more = self.stream.read(max(_CHUNK, count))
            if not more:
                raise CutOff("the bytes end within the header")
            self._chunk = self._chunk[self._at :] + more
            self._at = 0


def _numbers(known: Mapping[str, _Value], prefix: str) -> Dict[str, Union[int, float, _Numbers]]:
    """The values that are numbers, by the end of their names. Some are no number JSON knows: those are left out."""
    found: Dict[str, Union[int, float, _Numbers]] = {}
    for name, value in known.items():
        if name.startswith(prefix) and value is not None and not isinstance(value, str):
            listed = value if isinstance(value, list) else [value]
            if all(map(math.isfinite, listed)) and len(found) < _NUMBERS_LIMIT:
                found[name[len(prefix) :]] = value
    return found


def _text(value: _Value) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: _Value) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

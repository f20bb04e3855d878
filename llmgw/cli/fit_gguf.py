# SPDX-License-Identifier: Apache-2.0
"""Whether a GGUF file of this machine can be what its first bytes say: counts that it has no room for are a mistake."""

from __future__ import annotations

from pathlib import Path

from llmgw.errors import LlmgwError

_MAGIC, _BEGIN = b"GGUF", 24
_LEAST_OF_TENSOR, _LEAST_OF_PAIR = 24, 13
"""Bytes of the shortest entries: a tensor without name or dimensions, and a key without letters whose value is one
byte.
"""


def refuse_impossible(path: Path) -> None:
    """Raises LlmgwError `model-unreadable` for a GGUF file without tensors, or with more than it has room for."""
    with path.open("rb") as stream:
        begin = stream.read(_BEGIN)
    if len(begin) < _BEGIN or not begin.startswith(_MAGIC):
        return
    order = "big" if begin[4:6] == b"\0\0" else "little"
    tensors, pairs = (int.from_bytes(begin[at : at + 8], order) for at in (8, 16))  # type: ignore[arg-type]
    size = path.stat().st_size
    if tensors and _BEGIN + tensors * _LEAST_OF_TENSOR + pairs * _LEAST_OF_PAIR <= size:
        return
    why = f"its header names {tensors} tensors and {pairs} values, and the file has {size} bytes" if tensors else ""
    raise LlmgwError(
        "model-unreadable",
        f"not a GGUF file that can be read: {why or 'it has no tensors'}",
        where=str(path),
        fix="fetch the file again, or name another one",
    )

# SPDX-License-Identifier: Apache-2.0
"""Tiny but genuine weight files, and the directories in which programs keep them."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMMIT = "c0ffee" + "0" * 34
CONFIG = b'{"architectures": ["TinyForCausalLM"]}'
TOKENIZER = b'{"version": "1.0"}'
README = b"# Tiny\n"

_WIDTH = {"F32": 4, "BF16": 2, "I8": 1}
_U16, _U32, _I32, _F32, _STRING, _ARRAY = 2, 4, 5, 6, 8, 9
F32, F16, Q4_0, Q4_K = 0, 1, 2, 12
"""Types of tensors in GGUF."""
_BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q4_K: (256, 144)}


def safetensors(sizes: Mapping[str, Sequence[int]], dtype: str = "F32") -> bytes:
    """A file with a tensor of this shape for each name, filled with a pattern."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in sizes.items():
        begin = end
        count = 1
        for length in shape:
            count *= length
        end += count * _WIDTH[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + _filler(end)


def shards(count: int, stem: str = "model") -> dict[str, bytes]:
    """A set of shards with its index, whose total is right."""
    names = [f"{stem}-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    files = {name: safetensors({f"layer.{number}.weight": (8, 8)}) for number, name in enumerate(names)}
    weight_map = {f"layer.{number}.weight": name for number, name in enumerate(names)}
    files[f"{stem}.safetensors.index.json"] = index(weight_map, 256 * count)
    return files


def index(weight_map: Mapping[str, str], total: int | None) -> bytes:
    """An index of shards."""
    metadata = {} if total is None else {"total_size": total}
    return json.dumps({"metadata": metadata, "weight_map": dict(weight_map)}).encode()


def model(count: int = 2) -> dict[str, bytes]:
    """All files of a small model in shards."""
    return {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "README.md": README, **shards(count)}


def gguf(
    tensors: Mapping[str, tuple[int, Sequence[int]]] | None = None,
    *,
    split: tuple[int, int] | None = None,
    words: int = 20,
    order: str = "<",
    alignment: int | None = None,
    numbers: Mapping[str, int | Sequence[int]] | None = None,
) -> bytes:
    """A file of version 3: types and shapes of tensors by name, its place among parts, and a vocabulary. `numbers` are
    the model's own, by the end of their names.
    """
    tensors = tensors if tensors is not None else {"token_embd.weight": (F16, (32, 8)), "output.weight": (Q4_0, (64,))}
    pairs = [
        ("general.architecture", _STRING, _text("llama", order)),
        ("general.name", _STRING, _text("Tiny", order)),
        ("tokenizer.ggml.tokens", _ARRAY, _array(_STRING, [_text(f"word{i}", order) for i in range(words)], order)),
        ("tokenizer.ggml.scores", _ARRAY, _array(_F32, [struct.pack(order + "f", -i) for i in range(words)], order)),
    ]
    for name, value in (numbers or {}).items():
        if isinstance(value, int):
            pairs.append((f"llama.{name}", _U32, struct.pack(order + "I", value)))
        else:
            inner = [struct.pack(order + "I", one) for one in value]
            pairs.append((f"llama.{name}", _ARRAY, _array(_U32, inner, order)))
    if alignment is not None:
        pairs.append(("general.alignment", _U32, struct.pack(order + "I", alignment)))
    if split is not None:
        pairs.append(("split.no", _U16, struct.pack(order + "H", split[0])))
        pairs.append(("split.count", _U16, struct.pack(order + "H", split[1])))
        pairs.append(("split.tensors.count", _I32, struct.pack(order + "i", len(tensors) * split[1])))
    head = b"GGUF" + struct.pack(order + "IQQ", 3, len(tensors), len(pairs))
    head += b"".join(_text(name, order) + struct.pack(order + "I", kind) + value for name, kind, value in pairs)
    align = alignment or 32
    data = last = 0
    for name, (kind, shape) in tensors.items():
        head += _text(name, order) + struct.pack(order + f"I{len(shape)}Q", len(shape), *shape)
        head += struct.pack(order + "IQ", kind, data)
        count = 1
        for length in shape:
            count *= length
        per_block, block_bytes = _BLOCKS.get(kind, (1, 1))
        size = count // per_block * block_bytes
        last = data + size
        data += -(-size // align) * align
    return head + b"\0" * (-len(head) % align) + _filler(last)


def _text(text: str, order: str) -> bytes:
    return struct.pack(order + "Q", len(text)) + text.encode()


def _array(kind: int, values: Sequence[bytes], order: str) -> bytes:
    return struct.pack(order + "IQ", kind, len(values)) + b"".join(values)


def _filler(count: int) -> bytes:
    return (b"\x5a\xa5" * (count // 2 + 1))[:count]


def write(directory: Path, files: Mapping[str, bytes]) -> Path:
    """Files by their paths in a directory, which is made."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def hub_repository(
    cache: Path,
    repository: str,
    files: Mapping[str, bytes],
    *,
    commit: str = COMMIT,
    refs: Sequence[str] = ("main",),
    tree: Mapping[str, bytes] | bool = True,
    shared_store: bool = False,
) -> Path:
    """A repository in a cache of huggingface_hub 2.x, and returns its snapshot.

    `tree` is the list of all its files, or whether there is one of those given. With `shared_store` large files lie in
    the store of the whole cache.
    """
    folder = cache / f"models--{repository.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for name, content in files.items():
        etag = hashlib.sha256(content).hexdigest()
        blob = folder / "blobs" / etag
        blob.parent.mkdir(parents=True, exist_ok=True)
        if shared_store and name.endswith((".safetensors", ".gguf")):
            _link_to_store(cache, blob, content)
        else:
            blob.write_bytes(content)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    for ref in refs:
        write(folder / "refs", {ref: commit.encode()})
    if tree is not False:
        write_tree(folder / "trees" / f"{commit}.json", files if tree is True else tree)
    return snapshot


def write_tree(path: Path, files: Mapping[str, bytes]) -> None:
    """The list of a repository's files, as huggingface_hub stores it."""
    listed: dict[str, dict[str, Any]] = {}
    for name, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        listed[name] = {"size": len(content), "blob_id": digest}
        if name.endswith((".safetensors", ".gguf", ".bin")):
            listed[name] = {"size": len(content), "blob_id": "0" * 40, "lfs_sha256": digest, "lfs_size": len(content)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format_version": 1, "files": listed}, indent=1), encoding="utf-8")


def _link_to_store(cache: Path, blob: Path, content: bytes) -> None:
    xet = hashlib.sha256(b"xet" + content).hexdigest()
    store = cache / "blobs"
    write(store, {".huggingface-shared-blobs": b"1\n", f"{xet[:2]}/{xet}": content, f"{xet[:2]}/{xet}.refs": b""})
    blob.symlink_to(os.path.relpath(store / xet[:2] / xet, blob.parent))

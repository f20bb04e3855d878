# SPDX-License-Identifier: BSD-2-Clause
"""Reads the two lists of files that come with weights: a repository's tree and the index of its shards.

Private to llmgw and pure. `trees/<commit>.json` is written by huggingface_hub 2.x and lists every file of the
repository; `*.index.json` maps every tensor to the file that holds it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

TREE_LIMIT = 16 * 1024 * 1024
INDEX_LIMIT = 32 * 1024 * 1024
"""Bytes that are read: an index has a line a tensor, which for the largest models is ten million bytes."""
_MOST_FILES = 20_000


@dataclass(frozen=True)
class TreeFile:
    """A file as the hub has it. `etag` is the name of its blob in the cache."""

    size: Optional[int]
    etag: Optional[str] = None


@dataclass(frozen=True)
class ShardIndex:
    """The files that hold the tensors, by name, and the bytes of all tensors, which some repositories have wrong."""

    files: Tuple[str, ...]
    total_size: Optional[int] = None


def read_tree(content: bytes) -> Dict[str, TreeFile]:
    """The repository's files by path. Raises Unreadable."""
    files = _document(content).get("files")
    if not isinstance(files, dict):
        raise Unreadable("a tree has an object 'files'")
    return {path: _tree_file(about) for path, about in files.items() if isinstance(about, dict)}


def read_index(content: bytes) -> ShardIndex:
    """The shards of an index. Raises Unreadable."""
    document = _document(content)
    weight_map, metadata = document.get("weight_map"), document.get("metadata")
    if not isinstance(weight_map, dict) or not weight_map:
        raise Unreadable("an index has an object 'weight_map' with a file for every tensor")
    if not all(isinstance(name, str) and name for name in weight_map.values()):
        raise Unreadable("the index maps a tensor to something that is no file name")
    files = set(weight_map.values())
    if len(files) > _MOST_FILES:
        raise Unreadable(f"the index names {len(files)} files, and no model has more than {_MOST_FILES}")
    total = _whole(metadata.get("total_size")) if isinstance(metadata, dict) else None
    return ShardIndex(tuple(sorted(files)), total)


def _tree_file(about: Mapping[str, Any]) -> TreeFile:
    sha256, blob = about.get("lfs_sha256"), about.get("blob_id")
    size = _whole(about.get("lfs_size"))
    etag = sha256 if isinstance(sha256, str) else blob
    return TreeFile(_whole(about.get("size")) if size is None else size, etag if isinstance(etag, str) else None)


def _document(content: bytes) -> Dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise Unreadable("it is no JSON") from None
    if not isinstance(document, dict):
        raise Unreadable("it is no JSON object")
    return document


def _whole(value: Any) -> int | None:
    """A number of bytes; some indexes have it as 1.6e10."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

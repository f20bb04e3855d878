# SPDX-License-Identifier: BSD-2-Clause
"""Headers and indexes of weight files, read through a search (D12).

Private to llmgw. Only the few numbers that matter come back from the machine, so that a capture of it stays small.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import gguf, hub_files, model_config, safetensors
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach

_TOO_LONG = (gguf.TooLong, safetensors.TooLong)
_WHY, _KIND = "unreadable", "kind"


class Unjudged(Exception):  # noqa: N818 - nothing is known to be wrong with the file
    """The file could not be read, or not far enough, so that nothing can be said of it."""


def gguf_header(reach: Reach, path: str) -> gguf.GgufHeader:
    """The header of a GGUF file. Raises Unreadable, as CutOff for one that ends within its header, and Unjudged."""
    return gguf.GgufHeader(**_said(reach, path, "gguf", gguf.read_header))


def safetensors_header(reach: Reach, path: str) -> safetensors.SafetensorsHeader:
    """The header of a safetensors file. Raises Unreadable, and Unjudged."""
    return safetensors.SafetensorsHeader(**_said(reach, path, "safetensors", safetensors.read_header))


def safetensors_length(reach: Reach, path: str) -> int:
    """Bytes that the header of a safetensors file has, from its first eight bytes. Raises Unreadable, and Unjudged."""
    prefix = reach.read(path, safetensors.PREFIX_BYTES)
    if prefix is None:
        raise Unjudged(path)
    return safetensors.header_length(prefix)


def index(reach: Reach, path: str) -> hub_files.ShardIndex:
    """The index of a set of shards. Raises Unreadable, and Unjudged."""
    limit = hub_files.INDEX_LIMIT
    said = _said(reach, path, "shards", lambda stream: hub_files.read_index(safetensors.first_bytes(stream, limit)))
    return hub_files.ShardIndex(tuple(said["files"]), said["total_size"])


def architecture(reach: Reach, path: str) -> ModelArchitecture | None:
    """What a config.json says of the model; None when it cannot be read, or is not worth a call any more."""
    if not reach.has_plenty:
        return None
    limit = model_config.CONFIG_LIMIT
    try:
        said = _said(
            reach, path, "config", lambda stream: model_config.read_config(safetensors.first_bytes(stream, limit))
        )
    except (Unreadable, Unjudged):
        return None
    # What a stored machine said may have been written by another version.
    known = {one.name for one in fields(ModelArchitecture)}
    return ModelArchitecture(**{name: value for name, value in said.items() if name in known})


def tree(reach: Reach, path: str) -> Dict[str, hub_files.TreeFile] | None:
    """A repository's files; None when no list was stored, or one that cannot be read."""
    content = reach.read(path, hub_files.TREE_LIMIT)
    try:
        return None if content is None else hub_files.read_tree(content)
    except Unreadable:
        return None


def _said(reach: Reach, path: str, what: str, reader: Callable[[BinaryIO], Any]) -> Dict[str, Any]:
    content = reach.extract(path, what, lambda stream: _words(reader, stream))
    try:
        said = None if content is None else json.loads(content)
    except ValueError:
        said = None
    if not isinstance(said, dict) or said.get(_KIND) == "too long":
        raise Unjudged(path)
    if _WHY in said:
        raise (gguf.CutOff if said.get(_KIND) == "cut off" else Unreadable)(str(said[_WHY]))
    return said


def _words(reader: Callable[[BinaryIO], Any], stream: BinaryIO) -> bytes:
    try:
        said = asdict(reader(stream))
    except Unreadable as error:
        kind = "too long" if isinstance(error, _TOO_LONG) else "cut off" if isinstance(error, gguf.CutOff) else None
        said = {_WHY: str(error), _KIND: kind}
    return json.dumps(said).encode("ascii")

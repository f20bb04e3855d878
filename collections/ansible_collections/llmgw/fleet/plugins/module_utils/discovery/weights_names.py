# SPDX-License-Identifier: BSD-2-Clause
"""What the names in a model directory tell (D12): which files an engine loads, and which shards a set must have.

Private to llmgw and pure. Of several formats of the same weights side by side, an engine loads one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Collection, Iterable

SAFETENSORS, PYTORCH, GGUF = "safetensors", "pytorch", "gguf"
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5,6})-of-(?P<count>[0-9]{5,6})(?P<suffix>\.safetensors|\.bin)")
_PART = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf", re.IGNORECASE)
MOST_SHARDS = 10_000
"""A number of files above this is no number of files."""
CONFIG = "config.json"
PARAMS = "params.json"
"""The configuration of weights that are stored as Mistral does, where an engine opens no other files."""
_CONSOLIDATED = "consolidated"
_ADAPTER = "adapter_model.safetensors"
_PICKLED = re.compile(r"pytorch_model(?:-.+)?\.bin")
# Ends of names that a file has while it is fetched; aria2 keeps its notes beside a file that has its name already.
_IN_PLACE = ".aria2"
_UNFINISHED = (".incomplete", ".part", ".partial", ".crdownload", ".downloadInProgress", _IN_PLACE)
_RSYNC = re.compile(r"\.(.+\.(?:safetensors|gguf|bin))\.[A-Za-z0-9]{6}")
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt", "spiece.model")
_TOKENIZER = re.compile(r"tokenizer\.model\.v[0-9]+.*|.+\.tiktoken|tokenizer\.mm\.model.*|.*sentencepiece.*\.model")
# Besides the weights, what engines open in a repository. Readmes, pictures, other formats and scripts are left out: a
# fetch by an engine does not bring them.
_READ = re.compile(
    r"config\.json|generation_config\.json|adapter_config\.json|added_tokens\.json|special_tokens_map\.json"
    r"|(?:[a-z]+_)?preprocessor_config\.json|processor_config\.json|chat_template\.(?:json|jinja)"
    r"|tokenizer[^/]*|vocab\.(?:json|txt)|merges\.txt|spiece\.model|[^/]+\.tiktoken"
)
PIPELINE = "model_index.json"
"""Names the parts of a pipeline that makes pictures: what lies around it is no language model."""


@dataclass(frozen=True)
class Group:
    """One format of the weights: its name, its files, the name of its index, and the configuration it goes with."""

    format: str
    files: tuple[str, ...]
    index: str | None
    config: str
    needs_tokenizer: bool = True


def groups(names: Collection[str]) -> tuple[Group, ...]:
    """The formats among these names, the one that engines prefer first. An index without files is a format too."""
    tensors = sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    main = tuple(name for name in tensors if not name.startswith(_CONSOLIDATED) and name != _ADAPTER)
    consolidated = tuple(name for name in tensors if name.startswith(_CONSOLIDATED))
    pickled = tuple(sorted(name for name in names if _PICKLED.fullmatch(name)))
    indexes = sorted(name for name in names if name.endswith(".index.json") and "/" not in name)
    index = _first(indexes, "model.safetensors.index.json", ".safetensors.index.json")
    pickled_index = _first(indexes, "pytorch_model.bin.index.json", ".bin.index.json")
    found = (
        Group(SAFETENSORS, main, index, CONFIG),
        Group(
            SAFETENSORS, (_ADAPTER,) if _ADAPTER in names else (), None, "adapter_config.json", needs_tokenizer=False
        ),
        Group(SAFETENSORS, consolidated, _first(indexes, "consolidated.safetensors.index.json"), PARAMS),
        Group(PYTORCH, pickled, pickled_index, CONFIG),
    )
    return tuple(group for group in found if group.files or group.index)


def shards(files: Iterable[str]) -> tuple[str, ...]:
    """The files that belong together, with those that are missing by their numbers.

    `model-00002-of-00004.safetensors` alone stands for four files. A file that has no number beside such a set is
    another copy of it, in another precision.
    """
    files = tuple(files)
    sets: dict[tuple[str, int, str, str], int] = {}
    for name in files:
        shard = _SHARD.fullmatch(name)
        if shard is not None and 0 < int(shard["count"]) <= MOST_SHARDS:
            key = (shard["stem"], len(shard["number"]), shard["count"], shard["suffix"])
            sets[key] = sets.get(key, 0) + 1
    if sets:
        usual = min(sets, key=lambda key: (key[0] not in {"model", "pytorch_model"}, -sets[key], key))
        stem, digits, count, suffix = usual
        return tuple(f"{stem}-{number:0{digits}d}-of-{count}{suffix}" for number in range(1, int(count) + 1))
    single = [name for name in files if name in {"model.safetensors", "pytorch_model.bin"}]
    return tuple(single or files)


def is_numbered(files: Iterable[str]) -> bool:
    """Whether one of the files says that it is one of several."""
    return any(_SHARD.fullmatch(name) for name in files)


def parts(name: str, count: int | None = None) -> tuple[str, ...]:
    """All parts of the model that a GGUF file is one of, itself alone when its name has no number.

    `count`: how many there are, where the file knows better than its name.
    """
    part = _PART.fullmatch(name)
    if part is None or not 0 < int(part["count"]) <= MOST_SHARDS:
        return (name,)
    total = int(part["count"]) if count is None else count
    end = name[-len(".gguf") :]
    return tuple(f"{part['stem']}-{number:05d}-of-{total:05d}{end}" for number in range(1, total + 1))


def part_number(name: str) -> int | None:
    """Which part of a model a GGUF file is by its name, from 1; None when it is no part."""
    part = _PART.fullmatch(name)
    return None if part is None else int(part["number"])


def is_gguf(name: str) -> bool:
    """Whether a file calls itself GGUF."""
    return name.lower().endswith(".gguf")


def awaited(names: Collection[str]) -> tuple[str, ...]:
    """Names that files will have once they are fetched, of those that are not there yet."""
    found = set()
    for name in names:
        end = next((end for end in _UNFINISHED if name.endswith(end)), None)
        rsync = _RSYNC.fullmatch(name)
        if end is not None or rsync is not None:
            found.add(rsync.group(1) if rsync is not None else name[: -len(end or "")])
    return tuple(sorted(found.difference(names)))


def half_written(names: Collection[str]) -> frozenset[str]:
    """Files that have their name and perhaps their size, and are still being fetched."""
    return frozenset(name[: -len(_IN_PLACE)] for name in names if name.endswith(_IN_PLACE))


def is_weights(name: str) -> bool:
    """Whether a file is one of those that hold tensors."""
    return is_gguf(name) or name.endswith(".safetensors") or _PICKLED.fullmatch(name) is not None


def is_tokenizer(name: str) -> bool:
    """Whether a file is, alone, what text is turned into tokens with."""
    return name in _TOKENIZERS or _TOKENIZER.fullmatch(name) is not None


def is_read(name: str) -> bool:
    """Whether an engine opens this file of a repository besides the weights."""
    return _READ.fullmatch(name) is not None


def _first(names: Collection[str], usual: str, end: str | None = None) -> str | None:
    if usual in names or end is None:
        return usual if usual in names else None
    return next((name for name in names if name.endswith(end) and not name.startswith(_CONSOLIDATED)), None)

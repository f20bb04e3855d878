# SPDX-License-Identifier: BSD-2-Clause
"""The weights of one directory that an engine is given as a whole (D12): safetensors or PyTorch files.

Private to llmgw. What must be there is told, the best first, by the list of the repository's files, the index of the
shards, the numbers in their names. That a file is whole is told by its size in that list, by the index's total, or by
its own header.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Mapping, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_headers, weights_names
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import (
    Folder,
    Sighting,
    is_nowhere,
    missing,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.hub_files import ShardIndex, TreeFile
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.safetensors import PREFIX_BYTES

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_names import Group
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach

_NO_INDEX = ShardIndex(())
_TOKENIZER = "tokenizer.json"


@dataclass
class _Sizes:
    """Bytes of the weight files that are there, those that are missing, and those that could not be asked."""

    there: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class _Judged(NamedTuple):
    """Whether files are whole (None: cannot be told), which are not, and the bytes of all their tensors."""

    whole: bool | None
    broken: tuple[str, ...] = ()
    tensor_bytes: int | None = None


def loadable(tree: Mapping[str, TreeFile] | None) -> Mapping[str, TreeFile] | None:
    """The tree, unless the repository is one of GGUF files, of which nobody fetches all."""
    return None if any(weights_names.is_gguf(name) for name in tree or ()) else tree


def read_set(reach: Reach, folder: Folder) -> Sighting | None:
    """The weights in a directory as one entry, without what its place tells; None when it holds none."""
    listed = folder.names | frozenset(folder.tree or ())
    if weights_names.PIPELINE in listed:
        return None
    group = _chosen(weights_names.groups(listed), folder)
    if group is None:
        return _fetching(folder)
    index, index_broken = _index(reach, folder, group)
    shards = _expected(folder, group, index)
    sizes = _sizes(reach, folder, shards)
    judged = _judge(reach, folder, group, index, sizes)
    others = _others_missing(reach, folder, group)
    broken_index = [group.index] if group.index and index_broken else []
    lacking = missing([*sizes.missing, *judged.broken, *broken_index, *others])
    unknown = bool(sizes.unknown) or judged.whole is None
    weights = Weights(
        model="",
        path=folder.path,
        size_bytes=sum(sizes.there.values()) if sizes.there else None,
        complete=False if lacking.missing_count else None if unknown else True,
        missing=lacking.missing,
        missing_count=lacking.missing_count,
        files=len(sizes.there),
        tensor_bytes=None if lacking.missing_count else judged.tensor_bytes,
        format=group.format,
        architecture=_architecture(reach, folder, group),
    )
    return Sighting(weights, next((f"{folder.path}/{name}" for name in sizes.there if name in folder.links), None))


def _chosen(groups: tuple[Group, ...], folder: Folder) -> Group | None:
    """The format that an engine would load: the first that is there in part, else the first that should be there.

    Weights without a configuration or an index, and without the numbers of shards, are some other program's.
    """
    for group in groups:
        if any(name in folder.names for name in group.files):
            is_set = group.index is not None or weights_names.is_numbered(group.files)
            return group if folder.is_model or is_set or group.config in folder.names else None
    return groups[0] if groups else None


def _architecture(reach: Reach, folder: Folder, group: Group) -> ModelArchitecture | None:
    """The model that these are the weights of; an adapter is of another one's."""
    if group.config != weights_names.CONFIG or group.config not in folder.names:
        return None
    return weights_headers.architecture(reach, f"{folder.path}/{group.config}")


def _fetching(folder: Folder) -> Sighting | None:
    """A directory whose weights are still on their way, when no list tells their names."""
    if not folder.fetching:
        return None
    lacking = missing(folder.fetching)
    return Sighting(Weights("", folder.path, complete=False, files=0, **lacking._asdict()))


def _index(reach: Reach, folder: Folder, group: Group) -> tuple[ShardIndex, bool]:
    """The index of the shards, and whether it is there and broken."""
    if group.index is None or group.index not in folder.names:
        return _NO_INDEX, False
    try:
        return weights_headers.index(reach, f"{folder.path}/{group.index}"), False
    except Unreadable:
        return _NO_INDEX, True
    except weights_headers.Unjudged:
        return _NO_INDEX, False


def _expected(folder: Folder, group: Group, index: ShardIndex) -> tuple[str, ...]:
    if index.files:
        return index.files
    if folder.tree is not None:
        known = tuple(name for name in group.files if name in folder.tree)
        return weights_names.shards(known or group.files)
    return weights_names.shards(group.files)


def _sizes(reach: Reach, folder: Folder, shards: tuple[str, ...]) -> _Sizes:
    found = _Sizes()
    unfinished = weights_names.half_written(folder.names)
    # A name that leads out of the directory is no file of this model.
    inside = [name for name in shards if not name.startswith("/") and ".." not in name.split("/")]
    measured = reach.measure(folder.path, [name for name in inside if "/" in name or name in folder.names])
    for name in shards:
        size = measured.get(name)
        if size is None or name in unfinished:
            found.missing.append(name)
        elif size.bytes:
            found.there[name] = size.bytes
        elif size.bytes == 0 or is_nowhere(size):
            found.missing.append(name)
        else:
            found.unknown.append(name)
    return found


def _judge(reach: Reach, folder: Folder, group: Group, index: ShardIndex, sizes: _Sizes) -> _Judged:
    """Whether the files that are there are whole."""
    known = {name: folder.known_size(name) for name in sizes.there}
    other_size = tuple(name for name, size in sizes.there.items() if known[name] not in {None, size})
    proven = bool(known) and None not in known.values()
    if other_size:
        return _Judged(whole=False, broken=other_size)
    if group.format != weights_names.SAFETENSORS or (proven and not reach.has_plenty):
        return _Judged(whole=True if proven else None)
    by_length = _by_lengths(reach, folder, sizes)
    if by_length.broken:
        return by_length
    if proven or (by_length.whole and by_length.tensor_bytes == index.total_size):
        return by_length._replace(whole=True)
    return _by_headers(reach, folder, sizes)


def _by_lengths(reach: Reach, folder: Folder, sizes: _Sizes) -> _Judged:
    """The bytes of all tensors if no file is cut off: what is left of each file behind its header."""

    def tensor_bytes(name: str, size: int) -> int | None:
        rest = size - PREFIX_BYTES - weights_headers.safetensors_length(reach, f"{folder.path}/{name}")
        return rest if rest >= 0 else None

    return _each(sizes, tensor_bytes)


def _by_headers(reach: Reach, folder: Folder, sizes: _Sizes) -> _Judged:
    """The bytes of all tensors as the headers have them, which have to be the bytes of the files."""

    def tensor_bytes(name: str, size: int) -> int | None:
        header = weights_headers.safetensors_header(reach, f"{folder.path}/{name}")
        return header.tensor_bytes if header.file_bytes == size else None

    return _each(sizes, tensor_bytes)


def _each(sizes: _Sizes, tensor_bytes: Callable[[str, int], int | None]) -> _Judged:
    """All files that are there; `tensor_bytes` gives None for one that is not whole, or raises as the headers do."""
    total = 0
    broken = []
    unknown = False
    for name, size in sizes.there.items():
        try:
            found = tensor_bytes(name, size)
        except Unreadable:
            found = None
        except weights_headers.Unjudged:
            unknown = True
            continue
        if found is None:
            broken.append(name)
        else:
            total += found
    if broken:
        return _Judged(whole=False, broken=tuple(broken))
    return _Judged(whole=None) if unknown else _Judged(whole=True, tensor_bytes=total)


def _others_missing(reach: Reach, folder: Folder, group: Group) -> list[str]:
    """What an engine needs besides the weights, and is not there."""
    if folder.tree is not None and group.config != weights_names.PARAMS:
        needed = [name for name in folder.tree if weights_names.is_read(name) or name == group.index]
    else:
        tokenizers = [name for name in sorted(folder.names) if weights_names.is_tokenizer(name)]
        needed = [group.config, *(tokenizers or ([_TOKENIZER] if group.needs_tokenizer else []))]
        needed += [group.index] if group.index in folder.names else []
    # A link may lead to nothing; a file is there.
    measured = reach.measure(folder.path, [name for name in needed if name in folder.links])
    dangling = {name for name, size in measured.items() if size.error == "ENOENT"}
    return [name for name in needed if name not in folder.names or name in dangling]

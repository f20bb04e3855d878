# SPDX-License-Identifier: BSD-2-Clause
"""GGUF models of one directory (D12): single files, and files in parts, which are one model.

Private to llmgw. A model is whole when all its parts are there and each is as long as its header says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Collection, Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_headers, weights_names
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_folder import (
    ABSENT,
    Folder,
    Sighting,
    is_nowhere,
    missing,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.gguf import CutOff
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_gguf import read_metadata

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Reach
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Size

LAYOUT = "gguf"


class _Verdict(NamedTuple):
    """How one file is: whole, not whole, or None when that cannot be told. `strange`: it is no GGUF at all."""

    whole: bool | None
    tensor_bytes: int | None = None
    parts: int | None = None
    strange: bool = False
    architecture: ModelArchitecture | None = None


def models(reach: Reach, folder: Folder) -> tuple[Sighting, ...]:
    """The models in a directory, by name. What calls itself GGUF and is not is left out."""
    half_written = weights_names.half_written(folder.names)
    own = {name for name in (*folder.names, *weights_names.awaited(folder.names)) if weights_names.is_gguf(name)}
    # A part leads to its model by the first part's name.
    firsts = sorted({weights_names.parts(name)[0] for name in own})
    found = []
    for first in firsts:
        seen = _model(reach, folder, first, half_written)
        if seen is not None:
            found.append(seen)
    return tuple(found)


def _model(reach: Reach, folder: Folder, first: str, half_written: Collection[str]) -> Sighting | None:
    expected = weights_names.parts(first)
    sizes = reach.measure(folder.path, [name for name in expected if name in folder.names])
    verdicts = {name: _verdict(reach, folder, name, sizes.get(name, ABSENT), name in half_written) for name in expected}
    if len(expected) == 1 and verdicts[first].strange:
        return None
    counts = {verdict.parts for verdict in verdicts.values() if verdict.parts is not None}
    if len(counts) == 1 and counts != {len(expected)}:
        verdicts = {**verdicts, **_more(expected, counts.pop(), verdicts)}
    lacking = missing([name for name, verdict in verdicts.items() if verdict.whole is False])
    there = {name: size.bytes for name, size in sizes.items() if size.bytes}
    tensors = [verdict.tensor_bytes for verdict in verdicts.values()]
    unknown = any(verdict.whole is None for verdict in verdicts.values())
    weights = Weights(
        model=first,
        path=f"{folder.path}/{first}",
        layout=LAYOUT,
        size_bytes=sum(there.values()) if there else None,
        complete=False if lacking.missing_count else None if unknown else True,
        missing=lacking.missing,
        missing_count=lacking.missing_count,
        files=len(there),
        tensor_bytes=None if lacking.missing_count or None in tensors else sum(one or 0 for one in tensors),
        format=weights_names.GGUF,
        architecture=verdicts[first].architecture,
    )
    return Sighting(weights, next((f"{folder.path}/{name}" for name in there if name in folder.links), None))


def _more(expected: Sequence[str], count: int, verdicts: Mapping[str, _Verdict]) -> dict[str, _Verdict]:
    """Parts that the files speak of and their names do not: they were renamed, or are of another set."""
    first = expected[0]
    count = min(count, weights_names.MOST_SHARDS)
    named = weights_names.parts(first, count)
    if len(named) == 1:
        named = tuple(f"{first}, part {number} of {count}" for number in range(2, count + 1))
    return {name: _Verdict(whole=False) for name in named if name not in verdicts}


def _verdict(reach: Reach, folder: Folder, name: str, size: Size, is_half: bool) -> _Verdict:
    if size.bytes is None:
        return _Verdict(whole=False if is_nowhere(size) else None)
    if size.bytes == 0 and not is_half:
        return _Verdict(whole=False, strange=True)
    known = folder.known_size(name)
    if is_half or (known is not None and known != size.bytes):
        return _Verdict(whole=False)
    if known is None:
        return _by_header(reach, folder, name, size.bytes)
    # Its size proves it; the header tells what it is.
    seen = _by_header(reach, folder, name, size.bytes) if reach.has_plenty else _Verdict(whole=None)
    return seen if seen.whole else _Verdict(whole=True)


def _by_header(reach: Reach, folder: Folder, name: str, size: int) -> _Verdict:
    number = weights_names.part_number(name)
    try:
        header = weights_headers.gguf_header(reach, f"{folder.path}/{name}")
    except CutOff:
        return _Verdict(whole=False)
    except Unreadable:
        return _Verdict(whole=False, strange=True)
    except weights_headers.Unjudged:
        return _Verdict(whole=None)
    misplaced = number is not None and header.split_no is not None and header.split_no != number - 1
    if size < header.least_bytes or misplaced:
        return _Verdict(whole=False, parts=header.split_count)
    exact = header.tensor_bytes is not None
    return _Verdict(
        True if exact else None, header.tensor_bytes, header.split_count, architecture=read_metadata(header)
    )

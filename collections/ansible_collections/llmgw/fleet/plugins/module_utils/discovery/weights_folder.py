# SPDX-License-Identifier: BSD-2-Clause
"""A directory that may hold weights, and weights that were seen in one (D12). Private to llmgw and pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Size
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.hub_files import TreeFile

_MOST_NAMED = 20
_NOWHERE = frozenset({"ENOENT", "ENOTDIR", "ELOOP"})
ABSENT = Size(None, "ENOENT")


@dataclass(frozen=True)
class Folder:
    """A directory: its names, which of them are links, and the repository's files as the hub has them, if known.

    `fetching` are files on their way. `is_model`: it holds a model, and nothing else that calls itself safetensors.
    """

    path: str
    names: frozenset[str]
    links: frozenset[str] = frozenset()
    tree: Mapping[str, TreeFile] | None = None
    fetching: tuple[str, ...] = ()
    is_model: bool = False

    def known_size(self, name: str) -> int | None:
        """Bytes that the hub says the file has."""
        about = (self.tree or {}).get(name)
        return None if about is None else about.size


class Sighting(NamedTuple):
    """Weights, and one of their files that is a link: it may lead to another filesystem than the directory is on."""

    weights: Weights
    link: str | None = None


class Missing(NamedTuple):
    """The first names, and how many there are."""

    missing: tuple[str, ...]
    missing_count: int


def missing(names: Sequence[str]) -> Missing:
    """What the facts say of missing files."""
    return Missing(tuple(names[:_MOST_NAMED]), len(names))


def is_nowhere(size: Size) -> bool:
    """Whether a file is surely not there, as opposed to not being allowed to ask."""
    return size.bytes is None and (size.error is None or size.error in _NOWHERE)

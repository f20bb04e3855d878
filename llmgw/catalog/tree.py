# SPDX-License-Identifier: Apache-2.0
"""Plain data together with the place in a file that each part of it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from llmgw.errors import Where

Path: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the top of the document: `("services", "chat", "profiles", 0)`."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value begins and, in a mapping, where its key does."""

    value: Where
    key: Where | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """Mappings, lists and scalars, and a spot for every path in them. Nobody changes a tree once it is built."""

    data: Any
    spots: Mapping[Path, Spot] = field(default_factory=dict)

    def where(self, path: Path, *, key: bool = False) -> Where | None:
        """The place of a path; what has none (a default, say) is at the nearest part around it that has."""
        for length in range(len(path), -1, -1):
            spot = self.spots.get(path[:length])
            if spot is not None:
                # What encloses the path is best named by its key: its value begins on the next line.
                return spot.key if spot.key and (key or length < len(path)) else spot.value
        return None


def walk(data: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every scalar and empty container of a document with its path, in the document's order."""
    if isinstance(data, dict) and data:
        for name, value in data.items():
            yield from walk(value, (*path, name))
    elif isinstance(data, list) and data:
        for number, value in enumerate(data):
            yield from walk(value, (*path, number))
    else:
        yield path, data

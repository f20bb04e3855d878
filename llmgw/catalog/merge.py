# SPDX-License-Identifier: Apache-2.0
"""Several files as one tree (C7): parts are united, overlays laid over them.

United files share the sections and the names in them; whatever is said twice is an error that names both places, so the
order of files means nothing. An overlay may say anything again: mappings merge, everything else is replaced, and null
takes away what the files below it say (RFC 7386), except for whole sections: one with nothing in it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from llmgw.catalog import codes
from llmgw.catalog.problem import nearest
from llmgw.catalog.tree import Path, Spot, Tree
from llmgw.errors import LlmgwError

NOTES = "x-"
"""What begins like this at the top is the author's own: a place for anchors."""

_SHARED: frozenset[Path] = frozenset(
    {(), ("models",), ("profiles",), ("services",), ("gateway",), ("gateway", "keys"), ("fleet",)}
)
"""Mappings that several files may add to. What is in them belongs to one file."""


def unite(trees: Iterable[Tree]) -> tuple[Tree, list[LlmgwError]]:
    """One tree of all parts; what two of them define is taken from the first, with an error for the second."""
    errors: list[LlmgwError] = []
    data: dict[str, Any] = {}
    spots: dict[Path, Spot] = {}
    for tree in trees:
        refused: set[Path] = set()
        _add(data, tree.data or {}, (), refused)
        errors += [_twice(path, spots[path], tree) for path in sorted(refused)]
        spots = _joined(spots, tree.spots, refused)
    return Tree(data, spots), errors


def overlay(base: Tree, above: Tree) -> tuple[Tree, list[LlmgwError]]:
    """The base with an overlay over it, and errors for what the overlay takes away in vain."""
    replaced: set[Path] = set()
    removed: dict[Path, dict[str, Any]] = {}
    data = _laid_over(base.data, above.data or {}, (), replaced, removed)
    kept = _joined({}, base.spots, replaced | removed.keys())
    errors = [_in_vain(path, there, above) for path, there in removed.items() if path[-1] not in there]
    return Tree(data, _joined(kept, above.spots, removed.keys())), errors


def _add(mine: dict[str, Any], theirs: dict[str, Any], path: Path, refused: set[Path]) -> None:
    for name, value in theirs.items():
        inner = (*path, name)
        if not path and name.startswith(NOTES):
            continue
        if inner in _SHARED and isinstance(value, dict) and isinstance(mine.get(name) or {}, dict):
            mine[name] = mine.get(name) or {}
            _add(mine[name], value, inner, refused)
        elif name not in mine:
            mine[name] = value
        elif (value is None and inner in _SHARED) or (inner == ("version",) and value == mine[name]):
            continue
        else:
            refused.add(inner)


def _twice(path: Path, first: Spot, tree: Tree) -> LlmgwError:
    label, where = ".".join(map(str, path)), tree.where(path, key=True)
    if path in _SHARED:
        why = f"`{label}` is a mapping in one file and something else in another (see {first.key})"
        return LlmgwError(codes.DUPLICATE_NAME, why, where=where, fix="Write `name:` lines below it in every file.")
    if path == ("version",):
        why = f"this version of the format is not that of the other files (see {first.key})"
        return LlmgwError(codes.DUPLICATE_NAME, why, where=where, fix="Write the same version in every file.")
    why = f"`{label}` is defined twice (first at {first.key})"
    fix = "Remove one of the two or rename it; to change it for one environment, put it in an overlay."
    return LlmgwError(codes.DUPLICATE_NAME, why, where=where, fix=fix)


def _laid_over(base: Any, above: Any, path: Path, replaced: set[Path], removed: dict[Path, dict[str, Any]]) -> Any:
    if not isinstance(above, dict) or not isinstance(base, dict):
        replaced.add(path)
        return above
    result = dict(base)
    for name, value in above.items():
        inner = (*path, name)
        if not path and name.startswith(NOTES):
            continue
        if value is not None:
            result[name] = _laid_over(base.get(name), value, inner, replaced, removed)
        elif path:
            removed[inner] = base
            result.pop(name, None)
    return result


def _joined(first: Mapping[Path, Spot], second: Mapping[Path, Spot], left_out: Collection[Path]) -> dict[Path, Spot]:
    """All spots of the first, and of the second those at new paths, without what is left out of it."""
    spots = dict(first)
    for path, spot in second.items():
        if not any(path[:length] in left_out for length in range(1, len(path) + 1)):
            spots.setdefault(path, spot)
    return spots


def _in_vain(path: Path, present: dict[str, Any], above: Tree) -> LlmgwError:
    label = ".".join(map(str, path))
    meant = nearest(str(path[-1]), present)
    fix = f"Did you mean `{meant}`?" if meant else "Remove the line."
    why = f"null takes `{label}` away, but the files below this overlay do not have it"
    return LlmgwError(codes.OVERLAY, why, where=above.where(path, key=True), fix=fix)

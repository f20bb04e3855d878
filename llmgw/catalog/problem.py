# SPDX-License-Identifier: Apache-2.0
"""One mistake in a catalog by its path, and the error with file, line and column that the user sees."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from llmgw.catalog.tree import Path, Tree
from llmgw.errors import LlmgwError, Where


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake at a path. `reads`: paths it was concluded from; `other`: a second place that has to do with it."""

    path: Path
    code: str
    why: str
    fix: str
    at_key: bool = False
    reads: tuple[Path, ...] = ()
    other: Path | None = None


def unfounded(problem: Problem, broken: Collection[Path]) -> bool:
    """Whether a problem was concluded from something that is itself broken, and so may vanish when that is mended."""
    return any(read[: len(part)] == part for read in (problem.path, *problem.reads) for part in broken)


def located(problem: Problem, tree: Tree, *, otherwise: str) -> LlmgwError:
    """The problem as an error with its place; `otherwise`: the file to name when the tree has no place for it."""
    other = tree.where(problem.other, key=True) if problem.other is not None else None
    why = f"{problem.why} (see {other})" if other else problem.why
    where = tree.where(problem.path, key=problem.at_key) or Where(otherwise)
    return LlmgwError(problem.code, why, where=where, fix=problem.fix)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most likely meant, or None."""
    plain = {_bare(name): name for name in sorted(known, reverse=True)}
    found = difflib.get_close_matches(_bare(word), list(plain), n=1, cutoff=0.7)
    return plain[found[0]] if found else None


def listed(words: Iterable[str], limit: int = 12) -> str:
    """`a, b, c`, cut off after `limit` words."""
    every = list(words)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def _bare(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "").replace(".", "")

# SPDX-License-Identifier: Apache-2.0
"""References from one part of the catalog to a name in another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from llmgw.catalog import codes
from llmgw.catalog.problem import Problem, listed, nearest
from llmgw.catalog.tree import Path


def dangling(path: Path, section: str, name: str, known: Collection[str]) -> Iterator[Problem]:
    """A problem when `name` is not in a section."""
    if name in known:
        return
    meant = nearest(name, known)
    if meant:
        fix = f"Did you mean `{meant}`?"
    else:
        fix = f"Add `{name}:` below `{section}:`" + (f", or use one of: {listed(sorted(known))}." if known else ".")
    # The name may be there but wrong, and then that is the problem to report.
    yield Problem(path, codes.REFERENCE, f"there is no `{name}` in `{section}`", fix, reads=((section, name),))


def repeated(path: Path, items: Sequence[str], what: str) -> Iterator[Problem]:
    """A problem for each item that a list names again."""
    for number, item in enumerate(items):
        first = items.index(item)
        if first < number:
            why = f"{what} `{item}` is listed twice"
            reads = ((*path, first),)
            yield Problem(
                (*path, number), codes.REPEATED, why, "Remove one of the two.", reads=reads, other=(*path, first)
            )

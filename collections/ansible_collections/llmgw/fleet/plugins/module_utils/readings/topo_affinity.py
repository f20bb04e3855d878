# SPDX-License-Identifier: BSD-2-Clause
"""Reads the last cells of a row of `nvidia-smi topo -m`: CPU Affinity, NUMA Affinity, GPU NUMA ID.

Private to llmgw and pure. Any of them may be empty, and then only the tabs, or the places that tabs left behind, tell
which. The tool prints `CPU<tab>NUMA<tab><tab>GPU NUMA`: one empty cell stands under no heading.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.topo_matrix import Matrix, Row

_TAB = 8
_LEAST_GAP = 2
_ALIGNED_WITHIN = 1
# The place of the cell without heading, in a row of a matrix with all three columns.
_ALL = 3
_UNHEADED = 2
_LIST = re.compile(r"[0-9][,-][0-9]")
_TOKEN = re.compile(r"\S+")


class _Token(NamedTuple):
    text: str
    start: int
    end: int


def cells(matrix: Matrix, row: Row) -> dict[str, str]:
    """Cell by column (`cpu`, `numa`, `gpunuma`) of those that the matrix has; empty ones are ''."""
    names = [name for name, _start in matrix.affinity]
    return dict(zip(names, _cells(matrix, row, len(names))))


def _cells(matrix: Matrix, row: Row, width: int) -> list[str]:
    rest = row.text[row.end :]
    if "\t" in rest:
        return _under_headings(_tabbed(rest), width)
    tokens = [_Token(found.group(0), found.start(), found.end()) for found in _TOKEN.finditer(row.text, row.end)]
    words = [token.text for token in tokens]
    if not words or len(words) >= width:
        return _under_headings(words, width)
    left_behind = (_between_tab_stops(row, tokens), _between_equal_gaps(row, tokens))
    for found in left_behind:
        if found is not None and _is_the_tools(found, width):
            return _under_headings(found, width)
    placed = _below(matrix, row, tokens)
    if placed is not None:
        return placed
    # With no hint left: a list is one of CPUs, and a number is a node, with the CPUs emptied by a job's cpuset.
    empty = [""] * (width - len(words))
    return words + empty if _LIST.search(words[0]) else empty + words


def _tabbed(rest: str) -> list[str]:
    first, *others = rest.split("\t")
    found = first.split()
    for cell in others:
        found.extend(cell.split() or [""])
    return found


def _is_the_tools(found: list[str], width: int) -> bool:
    """Whether the tool prints such a row: not too many cells, and none but an empty one without heading."""
    if width == _ALL:
        return len(found) <= width + 1 and not any(found[_UNHEADED : _UNHEADED + 1])
    return len(found) <= width


def _under_headings(found: list[str], width: int) -> list[str]:
    """One cell for each heading; empty cells that stand under none are left out."""
    filled = [cell for cell in found if cell]
    if len(filled) >= width:
        return filled[:width]
    kept = list(found)
    if width == _ALL and len(kept) > width and not kept[_UNHEADED]:
        del kept[_UNHEADED]
    while len(kept) > width and not kept[-1]:
        del kept[-1]
    while len(kept) > width:
        del kept[len(kept) - 1 - kept[::-1].index("")]
    return kept + [""] * (width - len(kept))


def _between_tab_stops(row: Row, tokens: list[_Token]) -> list[str] | None:
    """The cells as they were when blanks up to every eighth column were tabs; None when nothing stands there."""
    # The tool prints the diagonal as ` X `, with a blank before it.
    stops = [start - (cell == "X") * (start % _TAB == 1) for cell, start in zip(row.cells, row.starts)]
    stops += [token.start for token in tokens]
    if any(stop % _TAB for stop in stops):
        return None
    ends = [row.end, *(token.end for token in tokens)]
    return _with_empty(tokens, [token.start // _TAB - end // _TAB for end, token in zip(ends, tokens)])


def _between_equal_gaps(row: Row, tokens: list[_Token]) -> list[str] | None:
    """The cells as they were when every so many blanks were one tab; None when the gaps of the row differ."""
    end = len(f"GPU{row.number}")
    gaps = set()
    for cell, start in zip(row.cells, row.starts):
        around = 1 if cell == "X" else 0
        gaps.add(start - around - end)
        end = start + len(cell) + around
    gap = gaps.pop() if len(gaps) == 1 else 0
    if gap < _LEAST_GAP:
        return None
    widths = [token.start - last for last, token in zip([end, *(token.end for token in tokens)], tokens)]
    if any(width < gap or width % gap for width in widths):
        return None
    return _with_empty(tokens, [width // gap for width in widths])


def _with_empty(tokens: list[_Token], tabs: Sequence[int]) -> list[str]:
    found: list[str] = []
    for token, count in zip(tokens, tabs):
        found += [""] * (count - 1) + [token.text]
    return found


def _below(matrix: Matrix, row: Row, tokens: list[_Token]) -> list[str] | None:
    """The cells by the heading that each stands below; None when the rest of the row is not aligned with the header."""
    places = zip(row.cells, row.starts, matrix.column_starts)
    if any(abs(start - (cell == "X") + row.indent - heading) > _ALIGNED_WITHIN for cell, start, heading in places):
        return None
    found = [""] * len(matrix.affinity)
    for token in tokens:
        distance = [abs(token.start + row.indent - heading) for _name, heading in matrix.affinity]
        nearest = distance.index(min(distance))
        if found[nearest]:
            return None
        found[nearest] = token.text
    return found

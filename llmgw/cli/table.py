# SPDX-License-Identifier: Apache-2.0
"""Rows of cells as aligned lines that fit a terminal: long cells are broken over several lines, never cut."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_GAP = 2
_ITEMS, _WORDS = ", ", " "


def lines_of(rows: Sequence[Sequence[str]], width: int | None = None, breakable: Sequence[int] = ()) -> list[str]:
    """The rows, the first of them the heading, in columns. `width` None: as wide as they are.

    Where they are wider than `width`, the columns in `breakable` get narrower, the widest first: down to what stands
    between two commas, and if that is not enough down to their longest word.
    """
    columns = [[row[column] for row in rows] for column in range(len(rows[0]))]
    widths = [max(map(len, column)) for column in columns]
    for separator in (_ITEMS, _WORDS) if width is not None else ():
        floor = [_longest(column, separator) if at in breakable else widths[at] for at, column in enumerate(columns)]
        _narrow(widths, floor, width or 0)
    return [line for row in rows for line in _row(row, widths)]


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines no longer than `width` where its words allow that; those after the first are indented."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _longest(cells: Sequence[str], separator: str) -> int:
    return max(len(part) for cell in cells for part in cell.replace(_ITEMS, f",{separator}").split(separator))


def _narrow(widths: list[int], floor: Sequence[int], width: int) -> None:
    over = sum(widths) + _GAP * (len(widths) - 1) - width
    for _ in range(over):
        at = max(range(len(widths)), key=lambda column: (widths[column] > floor[column], widths[column]))
        if widths[at] <= floor[at]:
            return
        widths[at] -= 1


def _row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    cells = [_broken(cell, size) for cell, size in zip(row, widths, strict=True)]
    return [
        (" " * _GAP)
        .join((cell[line] if line < len(cell) else "").ljust(size) for cell, size in zip(cells, widths, strict=True))
        .rstrip()
        for line in range(max(map(len, cells)))
    ]


def _broken(cell: str, width: int) -> list[str]:
    """The lines of a cell: as many items on each as fit, an item that is too long by its words."""
    if len(cell) <= width:
        return [cell]
    lines: list[str] = []
    items = cell.split(_ITEMS)
    for number, item in enumerate(items):
        text = item if number == len(items) - 1 else f"{item},"
        if lines and len(lines[-1]) + 1 + len(text) <= width:
            lines[-1] += f" {text}"
        else:
            lines += [text] if len(text) <= width else wrapped(text, max(width, 1))
    return lines

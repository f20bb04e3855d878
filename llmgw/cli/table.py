# SPDX-License-Identifier: Apache-2.0
"""Rows of cells as aligned lines that fit a terminal: long cells are broken over several lines, never cut."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_GAP, _NARROW_GAP = 2, 1
_ITEMS, _WORDS = ", ", " "
_HELD = "\N{NO-BREAK SPACE}"


def lines_of(rows: Sequence[Sequence[str]], width: int | None = None, breakable: Sequence[int] = ()) -> list[str]:
    """The rows, the first of them the heading, in columns. `width` None: as wide as they are.

    Where they are wider than `width`, the columns in `breakable` get narrower, the widest first: down to what stands
    between two commas, and if that is not enough down to their longest word. Then the columns move together, and at
    last what is `whole` is broken too.
    """
    loose = [[cell.replace(_HELD, " ") for cell in row] for row in rows]
    if width is None:
        return _laid_out(loose, _natural(loose), _GAP)
    for gap in (_GAP, _NARROW_GAP):
        widths = _narrowed(rows, width, gap, breakable)
        if _span(widths, gap) <= width:
            return [line.replace(_HELD, " ") for line in _laid_out(rows, widths, gap)]
    return _laid_out(loose, _narrowed(loose, width, _NARROW_GAP, breakable), _NARROW_GAP)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The text in lines no longer than `width` where its words allow that; those after the first are indented."""
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_HELD, " ") for line in lines]


def whole(text: str) -> str:
    """The text as one word, which is not broken over two lines while there is another place to break."""
    return text.replace(" ", _HELD)


def _longest(cells: Sequence[str], separator: str) -> int:
    return max(len(part) for cell in cells for part in cell.replace(_ITEMS, f",{separator}").split(separator))


def _natural(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]


def _narrowed(rows: Sequence[Sequence[str]], width: int, gap: int, breakable: Sequence[int]) -> list[int]:
    """Widths of the columns that fit together, or come as near to it as they can."""
    wide = _natural(rows)
    widths = list(wide)
    for separator in (_ITEMS, _WORDS):
        columns = ([row[at] for row in rows] for at in range(len(wide)))
        floor = [_longest(one, separator) if at in breakable else wide[at] for at, one in enumerate(columns)]
        for _ in range(_span(widths, gap) - width):
            at = max(range(len(widths)), key=lambda column: (widths[column] > floor[column], widths[column]))
            if widths[at] <= floor[at]:
                break
            widths[at] -= 1
    return widths


def _span(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _laid_out(rows: Sequence[Sequence[str]], widths: Sequence[int], gap: int) -> list[str]:
    return [line for row in rows for line in _row(row, widths, gap)]


def _row(row: Sequence[str], widths: Sequence[int], gap: int) -> list[str]:
    cells = [_broken(cell, size) for cell, size in zip(row, widths, strict=True)]
    return [
        (" " * gap)
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

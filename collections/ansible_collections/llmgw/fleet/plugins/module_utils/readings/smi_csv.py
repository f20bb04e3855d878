# SPDX-License-Identifier: BSD-2-Clause
"""Reads tables of `nvidia-smi --query-... --format=csv`, with a header or without. Private to llmgw and pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.topo_sign import is_matrix

_FIELD = re.compile(r"(?P<name>[a-z][A-Za-z0-9_.]*)(?: \[[^\]]*\])?")
# The one cell whose text users choose, commas and all.
_FREE = "process_name"
# The blank behind the last comma of a line is lost where blanks at line ends are.
_PARTED = re.compile(r",(?: |$)")
# Beginnings of what else nvidia-smi prints: XML, the list of -L, the long text form, and the table.
_OTHER = re.compile(r"\s*(?:<[?!a-z]|GPU [0-9]+: .*\(UUID: |=+NVSMI LOG=+|\+-{8})")


@dataclass(frozen=True)
class Table:
    """The rows below a header are objects by field name; without a header they are lists. Cells are as printed."""

    n_columns: int
    rows: tuple[dict[str, str | None] | tuple[str, ...], ...]


def read(text: str) -> Table:
    """The table. Raises Unreadable when there is no line at all, or when nvidia-smi printed it in another form."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or _OTHER.match(text.lstrip("\ufeff")) or is_matrix(text):
        raise Unreadable("there is no line of comma-separated values")
    return table(lines)


def table(lines: Sequence[str]) -> Table:
    """The table of these lines, none of them blank. The first is a header when all its cells look like query fields."""
    first = _cells(lines[0])
    fields = [_FIELD.fullmatch(cell) for cell in first]
    names = [field.group("name") for field in fields if field is not None]
    if len(names) < len(first):
        return Table(len(first), tuple(_cells(line) for line in lines))
    return Table(len(names), tuple(_row(names, line) for line in lines[1:]))


def _row(names: list[str], line: str) -> dict[str, str | None]:
    """Cells by name: None for those that the line lacks; what it has too many belongs to the name of the process."""
    cells = _cells(line)
    more = len(cells) - len(names)
    if more > 0:
        place = names.index(_FREE) if _FREE in names else len(names) - 1
        cells = (*cells[:place], ", ".join(cells[place : place + more + 1]), *cells[place + more + 1 :])
    return {name: cells[place] if place < len(cells) else None for place, name in enumerate(names)}


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in _PARTED.split(line))

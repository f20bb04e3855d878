# SPDX-License-Identifier: BSD-2-Clause
"""Reads the card table that a bare `nvidia-smi` prints, of drivers from 2012 on. Private to llmgw and pure.

A card has two lines of three cells (three lines since MIG): index and name, bus id; fan and temperature, memory. The
tables of MIG devices and of processes below it have other heads, and their rows are no cards. What people paste of a
table may lack its head, hold blank lines, or be cut by a message in the middle: there a bus id shows what a card is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"\bBus.Id\b")
_OTHER = re.compile(r"\b(?:MIG devices|Processes|Compute processes):|\bGPU\s+(?:GI|PID)\b", re.IGNORECASE)
_DRIVER = re.compile(r"\b(?:Driver|KMD) Version:\s*([^\s|]+)")
_INDEX = re.compile(r"\s*([0-9]{1,4})\\?\.?\s+(?=\S)")
# Behind the name stands the persistence mode, on Windows the driver model; the oldest tables have neither.
_MODES = frozenset({"On", "Off", "N/A", "ERR!", "WDDM", "WDM", "TCC", "MCDM"})
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
# The table of virtual GPUs has a long number in the place of the fan.
_FAN = re.compile(r"\s*([0-9]{1,3}%|ERR!)")
_TEMPERATURE = re.compile(r"(?<!\S)(-?[0-9]{1,4}) ?C\b")
_MEMORY = re.compile(r"([0-9]{1,12})\s*Mi?B\s*/\s*([0-9]{1,12})\s*Mi?B")
_UNIFIED = "Not Supported"
_CELLS = 3


@dataclass(frozen=True)
class TableGpu:
    """One card. Names too long for the column end in `...`; `unified`: the driver has no memory of its own to tell."""

    index: int
    name: str
    bdf: str | None
    fan: str | None
    temp_c: int | None
    memory_used_mib: int | None
    memory_total_mib: int | None
    unified: bool


def driver(text: str) -> str | None:
    """The driver's version in the head of the table; from 610 on it is called KMD version."""
    found = _DRIVER.search(text)
    return found.group(1) if found and found.group(1) != "N/A" else None


def is_line(line: str) -> bool:
    """Whether the line is part of a table: a row or a rule."""
    return line.lstrip().startswith(("|", "+-", "+="))


def gpus(text: str) -> tuple[TableGpu, ...]:
    """The cards of every card table in the text, and those of a table whose head is cut off."""
    found: list[TableGpu] = []
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    headed, foreign = False, False
    for line, following in zip(lines, [*lines[1:], ""]):
        if _HEAD.search(line):
            headed, foreign = True, False
        elif not is_line(line):
            headed = False
        elif _OTHER.search(line):
            foreign = True
        elif not foreign:
            found.extend(_card(_cells(line), _cells(following), headed=headed))
    return tuple(found)


def _card(first: list[str], second: list[str], *, headed: bool) -> list[TableGpu]:
    """The card whose first line this is; nothing for any other line. Without a head above it, it must have a bus id."""
    index = _INDEX.match(first[0]) if len(first) == _CELLS else None
    bus_id = _BUS_ID.search(first[1]) if index else None
    if index is None or (bus_id is None and not headed):
        return []
    name = first[0][index.end() :].rstrip()
    before, _blank, last = name.rpartition(" ")
    second = second if len(second) == _CELLS else ["", "", ""]
    fan = _FAN.match(second[0])
    temperature = _TEMPERATURE.search(second[0])
    memory = _MEMORY.search(second[1])
    return [
        TableGpu(
            index=int(index.group(1)),
            name=before.rstrip() if before.strip() and last in _MODES else name,
            bdf=bus_id.group(0) if bus_id else None,
            fan=fan.group(1) if fan else None,
            temp_c=int(temperature.group(1)) if temperature else None,
            memory_used_mib=int(memory.group(1)) if memory else None,
            memory_total_mib=int(memory.group(2)) if memory else None,
            unified=second[1].strip() == _UNIFIED,
        )
    ]


def _cells(line: str) -> list[str]:
    return line[1:-1].split("|") if line.startswith("|") and line.endswith("|") else []

# SPDX-License-Identifier: BSD-2-Clause
"""Reads `nvidia-smi topo -m` of any driver: how near cards, adapters and CPUs are to one another (D6).

Private to llmgw and pure. Only the first such matrix of the text counts. What an empty or `N/A` cell says is None.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import topo_affinity
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.topo_matrix import Matrix, Row, matrices

_NVLINK = re.compile(r"NV[0-9]+")
_NUMBER = re.compile(r"[0-9]{1,6}")
_RANGE = re.compile(r"(?P<first>[0-9]{1,6})(?:-(?P<last>[0-9]{1,6}))?")
_LEGEND = re.compile(r"[ \t>]*NIC Legend\s*:", re.IGNORECASE)
_NIC = re.compile(r"NIC[0-9]{1,4}")
_ENTRY = re.compile(r"(?<![^\s:])(?P<label>[^\s:]{1,64})\s{0,64}:\s{0,64}(?P<device>[^\s:]{1,64})(?=\s|$)")
_SHOWN = re.compile(r"(?P<found>[0-9]{1,6}) NICs found in the topology, only displaying (?P<shown>[0-9]{1,6})")
# More NUMA nodes than any kernel has: such a range is garbage.
_MOST_NODES = 4096


@dataclass(frozen=True)
class CardRow:
    """What one card's row says. `nics` is distance by device name, or by column label where the legend names none."""

    gpu: int
    nics: Dict[str, str]
    cpu_affinity: Optional[str]
    numa_affinity: Optional[str]
    numa_nodes: Tuple[int, ...]
    numa_node: Optional[int]
    gpu_numa_id: Optional[int]


@dataclass(frozen=True)
class TopologyMatrix:
    """The matrix. Pairs are (i, j, ...) with i < j; words (`NV18`, `SYS`, `SOC`) are as printed."""

    n_gpus: int
    affinity_columns: Tuple[str, ...]
    nic_columns: Tuple[str, ...]
    nic_legend: Optional[Dict[str, str]]
    gpu_rows_present: Tuple[int, ...]
    per_gpu: Tuple[CardRow, ...]
    gpu_pairs_by_type: Dict[str, List[Tuple[int, int]]]
    nvlink_pairs: Tuple[Tuple[int, int, str], ...]
    nvlink_all_to_all: Optional[bool]
    nics_found: Optional[int] = None  # adapters of the machine, where the tool says that it leaves some out


def read(text: str) -> TopologyMatrix:
    """The first matrix of `topo -m` in the text; Unreadable when there is none, and when there is only a `-p2p` one."""
    seen_p2p = False
    for matrix in matrices(text):
        if not matrix.rows:
            continue
        if not matrix.is_p2p:
            return _reading(matrix)
        seen_p2p = True
    if seen_p2p:
        raise Unreadable(
            "looked for a matrix of 'nvidia-smi topo -m' and found one of 'topo -p2p', which tells no paths"
        )
    raise Unreadable(
        "looked for a matrix of 'nvidia-smi topo -m' and found no header of GPU columns with rows below it"
    )


def pairs(matrix: Matrix) -> Dict[Tuple[int, int], str]:
    """The printed word of each pair of cards (i < j), by the row of i, else by that of j; sorted."""
    found: Dict[Tuple[int, int], str] = {}
    for row in sorted(matrix.rows, key=lambda row: row.number):
        for label, word in zip(matrix.columns, row.cells):
            if label.startswith("GPU") and label[3:].isdigit() and int(label[3:]) != row.number:
                first, second = sorted((row.number, int(label[3:])))
                found.setdefault((first, second), word)
    return dict(sorted(found.items()))


def _reading(matrix: Matrix) -> TopologyMatrix:
    legend = _legend(matrix)
    nics = tuple(label for label in matrix.columns if label not in {f"GPU{number}" for number in matrix.cards})
    by_type: Dict[str, List[Tuple[int, int]]] = {}
    for pair, word in pairs(matrix).items():
        by_type.setdefault(word, []).append(pair)
    nvlink = sorted((*pair, word) for word, listed in by_type.items() if _NVLINK.fullmatch(word) for pair in listed)
    shown = _SHOWN.search("\n".join((*matrix.before, *matrix.after)))
    return TopologyMatrix(
        n_gpus=len(matrix.cards),
        affinity_columns=tuple(name for name, _start in matrix.affinity),
        nic_columns=nics,
        nic_legend=legend,
        gpu_rows_present=tuple(row.number for row in matrix.rows),
        per_gpu=tuple(_card(matrix, row, nics, legend or {}) for row in matrix.rows),
        gpu_pairs_by_type=by_type,
        nvlink_pairs=tuple(nvlink),
        nvlink_all_to_all=_all_to_all(matrix, len(nvlink)),
        nics_found=int(shown.group("found")) if shown else None,
    )


def _all_to_all(matrix: Matrix, linked: int) -> Optional[bool]:
    cards = len(matrix.cards)
    if len(matrix.rows) < cards:
        return None
    return cards > 1 and linked == cards * (cards - 1) // 2


def _card(matrix: Matrix, row: Row, nics: Iterable[str], legend: Dict[str, str]) -> CardRow:
    distance = dict(zip(matrix.columns, row.cells))
    affinity = topo_affinity.cells(matrix, row)
    numa = _known(affinity.get("numa"))
    card_node = _known(affinity.get("gpunuma"))
    return CardRow(
        gpu=row.number,
        nics={legend.get(label, label): distance[label] for label in nics if label in distance},
        cpu_affinity=_known(affinity.get("cpu")),
        numa_affinity=numa,
        numa_nodes=_expanded(numa),
        numa_node=_number(numa),
        gpu_numa_id=_number(card_node),
    )


def _legend(matrix: Matrix) -> Optional[Dict[str, str]]:
    """Device by label; None without a NIC Legend. What follows its last entry is not looked at."""
    found: Optional[Dict[str, str]] = None
    for line in matrix.after:
        heading = _LEGEND.match(line)
        if heading is not None and found is None:
            found, line = {}, line[heading.end() :]  # noqa: PLW2901 - the first entry may stand behind the heading
        if found is None or not line.strip():
            continue
        entries = [entry.groups() for entry in _ENTRY.finditer(line)]
        entries = [(label, device) for label, device in entries if label in matrix.columns or _NIC.fullmatch(label)]
        if not entries:
            break
        for label, device in entries:
            found.setdefault(label, device)
    return found


def _known(cell: Optional[str]) -> Optional[str]:
    return cell if cell and cell.strip("[]").upper() != "N/A" else None


def _number(cell: Optional[str]) -> Optional[int]:
    return int(cell) if cell is not None and _NUMBER.fullmatch(cell) else None


def _expanded(cell: Optional[str]) -> Tuple[int, ...]:
    """The nodes of `0,8,252-255`; () for what is no such list."""
    found: List[int] = []
    for part in cell.split(",") if cell else ():
        listed = _RANGE.fullmatch(part.strip())
        if listed is None:
            return ()
        first = int(listed.group("first"))
        last = int(listed.group("last") or first)
        if last - first >= _MOST_NODES:
            return ()
        found.extend(range(first, last + 1))
    return tuple(found)

# SPDX-License-Identifier: BSD-2-Clause
"""Reads `nvidia-smi topo -p2p`: whether cards can reach one another's memory. It looks like `topo -m` and is none.

Private to llmgw and pure. Only the first such matrix of the text counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.topo import pairs
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.topo_matrix import matrices


@dataclass(frozen=True)
class PeerMatrix:
    """Status by pair `i-j` (i < j), as printed: OK, NS, CNS, GNS, TNS, DR, U."""

    is_topo_m: bool
    n_gpus: int
    pairs: Dict[str, str]
    all_ok: bool


def read(text: str) -> PeerMatrix:
    """The first matrix of `topo -p2p` in the text; Unreadable when there is none, and when there is only a `-m` one."""
    seen_other = False
    for matrix in matrices(text):
        if not matrix.rows:
            continue
        if matrix.is_p2p:
            status = {f"{first}-{second}": word for (first, second), word in pairs(matrix).items()}
            return PeerMatrix(
                is_topo_m=False,
                n_gpus=len(matrix.cards),
                pairs=status,
                all_ok=all(word == "OK" for word in status.values()),
            )
        seen_other = True
    if seen_other:
        raise Unreadable("looked for a matrix of 'nvidia-smi topo -p2p' and found one of 'topo -m', which tells paths")
    raise Unreadable(
        "looked for a matrix of 'nvidia-smi topo -p2p' and found no header of GPU columns with rows below it"
    )

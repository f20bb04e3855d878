# SPDX-License-Identifier: BSD-2-Clause
"""Memory of a card or MIG instance that processes hold which llmgw does not own (D3, P7).

Private to llmgw and pure.
"""

from __future__ import annotations

from typing import Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding

# A desktop's share of a card; what draws more is treated like a computation.
_GRAPHICS_MIB = 512


def judge(gpu: contract.Gpu, gone: frozenset[int]) -> Iterator[Finding]:
    """One finding a process; `gone` are pids that the driver lists and the node's /proc does not."""
    places = [(f"card {gpu.index}", gpu.uuid, gpu.processes)]
    places += [(f"{gpu.index}/mig{one.index}", one.uuid or gpu.uuid, one.processes) for one in gpu.mig_instances]
    for place, uuid, processes in places:
        for process in processes or ():
            if process.unit is None and process.used_mib != 0:
                yield _foreign(place, uuid, process, gone)


def _foreign(place: str, uuid: str | None, process: contract.DeviceProcess, gone: frozenset[int]) -> Finding:
    used = "an unknown amount" if process.used_mib is None else f"{process.used_mib} MiB"
    named = f"process {process.pid} ({process.name or 'name unknown'})"
    if process.pid in gone:
        return Finding(
            code="foreign-memory-unowned",
            severity="warn",
            message=f"{named} holds {used} on {place}, and this node has no such process",
            remedy="It may have just ended, or it runs in a container; if it stays, find it or reset the card.",
            subject=uuid,
        )
    desktop = process.kind == "G" and process.used_mib is not None and process.used_mib < _GRAPHICS_MIB
    return Finding(
        code="foreign-memory",
        severity="info" if desktop else "block",
        message=f"{named}, which llmgw does not own, holds {used} on {place}",
        remedy="Nothing, as long as it stays small." if desktop else "Stop it, or keep the card out of llmgw.",
        subject=uuid,
    )

# SPDX-License-Identifier: BSD-2-Clause
"""What follows from the cards that a path has read: owners of processes, classes, findings. The end of every path (D1).

Private to llmgw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_build, gpu_findings

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import GpuDriver
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.bound_cards import Answered
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_list import ListedGpu


def conclude(
    host: Host,
    answered: Answered,
    driver: GpuDriver,
    listed: Iterable[ListedGpu] = (),
    capabilities: Mapping[str, str] | None = None,
) -> gpu_build.Cards:
    """The cards as facts with their findings. `listed` and `capabilities` add what the path did not tell by itself."""
    gpus = gpu_build.finish(
        answered.gpus,
        listed,
        capabilities or {},
        lambda pid: gpu_build.owning_unit(host.read(f"/proc/{pid}/cgroup")),
    )
    unowned = {process.pid for card in gpus for _uuid, process in gpu_build.processes_on(card) if process.unit is None}
    gone = frozenset(pid for pid in unowned if not host.exists(f"/proc/{pid}"))
    lost = [gpu_findings.lost(card, answered.lost[card.index]) for card in gpus if card.index in answered.lost]
    well = [card for card in gpus if card.index not in answered.lost]
    return gpu_build.Cards(gpus, driver, (*lost, *gpu_findings.judge(well, gone)))

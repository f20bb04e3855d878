# SPDX-License-Identifier: BSD-2-Clause
"""The parts about cards: the cards themselves, and what topology, kernel log and IMEX add to them.

Private to llmgw. Loaded on machines that may have cards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    cards,
    gpu_build,
    topology,
    topology_findings,
    xids,
)

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Gpu, GpuFabric, Imex
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.probes import Probes
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_LIBRARY = "nvml"
"""Folder in the state directory in which the role `node` installs nvidia-ml-py."""
_CARDS_S = 45.0
_TOPOLOGY_S = 20.0
_LOG_S = 10.0
_IMEX_S = 10.0


def read_cards(host: Host, probes: Probes, booted_at: float | None, state_dir: str) -> gpu_build.Cards:
    """The cards with their place in the machine and what the kernel log says of them; each part may fail alone."""
    asking_s = probes.asking(_CARDS_S)
    library_dir = f"{state_dir.rstrip('/')}/{_LIBRARY}"
    found = probes.ask("gpus", _CARDS_S, lambda: cards.read_cards(host, asking_s, library_dir)) or gpu_build.Cards(None)
    probes.found("gpus", found.findings)
    if not found.gpus:
        return found
    gpus: tuple[Gpu, ...] = found.gpus
    within_s = probes.asking(_TOPOLOGY_S)
    shape = probes.ask("topology", _TOPOLOGY_S, lambda: topology.read_topology(host, found.gpus or (), within_s))
    if shape is not None:
        gpus = topology.with_topology(gpus, shape)
        probes.found("topology", topology_findings.judge(gpus, shape))
    log_s = probes.asking(_LOG_S)
    logged = probes.ask("xids", _LOG_S, lambda: xids.read_xids(host, gpus, booted_at, log_s))
    if logged is not None:
        gpus = logged[0]
        probes.found("xids", logged[1])
    return replace(found, gpus=gpus)


def read_imex(host: Host, probes: Probes, gpus: tuple[Gpu, ...] | None) -> Imex | None:
    """The IMEX service; None also where the cards are known and none can be in a domain with those of other nodes."""
    if gpus is not None and not any(_may_reach_others(gpu.fabric) for gpu in gpus):
        return None
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (  # noqa: PLC0415 - few nodes have it
        imex,
        imex_findings,
    )

    asking_s = probes.asking(_IMEX_S)
    answer = probes.ask("imex", _IMEX_S, lambda: imex.read_imex(host, asking_s))
    if answer is None:
        return None
    probes.found("imex", (*answer[1], *imex_findings.judge(answer[0], gpus)))
    return answer[0]


def _may_reach_others(fabric: GpuFabric | None) -> bool:
    """Whether a card has a fabric that is not just its own machine's switches, whose cluster is all zeros (D7)."""
    return fabric is not None and (fabric.cluster_uuid is None or bool(fabric.cluster_uuid.strip("0-")))

# SPDX-License-Identifier: BSD-2-Clause
"""What a card's fabric facts mean: whether it has joined, and which NVLink domain it is in (D7).

Private to llmgw and pure.
"""

from __future__ import annotations

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import GpuFabric


def completed(fabric: GpuFabric) -> bool:
    """Whether the card has ended its handshake with the fabric, well or not."""
    return fabric.state is not None and fabric.state.lower() == "completed"


def domain(gpu: contract.Gpu) -> tuple[str, int] | None:
    """Domain of a card, (ClusterUUID, CliqueId); None for a card in none, of which a zero UUID is the sign (D7)."""
    fabric = gpu.fabric
    if fabric is None or not completed(fabric) or fabric.cluster_uuid is None or fabric.clique_id is None:
        return None
    return (fabric.cluster_uuid, fabric.clique_id) if set(fabric.cluster_uuid) - set("0-") else None

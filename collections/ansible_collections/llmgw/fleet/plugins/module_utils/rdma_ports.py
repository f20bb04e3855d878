# SPDX-License-Identifier: BSD-2-Clause
"""Which RDMA ports may carry traffic between nodes (D8): the rule for every list of adapters that engines are given.

Private to llmgw and pure; nodes and controller use it alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import RdmaPort

INFINIBAND = "infiniband"
ROCE = "roce"
EFA = "efa"
OMNI_PATH = "omni-path"
IWARP = "iwarp"
SOFTWARE = "software"

LINK_LAYER_INFINIBAND = "InfiniBand"
LINK_LAYER_ETHERNET = "Ethernet"

# The other half of an adapter with data-direct, as NCCL calls it; naming both would count one port twice.
_DATA_DIRECT = "_dma"
REASONS = {
    "efa": "it is an Elastic Fabric Adapter: NCCL reaches it through libfabric, never as an InfiniBand device",
    "iwarp": "it speaks iWARP, which NCCL does not",
    "software": "it is RDMA in software",
    "data-direct": "it is the data-direct half of another adapter",
    "switch-management": "it is the way to the management of the NVSwitches, not a network",
    "virtual-function": "it is a virtual function",
    "link-layer": "its link layer is neither InfiniBand nor Ethernet",
    "not-active": "it is not active",
    "state-unknown": "its state is unknown",
    "no-gid": "it has no GID here: its network interface belongs to another namespace, or has no address",
}
"""Every reason that `why_not` gives, as a clause about the port."""


def why_not(port: RdmaPort, *, virtual_functions: bool = False) -> str | None:
    """Why a port must not be in a list of adapters: a key of REASONS; None when it may be.

    `virtual_functions` lets those in that somebody declared. A port for which `switch_management` is None may be: it is
    unknown only where VPD cannot be read, and a finding says so.
    """
    refused = _never(port)
    if refused is not None:
        return refused
    if port.virtual_function and not virtual_functions:
        return "virtual-function"
    if port.active is None:
        return "state-unknown"
    if not port.active:
        return "not-active"
    if port.link_layer == LINK_LAYER_ETHERNET and port.gids_known and not port.gids:
        return "no-gid"
    return None


def is_candidate(port: RdmaPort, *, virtual_functions: bool = False) -> bool:
    """Whether a port may be in a list of adapters."""
    return why_not(port, virtual_functions=virtual_functions) is None


def name(port: RdmaPort) -> str:
    """The port as NCCL_IB_HCA names it: `mlx5_0:1`."""
    return f"{port.device}:{port.port}"


def _never(port: RdmaPort) -> str | None:
    """Why a port is no network adapter of this kind at all, whatever its state."""
    if port.kind in {EFA, IWARP, SOFTWARE}:
        return port.kind
    if port.device.endswith(_DATA_DIRECT):
        return "data-direct"
    if port.switch_management:
        return "switch-management"
    if port.link_layer not in {LINK_LAYER_INFINIBAND, LINK_LAYER_ETHERNET}:
        return "link-layer"
    return None

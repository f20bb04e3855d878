# SPDX-License-Identifier: BSD-2-Clause
"""What joins nodes: IMEX (D7), InfiniBand and RoCE ports (D8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class ImexNode:
    """One line of the IMEX node list."""

    address: str
    status: Optional[str] = None
    local: Optional[bool] = None
    version: Optional[str] = None
    hostname: Optional[str] = None


@dataclass(frozen=True)
class Imex:
    """The node's IMEX service (D7)."""

    active: Optional[bool] = None
    domain_state: Optional[str] = None
    nodes: Tuple[ImexNode, ...] = ()
    channels: Optional[Tuple[int, ...]] = None
    configured: Optional[Tuple[str, ...]] = None  # addresses in nodes_config.cfg
    unconnected: Optional[int] = None  # cells of the connection matrix that are not connected


@dataclass(frozen=True)
class RdmaPort:
    """One port of an InfiniBand or RoCE adapter (D8), as /sys/class/infiniband tells it."""

    device: str
    port: int
    link_layer: Optional[str] = None
    state: Optional[str] = None
    physical_state: Optional[str] = None
    rate_gbps: Optional[float] = None
    lid: Optional[int] = None
    sm_lid: Optional[int] = None
    port_guid: Optional[str] = None
    gids: Tuple[str, ...] = ()
    pkeys: Tuple[str, ...] = ()
    netdev: Optional[str] = None
    pci_address: Optional[str] = None
    numa_node: Optional[int] = None
    virtual_function: Optional[bool] = None
    switch_management: Optional[bool] = None
    sm_guids: Optional[Tuple[str, ...]] = None
    subnet_port_guids: Optional[Tuple[str, ...]] = None

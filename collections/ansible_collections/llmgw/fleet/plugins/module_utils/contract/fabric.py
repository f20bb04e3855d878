# SPDX-License-Identifier: BSD-2-Clause
"""What joins nodes: IMEX (D7), InfiniBand and RoCE ports (D8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class ImexNode:
    """One line of the IMEX node list; `address` is an IP address, or a name where the list has names."""

    address: str
    status: Optional[str] = None
    local: Optional[bool] = None
    version: Optional[str] = None
    hostname: Optional[str] = None


@dataclass(frozen=True)
class Imex:
    """The node's IMEX service (D7). `nodes` are those that the daemon shows, `configured` those in its file."""

    active: Optional[bool] = None
    domain_state: Optional[str] = None
    nodes: Tuple[ImexNode, ...] = ()
    channels: Optional[Tuple[int, ...]] = None  # the lowest of them
    configured: Optional[Tuple[str, ...]] = None  # addresses in nodes_config.cfg
    unconnected: Optional[int] = None  # cells of the connection matrix that are not connected
    installed: Optional[bool] = None
    service_state: Optional[str] = None  # systemd's word: active, inactive, failed, ...
    daemon_status: Optional[str] = None  # of this node's own daemon: READY, WAITING_FOR_PEERS, ...
    listed: Optional[bool] = None  # whether this node is in its own list; None: cannot be told
    channel_count: Optional[int] = None
    channel_major: Optional[int] = None


@dataclass(frozen=True)
class RdmaGid:
    """One entry of a port's GID table; RoCE needs its index and type (`RoCE v2`)."""

    index: int
    gid: str
    type: Optional[str] = None
    netdev: Optional[str] = None


@dataclass(frozen=True)
class RdmaPort:
    """One port of an InfiniBand or RoCE adapter (D8), as /sys/class/infiniband tells it.

    GUIDs are `0x` and 16 digits. LIDs that nobody assigned are None. `subnet_*` and `switch_guid` come from tools that
    need privileges; ports of one subnet have one `subnet_digest`, and the first of them alone carries the list.
    """

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
    kind: Optional[str] = None  # infiniband | roce | efa | omni-path | iwarp | software
    active: Optional[bool] = None  # by the number of the state
    node_guid: Optional[str] = None
    gid_table: Tuple[RdmaGid, ...] = ()  # RoCE only; `gids` has the addresses alone
    gids_known: Optional[bool] = None  # whether the table was read: an empty one that was read serves no RoCE
    addresses: Tuple[str, ...] = ()  # IPv4 addresses among the GIDs
    netdevs: Tuple[str, ...] = ()  # all of them: a bond, its VLANs
    mtu: Optional[int] = None  # of `netdev`
    driver: Optional[str] = None  # of the PCI function: mlx5_core, efa, bnxt_en, ice, hfi1
    hca_type: Optional[str] = None
    board_id: Optional[str] = None
    firmware: Optional[str] = None
    link_downed: Optional[int] = None  # since the counters were reset
    symbol_errors: Optional[int] = None
    switch_guid: Optional[str] = None  # of the switch at the other end: the leaf
    subnet_digest: Optional[str] = None  # of the sorted GUIDs of all adapter ports in the subnet
    subnet_port_count: Optional[int] = None

# SPDX-License-Identifier: BSD-2-Clause
"""Makes the facts of RDMA ports from what was seen of their adapters (D8). Private to llmgw and pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Mapping, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import rdma_ports
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import RdmaGid, RdmaPort
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import ib_tools, sysfs_ib, sysfs_ib_vpd
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_MELLANOX = 0x15B3
_AMAZON = 0x1D0F
# PCI ids of the ConnectX generations from 7 on; NVSwitches have been managed through those.
_CONNECTX_7 = 0x1021
_CONNECTX_LAST = 0x10FF
_RNIC = 4
_UNASSIGNED_LIDS = frozenset({0, 0xFFFF})
_GUID = re.compile(r"(?:0x)?[0-9a-fA-F]{1,16}|(?:[0-9a-fA-F]{1,4}:){3}[0-9a-fA-F]{1,4}")
_HCA_TYPE = re.compile(r"MT(?P<device>[0-9]{1,6})")


class Port(NamedTuple):
    """What was seen of a port: texts of its files, and its GID table (index, GID, type, interface; None: unread)."""

    number: int
    files: Mapping[str, str]
    gids: tuple[tuple[int, str, str | None, str | None], ...] | None = None
    pkeys: tuple[str, ...] = ()
    netdevs: tuple[str, ...] = ()
    mtu: str | None = None


class Adapter(NamedTuple):
    """What was seen of an adapter; `vpd` None: not read, or not to be read."""

    name: str
    files: Mapping[str, str]
    ports: tuple[Port, ...]
    pci_address: str | None = None
    pci_files: Mapping[str, str] = {}
    driver: str | None = None
    virtual_function: bool = False
    has_device: bool = True
    vpd: bytes | None = None


def ports(adapter: Adapter) -> tuple[RdmaPort, ...]:
    """The facts of an adapter's ports."""
    return tuple(_port(adapter, port) for port in adapter.ports)


def may_manage_switches(adapter: Adapter) -> bool:
    """Whether the adapter could be the way to NVSwitches, which only its VPD tells.

    Those are ConnectX-7 or newer, physical, and speak InfiniBand; network adapters with the same PCI id exist.
    """
    speaks = any(port.files.get("link_layer") == rdma_ports.LINK_LAYER_INFINIBAND for port in adapter.ports)
    device = _device_id(adapter)
    return (
        speaks
        and not adapter.virtual_function
        and adapter.pci_address is not None
        and _hexadecimal(adapter.pci_files.get("vendor")) in {None, _MELLANOX}
        and (device is None or _CONNECTX_7 <= device <= _CONNECTX_LAST)
        and _kind(adapter, rdma_ports.LINK_LAYER_INFINIBAND) == rdma_ports.INFINIBAND
    )


def _port(adapter: Adapter, port: Port) -> RdmaPort:
    files = port.files
    link_layer = files.get("link_layer") or None
    speaks_infiniband = link_layer == rdma_ports.LINK_LAYER_INFINIBAND
    table = tuple(RdmaGid(*entry) for entry in port.gids or ())
    numa = _decimal(adapter.pci_files.get("numa_node"))
    return RdmaPort(
        device=adapter.name,
        port=port.number,
        link_layer=link_layer,
        state=sysfs_ib.numbered(files.get("state", ""))[1],
        physical_state=sysfs_ib.numbered(files.get("phys_state", ""))[1],
        rate_gbps=sysfs_ib.rate_gbps(files.get("rate", "")) or None,  # no link has 0: it is not known
        lid=_lid(files.get("lid")) if speaks_infiniband else None,
        sm_lid=_lid(files.get("sm_lid")) if speaks_infiniband else None,
        port_guid=_port_guid(table) if speaks_infiniband else None,
        gids=tuple(dict.fromkeys(entry.gid for entry in table)),
        pkeys=port.pkeys,
        netdev=port.netdevs[0] if port.netdevs else None,
        pci_address=adapter.pci_address,
        numa_node=numa if numa is not None and numa >= 0 else None,
        virtual_function=adapter.virtual_function,
        switch_management=_switch_management(adapter),
        kind=_kind(adapter, link_layer),
        active=sysfs_ib.is_active(files.get("state", "")),
        node_guid=_guid(adapter.files.get("node_guid")),
        gid_table=table if link_layer == rdma_ports.LINK_LAYER_ETHERNET else (),
        gids_known=port.gids is not None,
        addresses=tuple(dict.fromkeys(filter(None, (_ipv4(entry.gid) for entry in table)))),
        netdevs=port.netdevs,
        mtu=_decimal(port.mtu),
        driver=adapter.driver,
        hca_type=adapter.files.get("hca_type") or None,
        board_id=adapter.files.get("board_id") or None,
        firmware=adapter.files.get("fw_ver") or None,
        link_downed=_decimal(files.get("link_downed")),
        symbol_errors=_decimal(files.get("symbol_error")),
    )


def _kind(adapter: Adapter, link_layer: str | None) -> str | None:
    # An EFA's link layer reads Unspecified, Unknown or InfiniBand, by the driver's age.
    if adapter.driver == "efa" or _hexadecimal(adapter.pci_files.get("vendor")) == _AMAZON:
        return rdma_ports.EFA
    if adapter.driver == "hfi1" or adapter.name.startswith("hfi1_"):
        return rdma_ports.OMNI_PATH
    if sysfs_ib.numbered(adapter.files.get("node_type", ""))[0] == _RNIC:
        return rdma_ports.IWARP
    # RDMA in software names the interface that it runs over.
    if "parent" in adapter.files or not adapter.has_device:
        return rdma_ports.SOFTWARE
    if link_layer == rdma_ports.LINK_LAYER_INFINIBAND:
        return rdma_ports.INFINIBAND
    return rdma_ports.ROCE if link_layer == rdma_ports.LINK_LAYER_ETHERNET else None


def _switch_management(adapter: Adapter) -> bool | None:
    """None when only VPD could tell and it was not read."""
    if not may_manage_switches(adapter):
        return False
    if not adapter.vpd:
        return None
    try:
        return sysfs_ib_vpd.manages_switches(sysfs_ib_vpd.read(adapter.vpd))
    except Unreadable:
        return None


def _device_id(adapter: Adapter) -> int | None:
    told = _HCA_TYPE.fullmatch(adapter.files.get("hca_type", ""))
    number = _hexadecimal(adapter.pci_files.get("device"))
    return int(told.group("device")) if number is None and told else number


def _port_guid(table: tuple[RdmaGid, ...]) -> str | None:
    """The lower half of an InfiniBand port's GID 0."""
    first = next((entry.gid for entry in table if entry.index == 0), None)
    return None if first is None else _guid(":".join(first.split(":")[-4:]))


def _guid(text: str | None) -> str | None:
    if text is None or not _GUID.fullmatch(text) or not text.replace("0x", "").strip("0:"):
        return None
    parts = text.split(":")
    return ib_tools.guid("".join(part.zfill(4) for part in parts) if len(parts) > 1 else text)


def _ipv4(gid: str) -> str | None:
    """The IPv4 address in a RoCE GID (`0000:...:ffff:0a01:0203`); None for other GIDs."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return None if mapped is None else str(mapped)


def _lid(text: str | None) -> int | None:
    number = _hexadecimal(text)
    return None if number in _UNASSIGNED_LIDS else number


def _hexadecimal(text: str | None) -> int | None:
    return int(text, 16) if text and re.fullmatch(r"(?:0x)?[0-9a-fA-F]{1,8}", text) else None


def _decimal(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,19}", text) else None

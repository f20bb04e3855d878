# SPDX-License-Identifier: Apache-2.0
"""InfiniBand and RoCE ports of the showcase, with what the tools of infiniband-diags tell of the subnets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import rdma_subnet
from llmgw.nodekit import contract
from tests.support.showcase.invented import between

HGX = tuple(f"0000:{bus}:00.0" for bus in ("19", "2b", "3b", "5e", "9b", "ac", "bb", "dc"))
TRAY_SLOTS = ("0000:03:00.0", "0002:03:00.0", "0010:03:00.0", "0012:03:00.0")
_NORTH = {HGX: "0000:29:00.0", TRAY_SLOTS: "0006:03:00.0"}
_PREFIX = "fe80:0000:0000:0000"


@dataclass(frozen=True)
class Subnet:
    """One InfiniBand subnet: GUID of its manager, and the beginning of its leaf switches' GUIDs."""

    manager: str
    leaf: str


SUBNETS = {
    "ib-a": Subnet("0x506b4b0300ca0001", "0xe8ebd303004a"),
    "ib-b": Subnet("0x506b4b0300cb0001", "0xe8ebd303004b"),
    "ib-c": Subnet("0x506b4b0300ce0001", "0xe8ebd303004c"),
}


def infiniband(number: int, slots: tuple[str, ...]) -> tuple[contract.RdmaPort, ...]:
    """A port for each slot; `number` tells the machine from all others and makes GUIDs and LIDs."""
    return tuple(_port(number * 16 + index, index, slot, len(slots)) for index, slot in enumerate(slots))


def rails(number: int) -> tuple[contract.RdmaPort, ...]:
    """Eight RoCE ports, each in the IP range of its rail."""
    return tuple(
        replace(_ethernet(f"mlx5_{index}", slot, f"10.80.{index}.{number}", f"rail{index}"), numa_node=index * 2 // 8)
        for index, slot in enumerate(HGX)
    )


def north_slot(slots: tuple[str, ...]) -> str:
    """PCI address of the adapter for the machine's own address, beside adapters in these slots."""
    return _NORTH[slots]


def north(device: str, address: str, slot: str = "0000:29:00.0") -> contract.RdmaPort:
    """The port that carries the machine's own address."""
    return replace(_ethernet(device, slot, address, "bond0"), rate_gbps=200.0)


def in_subnets(
    ports: Mapping[str, tuple[contract.RdmaPort, ...]],
    cabled: Mapping[str, str],
    crossed: Mapping[tuple[str, str], str],
) -> dict[str, tuple[contract.RdmaPort, ...]]:
    """The ports of all nodes with what each sees of its subnet.

    `cabled` is the subnet of each node; `crossed` that of ports (node, device) which are plugged in elsewhere.
    """
    members: dict[str, list[str]] = {name: [] for name in SUBNETS}
    for node, found in ports.items():
        for port in found:
            if port.kind == "infiniband":
                members[crossed.get((node, port.device), cabled[node])].append(port.port_guid or "")
    lists = {name: tuple(sorted(guids)) for name, guids in members.items()}
    told = {}
    for node, found in ports.items():
        seen = [
            _seen(port, crossed.get((node, port.device), cabled[node]), lists) if port.kind == "infiniband" else port
            for port in found
        ]
        told[node] = rdma_subnet._with_lists(seen, list(lists.values()))
    return told


def _seen(port: contract.RdmaPort, name: str, lists: Mapping[str, tuple[str, ...]]) -> contract.RdmaPort:
    subnet = SUBNETS[name]
    leaf = f"{subnet.leaf}{int(port.device.removeprefix('mlx5_')):04x}"
    known = replace(port, sm_lid=1, sm_guids=(subnet.manager,), switch_guid=leaf)
    return rdma_subnet._in_subnet(known, lists[name])


def _port(number: int, index: int, slot: str, count: int) -> contract.RdmaPort:
    guid = f"b8cef6030{number:07x}"
    gid = ":".join(guid[place : place + 4] for place in range(0, 16, 4))
    return contract.RdmaPort(
        device=f"mlx5_{index}",
        port=1,
        link_layer="InfiniBand",
        state="ACTIVE",
        physical_state="LinkUp",
        rate_gbps=400.0,
        lid=32 + number,
        sm_lid=1,
        port_guid=f"0x{guid}",
        gids=(f"{_PREFIX}:{gid}",),
        pkeys=("0x7fff", "0xffff"),
        pci_address=slot,
        numa_node=index * 2 // count,
        virtual_function=False,
        switch_management=False,
        kind="infiniband",
        active=True,
        node_guid=f"0x{guid}",
        gids_known=True,
        netdev=f"ib{index}",
        netdevs=(f"ib{index}",),
        mtu=4092,
        driver="mlx5_core",
        hca_type="MT4129",
        board_id="MT_0000000838",
        firmware="28.43.2026",
        link_downed=between(0, 2, number, "downs"),
        symbol_errors=0,
    )


def _ethernet(device: str, slot: str, address: str, netdev: str) -> contract.RdmaPort:
    mapped = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*map(int, address.split(".")))
    link_local = f"{_PREFIX}:bace:f6ff:fe{between(0, 255, address, 'mac'):02x}:{between(0, 65535, address, 'id'):04x}"
    table = tuple(
        contract.RdmaGid(place, gid, ("IB/RoCE v1", "RoCE v2")[place % 2], netdev)
        for place, gid in enumerate((link_local, link_local, mapped, mapped))
    )
    return contract.RdmaPort(
        device=device,
        port=1,
        link_layer="Ethernet",
        state="ACTIVE",
        physical_state="LinkUp",
        rate_gbps=400.0,
        gids=(link_local, mapped),
        pkeys=("0xffff",),
        netdev=netdev,
        pci_address=slot,
        numa_node=0,
        virtual_function=False,
        switch_management=False,
        kind="roce",
        active=True,
        node_guid=f"0xb8cef603{between(1 << 28, (1 << 32) - 1, address, device):08x}",
        gid_table=table,
        gids_known=True,
        addresses=(address,),
        netdevs=(netdev,),
        mtu=9000,
        driver="mlx5_core",
        hca_type="MT4129",
        board_id="MT_0000000834",
        firmware="28.43.2026",
        link_downed=0,
        symbol_errors=0,
    )

# SPDX-License-Identifier: Apache-2.0
"""Builders of ports as nodes report them, for tests of fabrics and domains: small fleets with made-up addresses."""

from __future__ import annotations

from typing import Any

from llmgw.fleet.fabric_settings import Declaration, read_declarations
from llmgw.fleet.fabrics import Judged, judge
from llmgw.fleet.hosts import Host
from llmgw.model.fabric import FabricPort
from llmgw.nodekit import contract

DEFAULT_PREFIX = "fe80:0000:0000:0000"
UUID = "5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003"
OTHER_UUID = "9b31e7d0-22aa-4f6b-8a10-77c0d5e1b204"
NO_UUID = "00000000-0000-0000-0000-000000000000"


def port_guid(number: int) -> str:
    """GUID of a port, as discovery writes it."""
    return f"0x5000be{number:010x}"


def ib(number: int, index: int = 0, prefix: str = DEFAULT_PREFIX, **more: Any) -> contract.RdmaPort:
    """An active InfiniBand port: `number` makes its LID and GUID, `index` its place in the machine."""
    guid = port_guid(number)[2:]
    groups = ":".join(guid[at : at + 4] for at in range(0, 16, 4))
    values: dict[str, Any] = {
        "device": f"mlx5_{index}",
        "port": 1,
        "link_layer": "InfiniBand",
        "kind": "infiniband",
        "state": "ACTIVE",
        "active": True,
        "rate_gbps": 400.0,
        "lid": number,
        "sm_lid": 1,
        "port_guid": port_guid(number),
        "gids": (f"{prefix}:{groups}",),
        "pkeys": ("0xffff",),
        "pci_address": f"0000:{0x10 + index:02x}:00.0",
    }
    return contract.RdmaPort(**(values | more))


def roce(address: str, index: int = 0, **more: Any) -> contract.RdmaPort:
    """An active RoCE port with an IPv4 address."""
    values: dict[str, Any] = {
        "device": f"mlx5_{index}",
        "port": 1,
        "link_layer": "Ethernet",
        "kind": "roce",
        "state": "ACTIVE",
        "active": True,
        "rate_gbps": 200.0,
        "gids": ("fe80:0000:0000:0000:5200:00ff:fe00:0001", f"::ffff:{address}"),
        "netdev": f"eth{index}",
        "pci_address": f"0000:{0x10 + index:02x}:00.0",
    }
    return contract.RdmaPort(**(values | more))


def declared(nodes: list[str], **fabrics: dict[str, Any]) -> dict[str, tuple[Declaration, ...]]:
    """What all these nodes declare; `_` in a fabric's name stands for `-`."""
    value = {name.replace("_", "-"): body for name, body in fabrics.items()}
    return read_declarations(Host(name, node=True, gateway=False, variables={"llmgw_fabrics": value}) for name in nodes)


def by_pci(count: int = 8, kind: str = "infiniband", **more: Any) -> dict[str, Any]:
    """A fabric that is told by the PCI addresses of the first adapters."""
    return {"kind": kind, "hcas": {"pci": [f"0000:{0x10 + index:02x}:00.0" for index in range(count)]}} | more


def judged(nodes: dict[str, tuple[contract.RdmaPort, ...] | None], **fabrics: dict[str, Any]) -> Judged:
    """The verdicts when all nodes declare the same fabrics."""
    return judge(nodes, declared(list(nodes), **fabrics))


def verdicts(found: Judged) -> dict[str, str]:
    """`n1 mlx5_0:1` to the word of the verdict."""
    return {f"{port.node} {port.name}": port.verdict.value for port in ports_of(found)}


def ports_of(found: Judged) -> list[FabricPort]:
    """All ports."""
    return [port for ports in found.ports.values() for port in ports]


def linked(
    uuid: str | None = UUID, clique: int | None = 2, state: str = "Completed", **more: Any
) -> contract.GpuFabric:
    """The fabric state of a card that NVLink joins to other nodes."""
    values = {"status": "Success", "health_summary": "Healthy", "bandwidth": "Full"} | more
    return contract.GpuFabric(state, values.pop("status"), uuid, clique, **values)


def tray(*fabrics: contract.GpuFabric | None, imex: contract.Imex | None = None) -> dict[str, Any]:
    """Facts of a node with one card for each fabric state."""
    cards = tuple(
        contract.Gpu(index, f"GPU-{index}", device_class="gb200-186g", memory_total_mib=189471, fabric=fabric)
        for index, fabric in enumerate(fabrics)
    )
    return {"gpus": cards, "imex": imex}


def imex(*addresses: str, state: str = "UP", local: str | None = None) -> contract.Imex:
    """An IMEX service that shows these nodes, all ready."""
    nodes = tuple(contract.ImexNode(address, "READY", local=address == local) for address in addresses)
    return contract.Imex(active=True, domain_state=state, nodes=nodes)

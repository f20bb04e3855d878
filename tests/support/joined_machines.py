# SPDX-License-Identifier: Apache-2.0
"""Small machines with what joins their cards and what joins them: NVLink, sockets, fabrics, NVLink domains.

A fleet of them is built from facts and an inventory by the product's own judgement, so that fabrics are confirmed and
domains ready for the reasons that real ones are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import FleetSnapshot
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, ib, imex, linked

NOW = 50_000.0
GB = 10**9
ADAPTERS = 2
CAPABILITY = {"a100-80g": "8.0", "l40s-45g": "8.9", "h100-80g": "9.0", "h200-141g": "9.0", "gb200-186g": "10.0"}
MIB = {"a100-80g": 81920, "l40s-45g": 46068, "h100-80g": 81559, "h200-141g": 143771, "gb200-186g": 189471}
SLICE = "a100-80g-mig-3g.40gb"
ENGINES = tuple(
    contract.Engine(kind, (f"/opt/llmgw/engines/{kind}/bin/{kind}",), "1.0", runnable=True) for kind in ("sim", "vllm")
)


@dataclass(frozen=True)
class Machine:
    """A node. `cards` are classes by index; `SLICE` is a card in MIG mode with two instances."""

    name: str
    cards: tuple[str, ...] = ()
    sockets: tuple[int, ...] | None = None
    """NUMA node of each card; None: unknown."""
    islands: tuple[tuple[int, ...], ...] | None = None
    """Cards that NVLink joins; None: unknown."""
    fabric: str | None = None
    """The InfiniBand fabric of its two adapters: one is near the first half of the cards, the other near the rest."""
    domain: str | None = None
    """ClusterUUID of its cards."""
    ready: bool = True
    """Whether it takes part in its NVLink domain."""
    memory_gb: int | None = 64
    labels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    """Further ones of the inventory, such as `llmgw_cordoned`."""
    sick: tuple[int, ...] = ()
    """Cards with a finding that takes them out."""
    held: tuple[int, ...] = ()
    """Cards on which a stranger's process holds memory."""
    silent: bool = False
    """It has not answered for a moment."""
    units: tuple[contract.ObservedUnit, ...] = ()


def card(node: str, index: int) -> str:
    """UUID of a card."""
    return f"GPU-{node}-{index}"


def busy(service: str, number: int, node: str, *indexes: int) -> contract.ObservedUnit:
    """The unit of a replica that runs on these cards."""
    return contract.ObservedUnit(
        f"llmgw-{service}.{number}.0.service",
        f"{service}/{number}",
        0,
        profile=service,
        port=18900 + number,
        devices=tuple(card(node, index) for index in indexes),
        active_state="active",
        sub_state="running",
    )


def fleet_of(
    *machines: Machine, look: Callable[[contract.NodeFacts], contract.NodeFacts] | None = None
) -> FleetSnapshot:
    """The machines, as they are judged at one moment by their facts; by those that `look` makes of them, if given."""
    listed: dict[str, list[str]] = {}
    for one in machines:
        if one.domain is not None and one.ready:
            listed.setdefault(one.domain, []).append(one.name)
    stored = {
        one.name: Stored(
            (look or _as_they_are)(_facts(number, one, listed.get(one.domain or "", []))),
            unreachable_since=NOW - 10 if one.silent else None,
            unreachable_last=NOW - 5 if one.silent else None,
        )
        for number, one in enumerate(machines)
    }
    gateway = Host("gw", node=False, gateway=True)
    return build_snapshot((*map(_host, machines), gateway), stored, View(NOW))


def _as_they_are(facts: contract.NodeFacts) -> contract.NodeFacts:
    return facts


def _host(one: Machine) -> Host:
    variables: dict[str, Any] = {"llmgw_labels": dict(one.labels), **one.variables}
    if one.fabric is not None:
        variables["llmgw_fabrics"] = {one.fabric: by_pci(ADAPTERS)}
    return Host(one.name, node=True, gateway=False, variables=variables)


def _facts(number: int, one: Machine, listed: Iterable[str]) -> contract.NodeFacts:
    ports: tuple[contract.RdmaPort, ...] = ()
    if one.fabric is not None:
        manager: dict[str, Any] = {"sm_guids": (f"0x5000ff{sum(map(ord, one.fabric)):010x}",)}
        ports = tuple(ib(100 * number + index + 2, index, **manager) for index in range(ADAPTERS))
    return contract.NodeFacts(
        collected_at=NOW - 30,
        system=contract.System(hostname=one.name, boot_id="b", journal=True, listening_ports=(22,)),
        memory=contract.Memory(None if one.memory_gb is None else one.memory_gb * GB),
        filesystems=(),
        gpus=tuple(_gpu(one, index) for index in range(len(one.cards))),
        imex=imex(*listed) if one.domain is not None else None,
        rdma_ports=ports,
        engines=ENGINES,
        units=one.units,
        findings=(
            *(contract.Finding("ecc-uncorrected", "block", "bad", subject=card(one.name, at)) for at in one.sick),
            *(contract.Finding("foreign-memory", "block", "held", subject=card(one.name, at)) for at in one.held),
        ),
    )


def _gpu(one: Machine, index: int) -> contract.Gpu:
    device_class = "a100-80g" if one.cards[index] == SLICE else one.cards[index]
    peers = None if one.islands is None else tuple(_peers(one, index))
    half = len(one.cards) // 2
    found = contract.Gpu(
        index,
        card(one.name, index),
        name=device_class.upper(),
        device_class=device_class,
        memory_total_mib=MIB[device_class],
        compute_capability=CAPABILITY[device_class],
        mig_mode=one.cards[index] == SLICE,
        numa_node=None if one.sockets is None else one.sockets[index],
        nvlink_peers=peers,
        nic_paths=tuple(
            contract.NicPath(f"mlx5_{adapter}", "PIX" if adapter == (index >= half) else "SYS")
            for adapter in range(ADAPTERS if one.fabric else 0)
        ),
    )
    if one.domain is not None:
        found = replace(found, fabric=linked(one.domain))
    if found.mig_mode:
        instances = tuple(
            contract.MigInstance(f"MIG-{one.name}-{index}-{at}", at, device_class=SLICE, memory_total_mib=40192)
            for at in range(2)
        )
        found = replace(found, mig_instances=instances)
    return found


def _peers(one: Machine, index: int) -> Iterable[contract.NvlinkPeer]:
    for island in one.islands or ():
        if index in island:
            yield from (contract.NvlinkPeer(card(one.name, other), 4) for other in island if other != index)

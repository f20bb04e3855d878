# SPDX-License-Identifier: Apache-2.0
"""Nodes put into fabrics and NVLink domains in thought, and taken out of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmgw.fleet.fabrics import worst
from llmgw.model.fabric import DomainMember, Fabric, FabricMember, FabricPort, NvlinkDomain, Verdict
from llmgw.model.node import FleetSnapshot, Node
from llmgw.nodekit import contract

_SUPPOSED = ("supposed",)


@dataclass(frozen=True, slots=True)
class Joins:
    """What supposed nodes are in. `kept`: fabrics of the node they are copied from that are theirs too."""

    kept: frozenset[str] = frozenset()
    fabric: str | None = None
    """The one that was asked for by name."""
    moved: frozenset[str] = frozenset()
    """Ports of the copied node, by name, that are put into `fabric`; none of them: ports are made up."""
    domain: str | None = None


def joins_into(wanted: str, model: Node | None, domain: str | None) -> Joins:
    """How nodes copied from `model` come into a fabric, and into no other: with its ports there, else with those of its
    main fabric, else with all that are of some use.
    """
    ports = [port for port in model.ports or () if port.verdict is not Verdict.EXCLUDED] if model else []
    count = Counter(port.fabric for port in ports if port.fabric is not None)
    main = min(count, key=lambda name: (name != wanted, -count[name], name), default=None)
    moved = frozenset(port.name for port in ports if port.fabric == main)
    return Joins(frozenset(), wanted, moved, domain)


def joined_node(node: Node, joins: Joins, fleet: FleetSnapshot) -> Node:
    """The supposed node with its ports in those fabrics, and its cards in the domain."""
    if joins.fabric is not None and not joins.moved:
        node = _with_ports(node, joins.fabric, fleet)
    elif node.ports is not None:
        node = replace(node, ports=tuple(_placed(port, node, joins) for port in node.ports))
    return node if joins.domain is None else _in_domain(node, joins.domain, fleet)


def _placed(port: FabricPort, node: Node, joins: Joins) -> FabricPort:
    if port.verdict is Verdict.EXCLUDED:
        return replace(port, node=node.name)
    if port.name in joins.moved:
        rail = port.rail if port.fabric == joins.fabric else None
        return replace(
            port, node=node.name, fabric=joins.fabric, verdict=Verdict.CONFIRMED, evidence=_SUPPOSED, rail=rail
        )
    if port.fabric in joins.kept:
        return replace(port, node=node.name, evidence=_SUPPOSED)
    return replace(port, node=node.name, fabric=None, verdict=Verdict.UNDECLARED, evidence=_SUPPOSED, rail=None)


def _with_ports(node: Node, wanted: str, fleet: FleetSnapshot) -> Node:
    """The node with a port for each of its devices: nothing is known of its real ones."""
    kind = next((one.kind for one in fleet.fabrics if one.name == wanted), "infiniband")
    layer = "InfiniBand" if kind == "infiniband" else "Ethernet"
    names = [f"mlx5_{index}" for index in range(max(1, len(node.devices or ())))]
    ports = tuple(FabricPort(node.name, name, 1, Verdict.CONFIRMED, wanted, kind, _SUPPOSED) for name in names)
    facts = node.facts
    if facts is not None:
        made = (contract.RdmaPort(name, 1, link_layer=layer, kind=kind, active=True) for name in names)
        facts = replace(facts, rdma_ports=tuple(made))
    return replace(node, ports=ports, facts=facts)


def _in_domain(node: Node, name: str, fleet: FleetSnapshot) -> Node:
    """Every card joined, and an IMEX that is up: what makes a member ready (P5)."""
    known = next((one for one in fleet.domains if one.name == name), None)
    key = (known.cluster_uuid, known.clique_id) if known else (f"supposed-{name}", 0)
    cards = contract.GpuFabric(
        state="Completed", status="Success", cluster_uuid=key[0], clique_id=key[1], health_summary="Healthy"
    )
    count = len(node.devices or ())
    facts = node.facts
    if facts is not None:
        imex = replace(facts.imex or contract.Imex(), active=True, domain_state="UP", listed=True)
        gpus = None if facts.gpus is None else tuple(replace(gpu, fabric=cards) for gpu in facts.gpus)
        facts = replace(facts, imex=imex, gpus=gpus)
    devices = None if node.devices is None else tuple(replace(device, fabric=cards) for device in node.devices)
    member = DomainMember(node.name, name, cards=count, joined=count, imex_up=True, ready=True)
    return replace(node, facts=facts, devices=devices, domain=member)


def attached(fleet: FleetSnapshot, nodes: Iterable[Node]) -> FleetSnapshot:
    """The fleet with these nodes added, and in its fabrics and domains. O(nodes + ports)."""
    added = tuple(nodes)
    fabrics = {one.name: one for one in fleet.fabrics}
    domains = {one.name: one for one in fleet.domains}
    members: dict[str, list[FabricMember]] = {}
    in_domain: dict[str, list[DomainMember]] = {}
    for node in added:
        by_fabric: dict[str, list[FabricPort]] = {}
        for port in node.ports or ():
            if port.fabric is not None:
                by_fabric.setdefault(port.fabric, []).append(port)
        for name, ports in by_fabric.items():
            members.setdefault(name, []).append(FabricMember(node.name, worst(ports), tuple(ports)))
        if node.domain is not None:
            in_domain.setdefault(node.domain.domain, []).append(node.domain)
    for name, joining in members.items():
        fabric = fabrics.get(name) or _new_fabric(name, joining[0])
        fabrics[name] = replace(fabric, members=_sorted((*fabric.members, *joining)))
    for name, coming in in_domain.items():
        domain = domains.get(name) or NvlinkDomain(name, f"supposed-{name}", 0, ())
        domains[name] = replace(domain, members=tuple(sorted((*domain.members, *coming), key=lambda one: one.node)))
    return replace(
        fleet,
        nodes=tuple(sorted((*fleet.nodes, *added), key=lambda node: node.name)),
        fabrics=tuple(fabrics[name] for name in sorted(fabrics)),
        domains=tuple(domains[name] for name in sorted(domains)),
    )


def detached(fleet: FleetSnapshot, name: str) -> FleetSnapshot:
    """The fleet's fabrics and domains without a node; a domain without members is gone, a fabric is still declared."""
    fabrics = tuple(
        replace(one, members=tuple(member for member in one.members if member.node != name)) for one in fleet.fabrics
    )
    domains = tuple(
        replace(one, members=tuple(member for member in one.members if member.node != name)) for one in fleet.domains
    )
    return replace(fleet, fabrics=fabrics, domains=tuple(one for one in domains if one.members))


def _new_fabric(name: str, first: FabricMember) -> Fabric:
    kind = first.ports[0].kind or "infiniband"
    return Fabric(name, kind, declared=True, rails="joined", verdict=Verdict.CONFIRMED, members=())


def _sorted(members: Iterable[FabricMember]) -> tuple[FabricMember, ...]:
    return tuple(sorted(members, key=lambda member: member.node))

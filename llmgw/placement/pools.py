# SPDX-License-Identifier: Apache-2.0
"""Which nodes may serve one replica together: the ready members of an NVLink domain, else nodes whose adapters are in
one confirmed fabric (P5, D7, D9). Fabrics are not connected to one another, and unknown is neither.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from llmgw.model.fabric import FabricPort, Verdict
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, Node


class PoolKind(enum.IntEnum):
    """What joins the nodes of a pool; a lower number is preferred (P5)."""

    DOMAIN = 0
    FABRIC = 1


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that reach each other, sorted. `rails`: which of a fabric's unconnected rails all of them are on."""

    kind: PoolKind
    name: str
    nodes: tuple[NodeName, ...]
    rails: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{'NVLink domain' if self.kind is PoolKind.DOMAIN else 'fabric'} {self.name}"


def pools_of(fleet: FleetSnapshot) -> tuple[Pool, ...]:
    """Every pool of at least two nodes, domains first, then by name."""
    found = [Pool(PoolKind.DOMAIN, one.name, tuple(sorted(one.ready))) for one in fleet.domains]
    found += _fabric_pools(fleet.nodes)
    return tuple(
        sorted((one for one in found if len(one.nodes) > 1), key=lambda one: (one.kind, one.name, sorted(one.rails)))
    )


def _fabric_pools(nodes: Iterable[Node]) -> Iterator[Pool]:
    """Nodes by fabric and rails: members that are on other rails of an unjoined fabric reach only some adapters."""
    members: dict[tuple[str, frozenset[int]], list[NodeName]] = {}
    for node in nodes:
        for fabric in sorted({port.fabric for port in node.ports or () if port.fabric is not None}):
            ports = confirmed_ports(node, fabric)
            if ports:
                rails = frozenset(port.rail for port in ports if port.rail is not None)
                members.setdefault((fabric, rails), []).append(node.name)
    for (fabric, rails), names in members.items():
        yield Pool(PoolKind.FABRIC, fabric, tuple(sorted(names)), rails)


def confirmed_ports(node: Node, fabric: str) -> tuple[FabricPort, ...]:
    """The node's ports of which evidence shows that they are in the fabric, by name."""
    ports = [port for port in node.ports or () if port.fabric == fabric and port.verdict is Verdict.CONFIRMED]
    return tuple(sorted(ports, key=lambda port: (port.device, port.port)))


def common_fabric(nodes: Iterable[Node]) -> str | None:
    """The first fabric by name in which all the nodes have a confirmed port; None when there is none."""
    shared: set[str] | None = None
    for node in nodes:
        here = {port.fabric for port in node.ports or () if port.fabric and port.verdict is Verdict.CONFIRMED}
        shared = here if shared is None else shared & here
    return min(shared) if shared else None


def why_alone(node: Node) -> str:
    """Why a node is in no pool, as a clause about it."""
    if node.domain is not None and not node.domain.ready:
        return f"is kept out of NVLink domain {node.domain.domain}: {'; '.join(node.domain.kept_out) or 'not ready'}"
    if node.ports is None:
        return "has adapters that are unknown"
    doubtful = [port for port in node.ports if port.verdict not in (Verdict.CONFIRMED, Verdict.EXCLUDED)]
    if doubtful:
        port = doubtful[0]
        evidence = f" ({port.evidence[0]})" if port.evidence else ""
        return f"has no confirmed port: {port.name} is {port.verdict.value}{evidence}"
    if any(port.verdict is Verdict.CONFIRMED for port in node.ports):
        return "has nobody else in its fabric"
    return "is in no ready NVLink domain and has no working InfiniBand or RoCE port"

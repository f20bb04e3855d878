# SPDX-License-Identifier: Apache-2.0
"""What joins nodes, as it was judged: fabrics of InfiniBand or RoCE ports (D9) and NVLink domains (D7)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from llmgw.model.ids import NodeName


class Verdict(enum.Enum):
    """What evidence says of a port's place in a fabric (D9)."""

    CONFIRMED = "confirmed"
    """Declared, and shown to be in one subnet with the others."""
    UNVERIFIED = "unverified"
    """Declared; nothing proves it and nothing speaks against it."""
    CONTRADICTED = "contradicted"
    """Declared, and something shows that it is wrong."""
    UNDECLARED = "undeclared"
    """It works, and no declaration names it."""
    EXCLUDED = "excluded"
    """Nothing that an engine may use: not active, a virtual function, a switch's management port (D8)."""


@dataclass(frozen=True, slots=True)
class FabricPort:
    """One port of a node's adapters and its place. `fabric` None: in no fabric that has a name."""

    node: NodeName
    device: str
    port: int
    verdict: Verdict
    fabric: str | None = None
    kind: str | None = None
    """`infiniband` or `roce`; None when the port does not tell."""
    evidence: tuple[str, ...] = ()
    """Sentences that say why the verdict is what it is; they name the other side."""
    rate_gbps: float | None = None
    pci_address: str | None = None
    rail: int | None = None
    """Which of a fabric's unconnected rails it is on; None when the rails are joined or it is not proved."""

    @property
    def name(self) -> str:
        """`mlx5_0:1`, as NCCL writes it."""
        return f"{self.device}:{self.port}"


@dataclass(frozen=True, slots=True)
class FabricMember:
    """A node's ports in one fabric; the verdict is that of the worst of them."""

    node: NodeName
    verdict: Verdict
    ports: tuple[FabricPort, ...]


@dataclass(frozen=True, slots=True)
class Fabric:
    """Ports that reach each other, or are declared to. Members sorted by node; the verdict is that of the worst."""

    name: str
    kind: str
    declared: bool
    rails: str
    """`joined`: every port reaches every other; `independent`: each rail is a subnet of its own."""
    verdict: Verdict
    members: tuple[FabricMember, ...]
    fingerprint: tuple[str, ...] = ()
    """Sorted GUIDs of its subnet managers; another set under the same name means that somebody changed cables."""
    notes: tuple[str, ...] = ()
    """What is odd about it as a whole."""


@dataclass(frozen=True, slots=True)
class DomainMember:
    """A node of an NVLink domain."""

    node: NodeName
    domain: str
    """Name of the domain."""
    cards: int
    joined: int
    """Cards whose fabric state is Completed, with success and not unhealthy."""
    degraded: int = 0
    """Joined cards with less than their full bandwidth."""
    imex_up: bool | None = None
    ready: bool = False
    """Every card is joined, and IMEX is up and lists every other ready member, which lists it (P5)."""
    kept_out: tuple[str, ...] = ()
    """Why it is not ready, in sentences; empty when it is."""


@dataclass(frozen=True, slots=True)
class NvlinkDomain:
    """Nodes whose cards share NVLink: one non-zero ClusterUUID and one CliqueId (D7)."""

    name: str
    """The first eight digits of the UUID, and the clique: `72abb1a8.2`."""
    cluster_uuid: str
    clique_id: int
    members: tuple[DomainMember, ...]

    @property
    def ready(self) -> tuple[NodeName, ...]:
        """The members that can hold a replica together."""
        return tuple(member.node for member in self.members if member.ready)

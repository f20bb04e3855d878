# SPDX-License-Identifier: Apache-2.0
"""Where replicas go, and why others cannot (P1, P11)."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.model.ids import DeviceId, NodeName, ProfileName, ReplicaId, ServiceName
from llmgw.model.replica import ProfileSpec, ServiceSpec


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a replica on one node. `devices` in the order the engine numbers them; empty on CPU."""

    rank: int
    node: NodeName
    devices: tuple[DeviceId, ...]
    port: int
    hcas: tuple[str, ...] = ()
    """Ports of the one fabric that the members share, as NCCL writes them (`mlx5_0:1`), the nearest first (P5)."""
    socket_interface: str | None = None
    """The interface that holds the node's address; None when that is unknown, or when nobody else must reach it."""
    numa_node: int | None = None
    """The one NUMA node of all its devices; None when they are on several, or when that is unknown (P4)."""
    domain: str | None = None
    """The NVLink domain that joins it with the other members (P5); None: they are joined otherwise, or it is alone."""
    fabric: str | None = None
    """The fabric whose ports `hcas` are; it joins the members where no domain does (P5)."""


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """One term of a placement's score: value in [0, 1], weight as data."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class Assignment:
    """A placed replica. `kept`: it runs there already and stays (P8)."""

    replica: ReplicaId
    service: ServiceSpec
    profile: ProfileSpec
    members: tuple[Member, ...]
    kept: bool = False
    score: tuple[ScoreTerm, ...] = ()
    partial: bool = False
    """Not all of its members are seen: it is left as it is."""
    preempts: tuple[ReplicaId, ...] = ()
    """Replicas of lower priority that gave way to it."""

    @property
    def leader(self) -> Member:
        """The member that answers HTTP: rank 0."""
        return self.members[0]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one profile of a service cannot go to one node: the constraint and by how much it failed.

    `constraint` is a stable name (see `llmgw.placement.feasibility`); `has` and `needs` are None where there is no
    amount.
    """

    service: ServiceName
    profile: ProfileName
    node: NodeName
    constraint: str
    message: str
    has: float | None = None
    needs: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A replica without a place, with a rejection for every node and profile."""

    replica: ReplicaId
    service: ServiceName
    rejections: tuple[Rejection, ...]
    held: str | None = None
    """Set when it is not placed on purpose: it may still run where we cannot see (P9)."""
    like: ReplicaId | None = None
    """Another replica of the service whose rejections are this one's too; `rejections` is then empty."""
    gave_way_to: ReplicaId | None = None
    """The replica of higher priority that took its place."""
    runs_on: tuple[NodeName, ...] = ()
    """Where it goes on running: it must leave and has no other place, and nobody needs its devices."""
    must_leave: str | None = None
    """Why it must leave from there."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Everything placed and everything not; both sorted by replica."""

    assignments: tuple[Assignment, ...]
    unplaced: tuple[Unplaced, ...] = ()

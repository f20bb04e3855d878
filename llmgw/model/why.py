# SPDX-License-Identifier: Apache-2.0
"""Why a replica is where it is, or nowhere, and what would change that (P11)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from llmgw.model.ids import NodeName, ProfileName, ReplicaId, ServiceName
from llmgw.model.placement import Member, ScoreTerm


class WhyState(enum.Enum):
    """How it stands with a replica."""

    PLACED = "placed"
    """It gets a place in this plan."""
    KEPT = "kept"
    """It runs and stays where it is."""
    DOWN = "down"
    """It keeps its place and does not run there now: apply starts it again."""
    UNPLACED = "unplaced"
    HELD = "held"
    """Nothing is done about it on purpose: it may run where nobody can see (P9)."""
    STOPS = "stops"
    """It runs and nobody wants it: apply stops it."""


class Cost(enum.Enum):
    """What a relaxation costs, the cheapest first."""

    SETTING = "setting"
    """A setting or a line of the catalog: nothing that runs is touched."""
    NODE_WORK = "node-work"
    """Somebody has to do something on a node; no replica is touched."""
    CHANGES = "changes"
    """What replicas are changes: a shorter context, other numbers of devices, no spread; those that run may restart."""
    TAKES = "takes"
    """Something that runs is moved or stopped."""
    PROMISE = "promise"
    """What is said of a node or asked for on purpose changes: where it is, how much it must have."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one constraint says of one node. `has` and `needs` are None where there is no amount."""

    constraint: str
    passes: bool
    message: str
    has: float | None = None
    needs: float | None = None
    unit: str | None = None
    known: bool = True
    """Whether that could be seen; what is unknown passes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a replica is or would be. `devices` as people name them: `3 (h200-141g)`."""

    profile: ProfileName
    members: tuple[Member, ...]
    devices: tuple[str, ...] = ()
    score: tuple[ScoreTerm, ...] = ()
    """Empty for one that is kept: nothing was compared."""
    total: float | None = None


@dataclass(frozen=True, slots=True)
class NodeWhy:
    """What one node says of a replica by one profile: every constraint that fails, or the score it would get."""

    node: NodeName
    profile: ProfileName
    failing: tuple[Check, ...] = ()
    score: tuple[ScoreTerm, ...] = ()
    total: float | None = None
    chosen: bool = False
    """It is the place that the replica has."""
    compared: str | None = None
    """Where it would fit: why the replica is not here, as a sentence."""
    checks: tuple[Check, ...] | None = None
    """Every constraint, passed or not; only for nodes that were asked for by name."""

    @property
    def fits(self) -> bool:
        """Whether the replica could be here, as everything stands."""
        return not self.failing


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: its kind, what to do in words, what it changes, and by how much the present falls short.

    `values`: the new values by their names in the catalog or the inventory; None where an entry goes, or where only its
    owner knows the value.
    """

    kind: str
    words: str
    values: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    has: float | None = None
    needs: float | None = None
    unit: str | None = None
    entry: str | None = None
    """The entry of the catalog that changes: `profiles.chat-h100`; None for what is done about nodes."""
    how: str | None = None
    """Where or by what it is done."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """What would make the replica fit, tried before it is told. All steps are needed, on any one of the nodes, or on
    all of them (`together`).
    """

    kind: str
    """The kinds of its steps, joined with `+`."""
    sentence: str
    cost: Cost
    nodes: tuple[NodeName, ...]
    profile: ProfileName
    steps: tuple[Step, ...]
    caution: str | None = None
    """What has to be thought of before."""
    together: bool = False


@dataclass(frozen=True, slots=True)
class ReplicaWhy:
    """How it stands with one replica, and why in a sentence."""

    replica: ReplicaId
    state: WhyState
    reason: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """The answer to `plan --why`. `nodes` and `relaxations` are about the replica `subject`: the one asked for, or of a
    whole service the first without a place, or the first.
    """

    service: ServiceName
    replica: ReplicaId | None
    """None when the whole service was asked for."""
    subject: ReplicaId | None
    """None when the service asks for no replica."""
    wanted: int
    """Replicas that the catalog asks for."""
    replicas: tuple[ReplicaWhy, ...]
    nodes: tuple[NodeWhy, ...] = ()
    """By profile in order of preference, then by node."""
    relaxations: tuple[Relaxation, ...] = ()
    """The cheapest first; only where the subject has no place."""
    first: tuple[str, ...] = ()
    """What has to be done before anything else is worth it, in sentences: facts to read, a catalog to mend."""
    hardware: bool = False
    """More nodes would give the subject a place: somewhere nothing but devices is lacking."""
    fresh: Place | None = None
    """Where a kept replica would go if it were placed now; None when its own place is the best, or the only one."""
    asked_nodes: tuple[NodeName, ...] | None = None
    """The nodes asked for; None: all."""

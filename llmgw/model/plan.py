# SPDX-License-Identifier: Apache-2.0
"""The typed difference between desired and observed, and the steps that close it (R1, R4)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from llmgw.model.advice import Advice, FreeDevices
from llmgw.model.ids import Digest, EndpointId, NodeName, ReplicaId, ServiceName, UnitName
from llmgw.model.placement import Member, Unplaced
from llmgw.model.route import RouteTable
from llmgw.model.unit import UnitFile

PLAN_FORMAT = 1


class ActionKind(enum.Enum):
    """What happens to one replica."""

    CREATE = "create"
    UPDATE = "update"
    """Restart in place: what the process is started with changes."""
    REWRITE = "rewrite"
    """The text changes, the process goes on."""
    START = "start"
    """Right on disk but not running, or running something else than its file."""
    MOVE = "move"
    STOP = "stop"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Action:
    """One replica's change, with the reasons in words. `nodes`: where its members will be (STOP: are). `devices`: their
    names as people know them, with the class; with the node too where there are several.
    """

    kind: ActionKind
    replica: ReplicaId
    service: ServiceName
    nodes: tuple[NodeName, ...]
    devices: tuple[str, ...] = ()
    profile: str | None = None
    from_nodes: tuple[NodeName, ...] = ()
    reasons: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    """Where each member will be: devices, what joins it with the others, ports (STOP: none)."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Weights that one node brings into its directory, which other nodes may share. `size_bytes` None: unknown."""

    node: NodeName
    hf_id: str
    revision: str | None
    directory: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class FetchWeights:
    """Bring these weights, all nodes at a time (D12). What is there already is not fetched again."""

    fetches: tuple[Fetch, ...]


@dataclass(frozen=True, slots=True)
class StartMembers:
    """Write these units, start what must (re)start, wait until ready; on failure put back what was there."""

    units: tuple[UnitFile, ...]


@dataclass(frozen=True, slots=True)
class StopMembers:
    """Stop and remove these units, by node."""

    units: tuple[tuple[NodeName, UnitName], ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Give every gateway these routes, then wait: until each gateway's own probes find the `ready` endpoints ready
    (else the
    step has failed), and until the `drain` endpoints have nothing in flight or their deadline has passed (G6b).
    """

    routes: RouteTable
    drain: tuple[EndpointId, ...] = ()
    drain_timeout_s: int = 0
    ready: tuple[EndpointId, ...] = ()


Step = FetchWeights | StartMembers | StopMembers | Publish


@dataclass(frozen=True, slots=True)
class Wave:
    """Steps that run one after another; a failure in one stops everything after it (R4)."""

    title: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Digests of all a plan was made from (R9): a saved plan is refused when one differs."""

    catalog: Digest
    inventory: Digest
    facts: dict[str, Digest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything an apply does, in order, and everything it cannot do.

    `expected_units`: text digests of every llmgw unit seen on each node; a node refuses when it differs (R9).
    `moves_lower_bound`: fewest moves any plan would need; None when not computed.
    """

    format_version: int
    generation: int
    actions: tuple[Action, ...]
    waves: tuple[Wave, ...]
    unplaced: tuple[Unplaced, ...] = ()
    untouched: dict[NodeName, str] = field(default_factory=dict)
    """Nodes that are left alone, and why (unreachable, unseen, outside the limit)."""
    frozen: str | None = None
    """Set when mass loss freezes every stop and move (P9)."""
    expected_units: dict[NodeName, dict[UnitName, str]] = field(default_factory=dict)
    moves: int = 0
    moves_lower_bound: int | None = None
    notes: tuple[str, ...] = ()
    """What is not as one would wish and is left so, in sentences."""
    advice: tuple[Advice, ...] = ()
    """Moves that would make room for what has no place; none of them is made."""
    free: tuple[FreeDevices, ...] = ()
    """What is free of every class once the plan is carried out."""
    inputs: PlanInputs | None = None

    @property
    def changes(self) -> bool:
        """Whether an apply would change anything."""
        return bool(self.waves)

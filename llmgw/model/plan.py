# SPDX-License-Identifier: Apache-2.0
"""The typed difference between desired and observed, and the steps that close it (R1, R4)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from llmgw.model.advice import Advice, FreeDevices
from llmgw.model.ids import DeviceId, Digest, EndpointId, NodeName, ReplicaId, ServiceName, UnitName
from llmgw.model.placement import Member, Unplaced
from llmgw.model.route import RouteTable
from llmgw.model.unit import UnitFile

PLAN_FORMAT = 2


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
    STAND_IN = "stand-in"
    """An extra replica that serves while others of its service are replaced, and goes when they are (max_surge)."""


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
class Quarantine:
    """One device that stays out until somebody clears it, whatever becomes of the finding: `code` and `message` are
    those of the finding.
    """

    node: NodeName
    device: DeviceId
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class MarkDevices:
    """Write these marks on their nodes; what is marked already stays as it is (P1b)."""

    devices: tuple[Quarantine, ...]


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
class Floor:
    """What must be ready, by every gateway's own probes, before the endpoints in `drain` may go: so many of those that
    stay in the routes of the service (R4).
    """

    service: ServiceName
    stay: tuple[EndpointId, ...]
    drain: tuple[EndpointId, ...]
    at_least: int


@dataclass(frozen=True, slots=True)
class Trial:
    """What canaries must do before the rollout goes on: of all gateways together, each of `endpoints` gives `answers`
    good ones within `timeout_s`, and no more than `max_errors` bad ones; else the step has failed.
    """

    endpoints: tuple[EndpointId, ...]
    answers: int
    max_errors: int
    timeout_s: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Give every gateway these routes, once none of `floors` is undercut by it, then wait: until each gateway's own
    probes find the `ready` endpoints ready, until the `drain` endpoints have nothing in flight or their deadline has
    passed (G6b), and until the canaries have passed their trials. Of floors, `ready` and trials each can fail the step.
    """

    routes: RouteTable
    drain: tuple[EndpointId, ...] = ()
    drain_timeout_s: int = 0
    ready: tuple[EndpointId, ...] = ()
    trials: tuple[Trial, ...] = ()
    floors: tuple[Floor, ...] = ()


Step = MarkDevices | FetchWeights | StartMembers | StopMembers | Publish


@dataclass(frozen=True, slots=True)
class Wave:
    """Steps that run one after another; a failure in one stops everything after it (R4).

    `undo`: by service what puts back what the wave touches of it, carried out for the services that failed. It may
    begin at any point of the wave: what is as it was before stays so.
    """

    title: str
    steps: tuple[Step, ...]
    undo: dict[ServiceName, tuple[Step, ...]] = field(default_factory=dict)


class Strategy(enum.Enum):
    """How the running replicas of a service are replaced (R4)."""

    SURGE = "surge"
    """Stand-ins serve meanwhile."""
    IN_PLACE = "in place"


@dataclass(frozen=True, slots=True)
class Rollout:
    """How a service is rolled out and why so. `at_once`: replicas replaced at a time; 0: it is refused, since nothing
    could be replaced without going below what must stay available, and `reason` says what is in the way.
    """

    service: ServiceName
    strategy: Strategy
    replaced: int
    at_once: int
    stand_ins: tuple[ReplicaId, ...] = ()
    canary: ReplicaId | None = None
    reason: str | None = None
    fix: str | None = None

    @property
    def refused(self) -> bool:
        """Whether nothing of it is done."""
        return self.at_once == 0


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing on a node that is not as it was last applied. `kind`: one of `edited`, `missing`, `extra`, `stopped`,
    `older`, `reload`, `disabled`, `foreign-device`, `foreign-engine`, `weights-gone`. `mended`: whether an apply puts
    it right.
    """

    kind: str
    node: NodeName
    subject: str
    """A unit, a device by its display name, a process, or a model."""
    message: str
    mended: bool
    replica: ReplicaId | None = None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """Digests of all a plan was made from (R9): a saved plan is refused when one differs. `facts`: by host, by part of
    its facts.
    """

    catalog: Digest
    inventory: Digest
    facts: dict[str, dict[str, Digest]] = field(default_factory=dict)


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
    rollouts: tuple[Rollout, ...] = ()
    """How each service is rolled out of which running replicas are replaced."""
    drift: tuple[Drift, ...] = ()
    """What is not as it was last applied, sorted by node, subject and kind (R2)."""

    @property
    def changes(self) -> bool:
        """Whether an apply would change anything."""
        return bool(self.waves)

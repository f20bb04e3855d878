# SPDX-License-Identifier: Apache-2.0
"""The fleet as the planner sees it: inventory hosts joined with the facts they reported."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from llmgw.model.fabric import DomainMember, Fabric, FabricPort, NvlinkDomain
from llmgw.model.ids import DeviceClass, DeviceId, NodeName
from llmgw.nodekit import contract

DEFAULT_STATE_DIR = {"system": "/var/lib/llmgw", "user": "~/.local/state/llmgw"}
"""By scope; `~` is the home of the user on the node."""


class NodeState(enum.Enum):
    """What is known of a node (P9). Only `LOST` lets its replicas move; `UNSEEN` never does."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    """Not reached now; the last facts are used and nothing on it is touched."""
    UNSEEN = "unseen"
    """No usable facts at all: what runs there is unknown."""
    FROZEN = "frozen"
    """Left alone in this run: outside its limit, or mass loss froze the fleet. What runs there counts, nothing
    changes.
    """
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Device:
    """One thing that can be placed on: a card, or a MIG instance. Memory is None when the driver does not tell."""

    uuid: DeviceId
    index: int
    """Card index; 1000 + 100 x card + instance for MIG (D5)."""
    display_name: str
    """`3`, or `3/mig1` (D5)."""
    device_class: DeviceClass
    memory_total_mib: int | None = None
    foreign_used_mib: int | None = None
    compute_capability: str | None = None
    numa_node: int | None = None
    nvlink_peers: tuple[DeviceId, ...] | None = None
    nic_paths: tuple[contract.NicPath, ...] | None = None
    fabric: contract.GpuFabric | None = None
    mig: bool = False
    blocked_by: tuple[contract.Finding, ...] = ()
    """Findings of severity `block` on this device: it takes nothing new and what runs on it moves (P1b)."""
    kept_away_by: tuple[contract.Finding, ...] = ()
    """Findings that only keep new replicas away, such as memory that somebody else's process holds (P7)."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Host variables that shape the units of a node; the defaults are those of the roles."""

    scope: str = "system"
    state_dir: str = DEFAULT_STATE_DIR["system"]
    engine_user: str | None = "llmgw"
    engine_commands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    model_dirs: tuple[str, ...] = ()
    socket_interface: str | None = None
    """The interface by which members on other nodes are reached; None: the one that has the node's address."""


@dataclass(frozen=True, slots=True)
class Node:
    """One inventory host of the group `fleet`, with the facts it last reported (None: never, or unreadable)."""

    name: NodeName
    address: str
    state: NodeState
    labels: dict[str, str] = field(default_factory=dict)
    cordoned: bool = False
    drained: bool = False
    facts: contract.NodeFacts | None = None
    facts_age_s: float | None = None
    """Since anything was read of it, if only a part."""
    oldest_age_s: float | None = None
    """Since the oldest was read of the parts whose facts are true for a time only, subnets apart (D18)."""
    forgotten: tuple[str, ...] = ()
    """The kinds of facts that it reported and that are too old to be believed (D18)."""
    stale: bool = False
    """Some of its facts are so old that a finding says so."""
    unreachable_since: float | None = None
    """When it was first tried in vain since it last answered; Unix seconds. None: it answered."""
    unreachable_last: float | None = None
    """When it was last tried in vain; Unix seconds."""
    devices: tuple[Device, ...] | None = None
    """None when the cards are unknown; an empty tuple when the node has none."""
    devices_old: bool = False
    """They were read so long ago that a device which is not among them may be there (D18)."""
    findings: tuple[contract.Finding, ...] = ()
    settings: NodeSettings = field(default_factory=NodeSettings)
    ports: tuple[FabricPort, ...] | None = None
    """Its InfiniBand and RoCE ports as they were judged (D9); None when they are unknown."""
    domain: DomainMember | None = None
    """Its place in an NVLink domain; None when it is in none, or when that is unknown (D7)."""


@dataclass(frozen=True, slots=True)
class GatewayHost:
    """One inventory host of the group `gateway` and what it holds (R11)."""

    name: NodeName
    state: NodeState
    bundle: contract.PublishedBundle | None = None
    facts: contract.GatewayFacts | None = None
    address: str | None = None
    """By which Ansible and nodes reach it."""


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """All nodes, sorted by name, and the gateway hosts. `taken_at` is Unix seconds."""

    nodes: tuple[Node, ...]
    gateways: tuple[GatewayHost, ...] = ()
    taken_at: float | None = None
    fabrics: tuple[Fabric, ...] = ()
    """Declared ones and those that were found, sorted by name."""
    domains: tuple[NvlinkDomain, ...] = ()

    def node(self, name: str) -> Node | None:
        """The node of that name, or None."""
        return next((node for node in self.nodes if node.name == name), None)

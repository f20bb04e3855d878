# SPDX-License-Identifier: Apache-2.0
"""The replicas that are seen on the nodes, and which of them must leave (P8, P1b, P9)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from llmgw.fleet.published import published, why_unseen
from llmgw.model.ids import NodeName, ReplicaId
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract

_WORKING = ("active", "activating", "reloading")
_NUMBER = re.compile("[0-9]{1,9}")
_TOLD = 3
"""Nodes of which the cause is told."""


@dataclass(frozen=True, slots=True)
class Part:
    """One member of a replica on its node, as its unit says."""

    node: Node
    unit: contract.ObservedUnit

    @property
    def rank(self) -> int:
        """Its place among the members; 0 leads."""
        return self.unit.rank or 0


@dataclass(frozen=True, slots=True)
class Instance:
    """One replica that is seen; `node` and `unit` are those of the first of its parts, which are sorted by rank."""

    replica: ReplicaId
    service: str
    number: int
    parts: tuple[Part, ...]

    @property
    def node(self) -> Node:
        """Where it is reached: the leader's node."""
        return self.parts[0].node

    @property
    def unit(self) -> contract.ObservedUnit:
        """The leader's unit."""
        return self.parts[0].unit

    @property
    def led(self) -> bool:
        """Whether its leader is seen: without one nothing is reached."""
        return not self.parts[0].rank

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The nodes of its members, by rank."""
        return tuple(part.node.name for part in self.parts)

    @property
    def working(self) -> bool:
        """Whether systemd runs all that is seen of it, or is starting it."""
        return all(part.unit.active_state in _WORKING for part in self.parts)

    @property
    def members(self) -> int:
        """Of how many members it says that it is one."""
        return max(part.unit.members or 1 for part in self.parts)

    @property
    def missing(self) -> int | None:
        """The first rank that is not seen anywhere; None when all are."""
        seen = {part.rank for part in self.parts}
        first = next(rank for rank in range(len(seen) + 1) if rank not in seen)
        return first if first < self.members else None

    @property
    def settled(self) -> bool:
        """Whether every node it is on answers and may be changed."""
        return all(part.node.state is NodeState.OK for part in self.parts)


def instances_of(fleet: FleetSnapshot) -> tuple[Instance, ...]:
    """Every replica of every node with facts, sorted by replica and node. Units that name no replica are not listed.

    Two units of one rank of a replica are two instances, and so are units of different numbers of members: a node that
    was away brings old ones back.
    """
    seen: dict[str, list[Part]] = {}
    for node in fleet.nodes:
        for part in _parts(node):
            seen.setdefault(part.unit.replica or "", []).append(part)
    found = [instance for replica, parts in seen.items() for instance in _instances(ReplicaId(replica), parts)]
    return tuple(sorted(found, key=lambda instance: (instance.service, instance.number, instance.node.name)))


def _parts(node: Node) -> Iterator[Part]:
    for unit in (node.facts.units or ()) if node.facts else ():
        service, _, number = (unit.replica or "").rpartition("/")
        if service and _NUMBER.fullmatch(number):
            yield Part(node, unit)


def _instances(replica: ReplicaId, parts: Iterable[Part]) -> Iterator[Instance]:
    service, _, number = replica.rpartition("/")
    parts = tuple(parts)
    if len(parts) == 1:
        yield Instance(replica, service, int(number), parts)
        return
    by_rank: dict[tuple[int | None, int], list[Part]] = {}
    for part in sorted(parts, key=_newest_first):
        by_rank.setdefault((part.unit.members, part.rank), []).append(part)
    for members in sorted({key[0] for key in by_rank}, key=str):
        found = [ones for key, ones in sorted(by_rank.items(), key=str) if key[0] == members]
        for copy in range(max(map(len, found))):
            seen = sorted((ones[copy] for ones in found if copy < len(ones)), key=lambda part: part.rank)
            yield Instance(replica, service, int(number), tuple(seen))


def _newest_first(part: Part) -> tuple[bool, int, NodeName]:
    generation = part.unit.generation
    return generation is None, -(generation or 0), part.node.name


def eviction(instance: Instance, *, hidden: bool = False) -> str | None:
    """Why an instance must leave its nodes, or None. Only what P1b calls evicting counts here, and nothing on a node
    that is left alone in this run. `hidden`: members that are not seen may be where nothing can be seen.
    """
    if any(part.node.state is NodeState.FROZEN for part in instance.parts):
        return None
    for part in instance.parts:
        reason = _of_part(part)
        if reason is not None:
            return reason
    if instance.missing is not None and not hidden:
        return f"member {instance.missing} of {instance.replica} is gone"
    return None


def _of_part(part: Part) -> str | None:
    node = part.node
    if node.state is NodeState.LOST:
        return f"{node.name} is lost"
    if node.drained:
        return f"{node.name} is drained"
    known = {str(device.uuid): device for device in node.devices or ()} if part.unit.devices else {}
    for uuid in part.unit.devices:
        device = known.get(uuid)
        if device is None and node.devices is not None and not node.devices_old:
            return f"device {uuid} is gone from {node.name}"
        if device is not None and device.blocked_by:
            return f"device {device.display_name} of {node.name}: {device.blocked_by[0].message}"
    return None


def preference(instance: Instance) -> tuple[bool, bool, int, bool, str]:
    """Sort key: instances that should stay come first. Working before dead, the newer generation before the older (a
    node that was away brings old ones back), uncordoned before cordoned; the name decides the rest.
    """
    generation = instance.unit.generation
    return (
        not instance.working,
        generation is None,
        -(generation or 0),
        any(part.node.cordoned for part in instance.parts),
        instance.node.name,
    )


def hidden_replicas(fleet: FleetSnapshot) -> tuple[NodeName, ...]:
    """Nodes that may run replicas we cannot see (P9): their facts are unreadable, or llmgw was there before and their
    units are, or gateways serve what is there.
    """
    served = published(fleet).nodes
    hide = (node for node in fleet.nodes if node.state is not NodeState.LOST and (node.name in served or _hides(node)))
    return tuple(sorted(node.name for node in hide))


def hidden_because(fleet: FleetSnapshot, hidden: Collection[NodeName]) -> str | None:
    """Why nothing new is started while these nodes may run it, as a sentence with what mends that; None for none."""
    if not hidden:
        return None
    found = [node for node in fleet.nodes if node.name in hidden]
    causes = [(node.name, cause) for node in found if (cause := why_unseen(node)) is not None]
    mend, said = "run `llmgw facts refresh`", ""
    if causes:
        first = causes[0][0]
        there = any(node.name == first and node.facts is not None for node in found)
        mend = f"mend that there (`llmgw nodes {first}` tells more) and apply again" if there else mend
        told = causes[:_TOLD]
        said = f": {told[0][1]}" if len(found) == 1 else f": {'; '.join(f'{name}: {cause}' for name, cause in told)}"
        said += f"; and {len(causes) - _TOLD} more" if len(causes) > _TOLD else ""
    gone = "the node is gone" if len(found) == 1 else "a node is gone"
    names = ", ".join(node.name for node in found)
    return f"it may run on {names}, whose units cannot be seen{said}; {mend}, or set llmgw_lost: true if {gone}"


def _hides(node: Node) -> bool:
    if node.facts is None:
        return any(finding.code == "facts-unreadable" for finding in node.findings)
    return node.facts.units is None and node.facts.generation is not None

# SPDX-License-Identifier: Apache-2.0
"""The replicas that are seen on the nodes, and which of them stay (P8, P1b, P9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.model.ids import NodeName, ReplicaId
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract

_WORKING = ("active", "activating", "reloading")
_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Instance:
    """One replica on one node, as its unit says."""

    replica: ReplicaId
    service: str
    number: int
    node: Node
    unit: contract.ObservedUnit

    @property
    def working(self) -> bool:
        """Whether systemd runs it or is starting it."""
        return self.unit.active_state in _WORKING


def instances_of(fleet: FleetSnapshot) -> tuple[Instance, ...]:
    """Every leader unit of every node with facts, sorted by replica and node. Units that name no replica are not
    listed.
    """
    found = [instance for node in fleet.nodes for instance in _of_node(node)]
    return tuple(sorted(found, key=lambda instance: (instance.service, instance.number, instance.node.name)))


def _of_node(node: Node) -> Iterable[Instance]:
    for unit in (node.facts.units or ()) if node.facts else ():
        service, _, number = (unit.replica or "").rpartition("/")
        if service and _NUMBER.fullmatch(number) and unit.rank in (0, None):
            yield Instance(ReplicaId(unit.replica or ""), service, int(number), node, unit)


def eviction(instance: Instance) -> str | None:
    """Why an instance must leave its node, or None. Only what P1b calls evicting counts here."""
    if instance.node.state is NodeState.LOST:
        return f"{instance.node.name} is lost"
    if instance.node.drained:
        return f"{instance.node.name} is drained"
    known = {device.uuid: device for device in instance.node.devices or ()}
    for uuid in instance.unit.devices:
        device = next((device for name, device in known.items() if name == uuid), None)
        if device is None and instance.node.devices is not None and not instance.node.devices_old:
            return f"device {uuid} is gone from {instance.node.name}"
        if device is not None and device.blocked_by:
            return f"device {device.display_name} of {instance.node.name}: {device.blocked_by[0].message}"
    return None


def preference(instance: Instance) -> tuple[bool, bool, int, bool, str]:
    """Sort key: instances that should stay come first. Working before dead, the newer generation before the older (a
    node that
    was away brings old ones back), uncordoned before cordoned; the name decides the rest.
    """
    generation = instance.unit.generation
    return (
        not instance.working,
        generation is None,
        -(generation or 0),
        instance.node.cordoned,
        instance.node.name,
    )


def hidden_replicas(fleet: FleetSnapshot) -> tuple[NodeName, ...]:
    """Nodes that may run replicas we cannot see (P9): their facts are unreadable, or llmgw was there before and their
    units are.
    """
    return tuple(node.name for node in fleet.nodes if node.state is not NodeState.LOST and _hides(node))


def _hides(node: Node) -> bool:
    if node.facts is None:
        return any(finding.code == "facts-unreadable" for finding in node.findings)
    return node.facts.units is None and node.facts.generation is not None

# SPDX-License-Identifier: Apache-2.0
"""How many devices there are, by class, and what is left of them (V1). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.model.ids import DeviceClass
from llmgw.model.node import Device, Node, NodeState
from llmgw.nodekit import contract


@dataclass(frozen=True, slots=True)
class Usage:
    """A count of devices. `held` and `free` are what is known: there may be more where a node's units are unknown."""

    total: int = 0
    held: int = 0
    free: int = 0
    """Nothing holds them, and something new may come there."""
    out: int = 0
    """Nothing is known to hold them and nothing new may come: broken, foreign memory, or the node takes nothing."""
    maybe_held: int = 0
    """Devices of nodes whose units are unknown: something may hold them."""
    maybe_free: int = 0
    """Those of them that something new may come to if nothing does."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.total + other.total,
            self.held + other.held,
            self.free + other.free,
            self.out + other.out,
            self.maybe_held + other.maybe_held,
            self.maybe_free + other.maybe_free,
        )


def usage_of(node: Node) -> Usage:
    """All devices of a node together."""
    return sum(by_class([node]).values(), Usage())


def by_class(nodes: Iterable[Node]) -> dict[DeviceClass, Usage]:
    """Devices by class, sorted by class; MIG instances count as theirs. Nodes without known devices add nothing."""
    found: dict[DeviceClass, Usage] = {}
    for node in nodes:
        held = _held(node)
        for device in node.devices or ():
            found[device.device_class] = found.get(device.device_class, Usage()) + _one(node, device, held)
    return dict(sorted(found.items()))


def holders(facts: contract.NodeFacts) -> dict[str, str]:
    """UUID of a device to the replica that holds it, or to the unit when that is of no replica."""
    return {uuid: unit.replica or unit.name for unit in facts.units or () for uuid in unit.devices}


def is_blind(node: Node) -> bool:
    """Whether a node has devices of which nobody knows what holds them."""
    return bool(node.devices) and _held(node) is None


def _one(node: Node, device: Device, held: frozenset[str] | None) -> Usage:
    if held is not None and device.uuid in held:
        return Usage(1, held=1)
    unknown = int(held is None)
    if device.blocked_by or device.kept_away_by or not _open(node):
        return Usage(1, out=1, maybe_held=unknown)
    return Usage(1, free=1 - unknown, maybe_held=unknown, maybe_free=unknown)


def _held(node: Node) -> frozenset[str] | None:
    units = node.facts.units if node.facts else None
    return None if units is None else frozenset(uuid for unit in units for uuid in unit.devices)


def _open(node: Node) -> bool:
    return node.state is NodeState.OK and not node.cordoned and not node.drained

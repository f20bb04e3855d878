# SPDX-License-Identifier: Apache-2.0
"""How many devices there are, by class, and what is left of them (V1). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.model.ids import DeviceClass
from llmgw.model.node import Device, Node, NodeState


@dataclass(frozen=True, slots=True)
class Usage:
    """A count of devices. `held` and `free` are None when some node's units are not known."""

    total: int = 0
    held: int | None = 0
    free: int | None = 0
    """Nothing holds them, and something new may come there."""
    out: int = 0
    """Nothing holds them and nothing new may come: broken, foreign memory, or the node takes nothing."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.total + other.total,
            None if self.held is None or other.held is None else self.held + other.held,
            None if self.free is None or other.free is None else self.free + other.free,
            self.out + other.out,
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


def _one(node: Node, device: Device, held: frozenset[str] | None) -> Usage:
    if held is not None and device.uuid in held:
        return Usage(1, 1, 0, 0)
    if device.blocked_by or device.kept_away_by or not _open(node):
        return Usage(1, None if held is None else 0, 0, 1)
    return Usage(1, None, None, 0) if held is None else Usage(1, 0, 1, 0)


def _held(node: Node) -> frozenset[str] | None:
    units = node.facts.units if node.facts else None
    return None if units is None else frozenset(uuid for unit in units for uuid in unit.devices)


def _open(node: Node) -> bool:
    return node.state is NodeState.OK and not node.cordoned and not node.drained

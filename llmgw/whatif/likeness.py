# SPDX-License-Identifier: Apache-2.0
"""Which node of the fleet supposed nodes are copied from, and what all nodes like it have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.whatif.near import node_of
from llmgw.whatif.spec import CPU, NodesSpec


@dataclass(frozen=True, slots=True)
class Likeness:
    """`model`: the node to copy; None where the fleet has none with these devices. `like`: all that have them."""

    model: Node | None
    like: tuple[Node, ...]

    @property
    def labels(self) -> dict[str, str]:
        """Labels that all like nodes have with one value."""
        return dict(sorted(set.intersection(*(set(node.labels.items()) for node in self.like)))) if self.like else {}

    @property
    def fabrics(self) -> tuple[frozenset[str], ...]:
        """The different sets of fabrics that the like nodes are in, sorted."""
        return tuple(sorted({fabrics_of(node) for node in self.like}, key=sorted))


def likeness(fleet: FleetSnapshot, spec: NodesSpec, device_class: str) -> Likeness:
    """The like nodes, and the best to copy: one that answers, is in the fabric asked for and has fewest findings.

    Raises LlmgwError `unknown-host` and `what-if-like` for a node named by `like=` that is not there or has others.
    """
    like = tuple(node for node in fleet.nodes if _has(node, spec, device_class))
    if spec.like is not None:
        model = node_of(fleet, spec.like)
        if model not in like:
            has = "unknown devices" if model.devices is None else _devices(model)
            why = f"{model.name} has {has}: a node like it has not {spec.devices} x {device_class}"
            raise LlmgwError("what-if-like", why, fix="name a node with the devices that are supposed")
        return Likeness(model, (model,))
    return Likeness(min(like, key=lambda node: _worth(node, spec), default=None), like)


def fabrics_of(node: Node) -> frozenset[str]:
    """The fabrics that ports of the node are in."""
    return frozenset(port.fabric for port in node.ports or () if port.fabric is not None)


def _has(node: Node, spec: NodesSpec, device_class: str) -> bool:
    if node.facts is None or node.devices is None:
        return False
    if device_class == CPU:
        return not node.devices
    return len(node.devices) == spec.devices and all(one.device_class == device_class for one in node.devices)


def _worth(node: Node, spec: NodesSpec) -> tuple[bool, bool, bool, int, str]:
    facts = node.facts
    return (
        spec.fabric is not None and spec.fabric not in fabrics_of(node),
        node.state is not NodeState.OK,
        facts is None or facts.engines is None or facts.memory is None,
        sum(finding.severity == "block" for finding in node.findings),
        node.name,
    )


def _devices(node: Node) -> str:
    return _counted(device.device_class for device in node.devices or ()) or "no devices"


def _counted(classes: Iterable[str]) -> str:
    found = sorted(classes)
    return " and ".join(f"{found.count(name)} x {name}" for name in dict.fromkeys(found))

# SPDX-License-Identifier: Apache-2.0
"""Nodes added in thought: built like a node of the fleet where it has one with such devices, else of what is known."""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.fleet.devices import devices_of
from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, Node, NodeSettings, NodeState
from llmgw.model.replica import Catalog
from llmgw.whatif import machine
from llmgw.whatif.assumed import assumptions
from llmgw.whatif.classes import class_named
from llmgw.whatif.joins import Joins, attached, joined_node, joins_into
from llmgw.whatif.likeness import Likeness, likeness
from llmgw.whatif.said import Said
from llmgw.whatif.spec import CPU, NONE, NodesSpec

PREFIX = "new-"
"""Supposed nodes are `new-1`, `new-2` and so on."""


def with_nodes(
    catalog: Catalog, fleet: FleetSnapshot, spec: NodesSpec, real: FleetSnapshot | None = None
) -> tuple[FleetSnapshot, Said]:
    """The fleet with `spec.count` more nodes, and what was assumed of them. O(nodes of the result).

    They are built like nodes of `real`, where `fleet` has others in thought.

    They answer, are neither cordoned nor drained, run nothing and have no findings. Raises LlmgwError for a class or a
    like node that is not there (`unknown-class`, `ambiguous-class`, `unknown-host`, `what-if-like`).
    """
    real = real or fleet
    device_class = _class(catalog, real, spec)
    found = likeness(real, spec, device_class)
    joins = _joins(spec, found)
    names = list(_names(fleet, spec.count))
    kinds = {profile.engine for service in catalog.services for profile in service.profiles}
    engines = machine.engines_for(real, kinds)
    nodes = []
    for name in names:
        if found.model is not None and found.model.facts is not None:
            facts = machine.copied(name, spec, found.model.facts)
        else:
            facts = machine.made_up(name, spec, device_class, engines)
        node = Node(
            name=NodeName(name),
            address=name,
            state=NodeState.OK,
            labels=found.labels | spec.labels,
            facts=facts,
            devices=devices_of(facts),
            settings=_settings(fleet, found),
            ports=found.model.ports if found.model else None,
        )
        nodes.append(joined_node(node, joins, fleet))
    more = "1 more node" if spec.count == 1 else f"{spec.count} more nodes"
    words = kind_words(catalog, real, spec)
    called = {1: names[0], 2: " and ".join(names[:2])}.get(len(names), f"{names[0]} to {names[-1]}")
    each = " each" if spec.count > 1 and spec.devices else ""
    assumed = assumptions(real, spec, words, found, joins)
    return attached(fleet, nodes), Said(f"{more} with {words}{each}: {called}", assumed)


def kind_words(catalog: Catalog, fleet: FleetSnapshot, spec: NodesSpec) -> str:
    """What one of the nodes has: `8 x h200-141g`, or `no devices`. Raises LlmgwError as `with_nodes` does."""
    return f"{spec.devices} x {_class(catalog, fleet, spec)}" if spec.devices else "no devices"


def _class(catalog: Catalog, fleet: FleetSnapshot, spec: NodesSpec) -> str:
    return CPU if spec.device_class == CPU else class_named(spec.device_class, catalog, fleet)


def _joins(spec: NodesSpec, found: Likeness) -> Joins:
    domain = None if spec.domain == NONE else spec.domain
    if spec.fabric is None:
        return Joins(frozenset.intersection(*found.fabrics) if found.fabrics else frozenset(), domain=domain)
    if spec.fabric == NONE:
        return Joins(domain=domain)
    return joins_into(spec.fabric, found.model, domain)


def _settings(fleet: FleetSnapshot, found: Likeness) -> NodeSettings:
    if found.model is not None:
        return found.model.settings
    return fleet.nodes[0].settings if fleet.nodes else NodeSettings()


def _names(fleet: FleetSnapshot, count: int) -> Iterator[str]:
    """Names that no node has, in the order of their numbers."""
    taken = {node.name for node in fleet.nodes}
    before = sum(name.startswith(PREFIX) for name in taken)
    width = len(str(before + count))
    number = before
    for _one in range(count):
        number += 1
        while f"{PREFIX}{number:0{width}}" in taken:
            number += 1
        yield f"{PREFIX}{number:0{width}}"

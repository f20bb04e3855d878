# SPDX-License-Identifier: Apache-2.0
"""Nodes taken away, kept free or brought back in thought, and services made larger or smaller. Each is O(nodes)."""

from __future__ import annotations

from dataclasses import replace

from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.replica import Catalog
from llmgw.whatif.joins import detached
from llmgw.whatif.near import node_of, service_of
from llmgw.whatif.said import Said

MAX_REPLICAS = 10_000
"""As in a catalog."""


def without_node(fleet: FleetSnapshot, name: str) -> tuple[FleetSnapshot, Said]:
    """The fleet as if the inventory had no such node: what runs there is gone. Raises LlmgwError `unknown-host`."""
    node = node_of(fleet, name)
    rest = replace(detached(fleet, name), nodes=tuple(one for one in fleet.nodes if one.name != name))
    units = len(node.facts.units) if node.facts and node.facts.units is not None else None
    gone = (
        "what runs there, which is unknown, is gone"
        if units is None
        else "its 1 unit is gone"
        if units == 1
        else f"its {units} units are gone"
    )
    return rest, Said(f"without {name}", () if units == 0 else (gone,))


def lost(fleet: FleetSnapshot, name: str) -> tuple[FleetSnapshot, Said]:
    """The fleet with the node lost: its replicas move (P9), and it is in no fabric. Raises LlmgwError
    `unknown-host`.
    """
    node = replace(node_of(fleet, name), state=NodeState.LOST, ports=None, domain=None)
    return _changed(detached(fleet, name), node), Said(f"{name} is lost")


def drain(fleet: FleetSnapshot, name: str) -> tuple[FleetSnapshot, Said]:
    """The fleet with the node drained: it takes nothing new and what runs there moves. Raises LlmgwError
    `unknown-host`.
    """
    node = node_of(fleet, name)
    return _changed(fleet, replace(node, drained=True)), Said(f"{name} is drained", _already(there=node.drained))


def cordon(fleet: FleetSnapshot, name: str) -> tuple[FleetSnapshot, Said]:
    """The fleet with the node cordoned: it takes nothing new. Raises LlmgwError `unknown-host`."""
    node = node_of(fleet, name)
    return _changed(fleet, replace(node, cordoned=True)), Said(f"{name} is cordoned", _already(there=node.cordoned))


def uncordon(fleet: FleetSnapshot, name: str) -> tuple[FleetSnapshot, Said]:
    """The fleet with the node neither cordoned nor drained. Raises LlmgwError `unknown-host`."""
    node = node_of(fleet, name)
    there = not node.cordoned and not node.drained
    edited = _changed(fleet, replace(node, cordoned=False, drained=False))
    return edited, Said(f"{name} is neither cordoned nor drained", _already(there=there))


def scale(catalog: Catalog, name: str, replicas: int) -> tuple[Catalog, Said]:
    """The catalog with another number of replicas of a service, by its name or as clients call it.

    Raises LlmgwError `unknown-service`, or `what-if-scale` for a number that a catalog could not have.
    """
    service = service_of(catalog, name)
    if not 0 <= replicas <= MAX_REPLICAS:
        why = f"{replicas} is no number of replicas of {name}"
        raise LlmgwError("what-if-scale", why, fix=f"it is from 0 to {MAX_REPLICAS}")
    services = tuple(replace(one, replicas=replicas) if one is service else one for one in catalog.services)
    amount = f"{replicas} replica{'' if replicas == 1 else 's'}"
    said = Said(
        f"{service.name} with {amount} instead of {service.replicas}",
        () if name == service.name else (f"{name} is what clients call {service.name}",),
    )
    return replace(catalog, services=services), said


def _changed(fleet: FleetSnapshot, node: Node) -> FleetSnapshot:
    return replace(fleet, nodes=tuple(node if one.name == node.name else one for one in fleet.nodes))


def _already(*, there: bool) -> tuple[str, ...]:
    return ("it is so already",) if there else ()

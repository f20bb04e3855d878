# SPDX-License-Identifier: Apache-2.0
"""Edits of what placement is computed from: each is one thing that somebody can do, in words and as a change of data.

They are made by `relax` and tried by `trial`; nothing here decides whether one helps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from llmgw.model.ids import NodeName, ProfileName, ServiceName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.model.why import Cost, Step


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit. Its step's words name the nodes as `{nodes}`.

    `harshness` compares edits of one kind: the less, the nearer to what is asked for now. `fewer`: the service that
    gives up a replica, the one it would give up first.
    """

    step: Step
    cost: Cost
    harshness: float = 0.0
    group: str = ""
    """Edits of one kind that differ in this are told apart."""
    on_node: Callable[[Node], Node] | None = None
    on_profile: Callable[[ProfileSpec], ProfileSpec] | None = None
    on_service: Callable[[ServiceSpec], ServiceSpec] | None = None
    port_range: tuple[int, int] | None = None
    fewer: ServiceName | None = None
    caution: str | None = None

    @property
    def of_catalog(self) -> bool:
        """Whether it is made in the catalog."""
        return self.on_node is None

    @property
    def helps_one_node(self) -> bool:
        """Whether only one node has more to give afterwards, and others may want that too."""
        return self.on_node is not None or self.fewer is not None


def edited_node(node: Node, edits: Iterable[Edit]) -> Node:
    """The node after the edits."""
    for edit in edits:
        if edit.on_node is not None:
            node = edit.on_node(node)
    return node


def edited_service(service: ServiceSpec, profile: ProfileName, edits: Iterable[Edit]) -> ServiceSpec:
    """The service after the edits, of which those that are about a profile change the named one."""
    for edit in edits:
        if edit.on_service is not None:
            service = edit.on_service(service)
        if edit.on_profile is not None:
            change = edit.on_profile
            profiles = tuple(change(one) if one.name == profile else one for one in service.profiles)
            service = replace(service, profiles=profiles)
    return service


def edited_catalog(catalog: Catalog, service: ServiceName, profile: ProfileName, edits: Collection[Edit]) -> Catalog:
    """The catalog after the edits, made for that service and profile. What is changed of a profile is changed for every
    service that uses it.
    """
    fewer = {edit.fewer for edit in edits}
    services = []
    for one in catalog.services:
        mine = [edit for edit in edits if one.name == service or edit.on_service is None]
        changed = edited_service(one, profile, mine)
        services.append(replace(changed, replicas=changed.replicas - 1) if one.name in fewer else changed)
    port_range = next((edit.port_range for edit in edits if edit.port_range), catalog.fleet.port_range)
    return replace(catalog, services=tuple(services), fleet=replace(catalog.fleet, port_range=port_range))


def with_nodes(fleet: FleetSnapshot, nodes: Iterable[Node]) -> FleetSnapshot:
    """The fleet with these nodes in place of all others; what NVLink domains say of a node is what the node says."""
    nodes = tuple(nodes)
    own = {node.name: node.domain for node in nodes if node.domain is not None}
    domains = tuple(
        replace(one, members=tuple(own.get(member.node, member) for member in one.members)) for one in fleet.domains
    )
    return replace(fleet, nodes=nodes, domains=domains)


def edited_fleet(fleet: FleetSnapshot, edits: Mapping[NodeName, Collection[Edit]]) -> FleetSnapshot:
    """The fleet after what is done on each node."""
    return with_nodes(fleet, (edited_node(node, edits.get(node.name, ())) for node in fleet.nodes))

# SPDX-License-Identifier: Apache-2.0
"""What gateways serve on nodes whose units cannot be seen. Pure.

That nothing is known of a node's units does not mean that nothing runs there: what the newest bundle of any gateway
names there goes on being named. Whoever moved a replica away has published that too, so a newer bundle does not name
it there any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from llmgw.model.ids import NodeName
from llmgw.model.node import FleetSnapshot, GatewayHost, Node, NodeState
from llmgw.nodekit import contract

_PART = "units"
_NO_FACTS = ("facts-unreadable", "node-unreachable")


@dataclass(frozen=True, slots=True)
class Published:
    """What is served on nodes whose units cannot be seen, sorted. `generation`, `named`: of the bundle that says so,
    and all that it names; `untold`: those of these nodes to which a gateway may route without telling how.
    """

    endpoints: tuple[contract.PublishedEndpoint, ...] = ()
    generation: int | None = None
    named: frozenset[str] = frozenset()
    untold: tuple[NodeName, ...] = ()

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes on which something is served, or may be."""
        return frozenset(node_of(one.id) for one in self.endpoints) | frozenset(self.untold)


def published(fleet: FleetSnapshot) -> Published:
    """What the newest known bundle names on nodes that are not lost and whose units cannot be seen."""
    unseen = frozenset(str(node.name) for node in fleet.nodes if units_unseen(node))
    if not unseen:
        return Published()
    newest = max(_known(fleet.gateways), key=lambda one: (one.generation or 0, one.routes_digest or ""), default=None)
    endpoints = () if newest is None else newest.endpoints or ()
    named = tuple(sorted((one for one in endpoints if node_of(one.id) in unseen), key=lambda one: one.id))
    told = frozenset(one.id for one in named)
    untold: set[str] = set()
    for gateway in fleet.gateways:
        if gateway.state is NodeState.OK:
            untold.update(_untold(gateway, newest, unseen, told))
    every = frozenset(one.id for one in endpoints)
    return Published(named, newest.generation if newest else None, every, tuple(map(NodeName, sorted(untold))))


def units_unseen(node: Node) -> bool:
    """Whether the node may run what nobody can see: it is not lost, and its units are unknown."""
    return node.state is not NodeState.LOST and (node.facts is None or node.facts.units is None)


def why_unseen(node: Node) -> str | None:
    """What kept its units from being read, as its page tells it too; None when nothing tells."""
    if node.facts is None:
        return next((one.message for one in node.findings if one.code in _NO_FACTS), None)
    failed = (probe for probe in node.facts.probes if probe.name == _PART and not probe.ok)
    return next((probe.detail for probe in failed), None)


def node_of(endpoint: str) -> str:
    """The node in an endpoint's id."""
    return endpoint.rpartition("@")[2]


def _known(gateways: Iterable[GatewayHost]) -> Iterator[contract.PublishedBundle]:
    for gateway in gateways:
        if gateway.bundle is not None and gateway.bundle.endpoints is not None:
            yield gateway.bundle


def _untold(
    gateway: GatewayHost, newest: contract.PublishedBundle | None, unseen: frozenset[str], told: frozenset[str]
) -> frozenset[str]:
    """The nodes to which this gateway may route without telling how: by routes that it does not tell and that are not
    known to be older than those that are told. A host without a bundle, or that was never asked, routes to nothing.
    """
    facts, bundle = gateway.facts, gateway.bundle
    if bundle is not None and bundle.endpoints is not None:
        return frozenset()
    generation = None if facts is None else facts.generation
    if generation is None and bundle is not None:
        generation = bundle.generation
    if newest is not None and (generation is None or generation <= (newest.generation or 0)):
        return frozenset()
    if facts is not None and (facts.endpoints or facts.generation is not None):
        return frozenset(node_of(one.endpoint) for one in facts.endpoints if one.endpoint not in told) & unseen
    return frozenset() if bundle is None else unseen

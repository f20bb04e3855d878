# SPDX-License-Identifier: Apache-2.0
"""A small fleet that serves, of which some node's units cannot be seen, and what its gateways tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmgw.model.ids import NodeName
from llmgw.model.node import GatewayHost, Node, NodeState
from llmgw.nodekit import contract
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World

WANTED = catalog(service("chat", 2, (profile(secrets={"VLLM_API_KEY": "engine-key"}),)))
DETAIL = "ManagerError: `systemctl show` failed: Failed to connect to bus"


def without_units(one: Node) -> Node:
    assert one.facts is not None
    probe = contract.Probe("units", 0.1, ok=False, detail=DETAIL)
    return replace(one, facts=replace(one.facts, units=None, generation=1, probes=(probe,)))


def never_seen(one: Node) -> Node:
    return replace(one, state=NodeState.UNSEEN, facts=None, devices=None)


def away_and_never_seen(one: Node) -> Node:
    return replace(never_seen(one), state=NodeState.UNREACHABLE, unreachable_since=900.0, unreachable_last=900.0)


def lost(one: Node) -> Node:
    return replace(without_units(one), state=NodeState.LOST)


def blind(world: World, forget: Callable[[Node], Node] = without_units, name: str = "n1") -> World:
    nodes = tuple(forget(one) if one.name == name else one for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=nodes)
    return world


def serving() -> World:
    world = World(fleet(node("n1"), node("n2"), node("n3")))
    world.apply(WANTED)
    assert world.routed("chat") == ["chat/0@n1", "chat/1@n2"]
    return world


def bundle_of(world: World) -> contract.PublishedBundle:
    bundle = world.fleet.gateways[0].bundle
    assert bundle is not None
    return bundle


def gateways(world: World, *hosts: GatewayHost) -> World:
    world.fleet = replace(world.fleet, gateways=hosts)
    return world


def gateway(name: str, bundle: contract.PublishedBundle | None, **told: object) -> GatewayHost:
    facts = contract.GatewayFacts(reachable=True, bundle=bundle, **told)  # type: ignore[arg-type]
    return GatewayHost(NodeName(name), NodeState.OK, bundle, facts)

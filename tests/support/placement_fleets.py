# SPDX-License-Identifier: Apache-2.0
"""Fleets on which catalogs were applied, and what a later look at them shows: what moves, and what stays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from llmgw.decide import Decision, Options, decide
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.fabric import FabricPort, Verdict
from llmgw.model.ids import NodeName, ProfileName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.placement import Assignment, Placement, Rejection
from llmgw.model.plan import Action, ActionKind, StopMembers
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from tests.support.fabric_fleets import by_pci
from tests.support.fleets import profile, service
from tests.support.joined_machines import ADAPTERS, NOW, Machine, fleet_of
from tests.support.world import World

H100, GB200, A100, L40S = "h100-80g", "gb200-186g", "a100-80g", "l40s-45g"
RACK_A, RACK_B = "5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003", "9b31e7d0-22aa-4f6b-8a10-77c0d5e1b204"
SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)
EIGHT = tuple(range(8))
HALVES = ((0, 1, 2, 3), (4, 5, 6, 7))

Look = Callable[[contract.NodeFacts], contract.NodeFacts]


def cards_for(gpus: int, device_class: str = H100, *, name: str = "p", **more: Any) -> ProfileSpec:
    """A vLLM profile of so many cards a node, tensor parallel within a node and a stage for each node."""
    nodes = more.pop("nodes", 1)
    parallel = {"tensor_parallel": gpus, "pipeline_parallel": nodes} | more
    return profile(name, "vllm", (device_class,), gpus, nodes=nodes, **parallel)


def of(name: str, wanted: ProfileSpec, replicas: int = 1, **more: Any) -> ServiceSpec:
    """A service of one profile, which gets the service's name."""
    return service(name, replicas, (replace(wanted, name=ProfileName(name)),), **more)


class Site:
    """Machines that run what was applied. `fleet` is what they are now; `seen` is another look at them."""

    def __init__(self, *machines: Machine) -> None:
        self._hosts = tuple(map(_host, machines))
        self.world = World(fleet_of(*machines))

    @property
    def fleet(self) -> FleetSnapshot:
        """The fleet with what runs on it."""
        return self.world.fleet

    def apply(self, catalog: Catalog, options: Options | None = None) -> Decision:
        """Decide and carry out."""
        return self.world.apply(catalog, options)

    def seen(
        self,
        look: Look | None = None,
        *,
        on: str | None = None,
        later_s: float = 0.0,
        variables: Mapping[str, Any] | None = None,
    ) -> FleetSnapshot:
        """The fleet as it is judged after `later_s` seconds without new facts, with facts as `look` changes them and
        more host variables. `on`: of this node alone; None: of every node.
        """
        stored, hosts = {}, []
        for host in self._hosts:
            node, touched = self.fleet.node(host.name), on in (None, host.name)
            assert node is not None
            assert node.facts is not None
            stored[host.name] = Stored(look(node.facts) if look is not None and touched else node.facts)
            hosts.append(replace(host, variables={**host.variables, **(variables or {})}) if touched else host)
        gateway = Host("gw", node=False, gateway=True)
        judged = build_snapshot((*hosts, gateway), stored, View(NOW + later_s))
        return replace(judged, gateways=self.fleet.gateways)

    def plan(self, catalog: Catalog, fleet: FleetSnapshot | None = None, options: Options | None = None) -> Decision:
        """What would be done, with nothing carried out."""
        return decide(catalog, fleet or self.fleet, options)


def _host(one: Machine) -> Host:
    variables: dict[str, Any] = {"llmgw_labels": dict(one.labels), **one.variables}
    if one.fabric is not None:
        variables["llmgw_fabrics"] = {one.fabric: by_pci(ADAPTERS)}
    return Host(one.name, node=True, gateway=False, variables=variables)


def placed(catalog: Catalog, fleet: FleetSnapshot) -> Placement:
    """The placement alone."""
    return place(catalog, fleet).placement


def where(placement: Placement, name: str | None = None) -> dict[str, tuple[str, ...]]:
    """The nodes of every placed replica, or of those of one service."""
    return {one.replica: nodes_of(one) for one in placement.assignments if name in (None, one.service.name)}


def nodes_of(one: Assignment) -> tuple[str, ...]:
    """The nodes of a replica's members, by rank."""
    return tuple(str(member.node) for member in one.members)


def cards_of(one: Assignment) -> list[tuple[int, ...]]:
    """For every member the indexes of its cards, in the engine's order."""
    return [tuple(int(uuid.rpartition("-")[2]) for uuid in member.devices) for member in one.members]


def told(placement: Placement, node: str, number: int = 0) -> list[Rejection]:
    """Why the first replica without a place (or a later one) cannot be on a node."""
    return [one for one in placement.unplaced[number].rejections if one.node == node]


def sentences(placement: Placement, node: str) -> list[str]:
    """The same in words."""
    return [one.message for one in told(placement, node)]


def done(decision: Decision, replica: str) -> Action:
    """What a plan does with a replica."""
    (found,) = [action for action in decision.plan.actions if action.replica == replica]
    return found


def changed(decision: Decision) -> list[tuple[str, str]]:
    """Every action that is not to keep: what, and which replica."""
    return [(one.kind.value, one.replica) for one in decision.plan.actions if one.kind is not ActionKind.KEEP]


def removed(decision: Decision) -> list[tuple[str, str]]:
    """The units that a plan removes, each with its node."""
    steps = [step for wave in decision.plan.waves for step in wave.steps if isinstance(step, StopMembers)]
    return sorted((str(node), str(unit)) for step in steps for node, unit in step.units)


def port(
    node: str, index: int, fabric: str | None, verdict: Verdict = Verdict.CONFIRMED, rail: int | None = None
) -> FabricPort:
    """A port of an InfiniBand adapter, judged."""
    return FabricPort(NodeName(node), f"mlx5_{index}", 1, verdict, fabric, "infiniband", rail=rail)


def with_ports(fleet: FleetSnapshot, *ports: FabricPort) -> FleetSnapshot:
    """The fleet with these ports, and no others, on the nodes that they name."""

    def ported(node: Node) -> Node:
        own = tuple(one for one in ports if one.node == node.name)
        return replace(node, ports=own) if own else node

    return replace(fleet, nodes=tuple(map(ported, fleet.nodes)))


def with_cards(facts: contract.NodeFacts, edit: Callable[[contract.Gpu], contract.Gpu]) -> contract.NodeFacts:
    """Facts with every card edited."""
    return replace(facts, gpus=tuple(edit(gpu) for gpu in facts.gpus or ()))

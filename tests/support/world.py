# SPDX-License-Identifier: Apache-2.0
"""A world of hosts in memory that carries out plans as the modules do: what it holds afterwards is seen as facts again.

It stands in for hosts where thousands of plans are tried; the real modules on real hosts are tried in tests/systemd
and tests/fleet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import assert_never

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gateway_facts
from llmgw.decide import Decision, Options, decide
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import Fetch, FetchWeights, MarkDevices, Publish, Quarantine, StartMembers, Step, StopMembers
from llmgw.model.replica import Catalog
from llmgw.model.route import RouteTable
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract, unitchange, unitfile
from llmgw.routes.codec import routes_digest
from tests.support.fleets import with_facts


class World:
    """Hosts that run units. `watch` is called after every step with the world as it then is."""

    def __init__(self, fleet: FleetSnapshot, watch: Callable[[World], None] | None = None) -> None:
        self.fleet = fleet
        self.routes: RouteTable | None = None
        self.restarted: list[str] = []
        self._watch = watch

    def apply(self, catalog: Catalog, options: Options | None = None, *, steps: int | None = None) -> Decision:
        """Decide and carry out, no more than so many steps; returns the decision."""
        decision = decide(catalog, self.fleet, options)
        self.restarted = []
        every = [step for wave in decision.plan.waves for step in wave.steps]
        self.take_steps(every[:steps], decision.plan.generation)
        return decision

    def take_steps(self, steps: Iterable[Step], generation: int) -> None:
        """One step after another, as a plan of this generation."""
        for step in steps:
            self._carry_out(step, generation)
            if self._watch:
                self._watch(self)

    def _carry_out(self, step: Step, generation: int) -> None:
        match step:
            case Publish():
                self._publish(step, generation)
            case FetchWeights():
                for one in step.fetches:
                    self._fetch(one)
            case MarkDevices():
                for mark in step.devices:
                    self._mark(mark)
            case StartMembers():
                for unit in step.units:
                    self._start(unit, generation)
            case StopMembers():
                for node, name in step.units:
                    self._set(node, tuple(one for one in self.units(node) if one.name != name))
            case _:
                assert_never(step)

    def units(self, node: str) -> tuple[contract.ObservedUnit, ...]:
        """The units on a node."""
        found = self.fleet.node(node)
        return (found.facts.units or ()) if found and found.facts else ()

    def running(self, service: str) -> list[str]:
        """`replica@node` of every running unit of a service, routed or not."""
        return sorted(
            f"{unit.replica}@{node.name}"
            for node in self.fleet.nodes
            for unit in self.units(node.name)
            if (unit.replica or "").startswith(f"{service}/") and unitchange.is_running(unit)
        )

    def routed(self, service: str, *, open_only: bool = True) -> list[str]:
        """Ids of the endpoints that take requests of a service."""
        routes = self.routes.routes if self.routes else ()
        return [
            str(endpoint.id)
            for route in routes
            if route.service == service
            for endpoint in route.endpoints
            if not (open_only and endpoint.draining)
        ]

    def change(self, name: str, edit: Callable[[contract.ObservedUnit], contract.ObservedUnit]) -> None:
        """Change units of that name wherever they are, behind the planner's back."""
        for node in self.fleet.nodes:
            if any(unit.name == name for unit in self.units(node.name)):
                self._set(node.name, tuple(edit(unit) if unit.name == name else unit for unit in self.units(node.name)))

    def state(self, name: str, state: NodeState) -> None:
        """Give a node another state."""
        nodes = tuple(replace(one, state=state) if one.name == name else one for one in self.fleet.nodes)
        self.fleet = replace(self.fleet, nodes=nodes)

    def _fetch(self, fetch: Fetch) -> None:
        """The node sees what it fetched, at a commit that its revision names."""
        commit = "c" * 40
        folder = fetch.hf_id.replace("/", "--")
        path = f"{fetch.directory}/models--{folder}/snapshots/{commit}"
        brought = contract.Weights(
            fetch.hf_id,
            path,
            layout="hf-cache",
            revision=commit,
            refs=(fetch.revision or "main",),
            size_bytes=fetch.size_bytes,
            complete=True,
            format="safetensors",
        )
        nodes = tuple(
            with_facts(one, replace(one.facts, weights=(*(one.facts.weights or ()), brought)))
            if one.name == fetch.node and one.facts
            else one
            for one in self.fleet.nodes
        )
        self.fleet = replace(self.fleet, nodes=nodes)

    def _mark(self, mark: Quarantine) -> None:
        """The node tells of the mark from now on."""
        told = contract.QuarantinedDevice(mark.device, mark.code, mark.message)
        nodes = tuple(
            with_facts(one, replace(one.facts, quarantined=(*(one.facts.quarantined or ()), told)))
            if one.name == mark.node and one.facts
            else one
            for one in self.fleet.nodes
        )
        self.fleet = replace(self.fleet, nodes=nodes)

    def _start(self, unit: UnitFile, generation: int) -> None:
        before = next((one for one in self.units(unit.node) if one.name == unit.name), None)
        change = unitchange.change(before, unit.process_digest, unit.text_digest)
        if change in (unitchange.CREATED, unitchange.RESTARTED, unitchange.STARTED):
            self.restarted.append(unit.name)
        after = observe(unit, generation)
        self._set(unit.node, (*(one for one in self.units(unit.node) if one.name != unit.name), after))

    def _publish(self, step: Publish, generation: int) -> None:
        self.routes = step.routes
        digest = routes_digest(step.routes)
        bundle = contract.PublishedBundle("/bundle.json", generation, digest, endpoints=told_endpoints(step.routes))
        self.fleet = replace(self.fleet, gateways=tuple(replace(one, bundle=bundle) for one in self.fleet.gateways))

    def _set(self, name: str, units: tuple[contract.ObservedUnit, ...]) -> None:
        nodes = tuple(
            with_facts(one, replace(one.facts, units=units)) if one.name == name and one.facts else one
            for one in self.fleet.nodes
        )
        self.fleet = replace(self.fleet, nodes=nodes)


def told_endpoints(routes: RouteTable) -> tuple[contract.PublishedEndpoint, ...] | None:
    """What a gateway host tells of the bundle with these routes."""
    text = json.dumps({"routes": asdict(routes)})
    return gateway_facts.published_endpoints(json.loads(text))


def observe(unit: UnitFile, generation: int = 1) -> contract.ObservedUnit:
    """The unit as a node reports it once it runs."""
    header = unitfile.parse(unit.text)
    return contract.ObservedUnit(
        name=unit.name,
        replica=header.replica,
        rank=header.rank,
        members=header.members,
        profile=header.profile,
        model=header.model,
        engine=header.engine,
        served_name=header.served_name,
        address=header.address,
        port=header.port,
        devices=header.devices,
        memory_min_bytes=header.memory_min_bytes,
        active_state="active",
        sub_state="running",
        main_pid=100,
        process_digest=header.process_digest,
        running_digest=header.process_digest,
        text_digest=header.text_digest,
        actual_text_digest=unitfile.text_digest(unit.text),
        edited=False,
        generation=generation,
        text=unit.text,
    )

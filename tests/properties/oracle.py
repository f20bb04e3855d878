# SPDX-License-Identifier: Apache-2.0
"""The best that any placement of a small fleet could do, by CP-SAT: what the planner's answers are measured with.

It is given what runs and stays if nobody needs its place, and the spread's shares; all else it models by itself, from
facts and catalog, and by counts: devices of a class on a node are alike here, and replicas of a service are. Ports are
left out. Of all placements it finds one with the most replicas of the highest priority, then of the next, and so on;
among those one that takes the fewest running replicas from their places.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ortools.sat.python import cp_model

from llmgw.model.fabric import Verdict
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.placement.instances import Instance

Kept = tuple[ServiceSpec, Instance, ProfileSpec]
_SCALE = 1000
"""More than the replicas of any case: one of a priority outweighs all of the lower ones."""
_LIMIT = 20.0


@dataclass(frozen=True)
class Best:
    """Replicas placed, by priority, and the fewest running ones that lose their places for that many."""

    placed: Mapping[int, int]
    disturbed: int


def optimum(catalog: Catalog, fleet: FleetSnapshot, kept: Iterable[Kept], shares: Mapping[str, int]) -> Best:
    """The best placement. `kept`: what runs and may stay; `shares`: most replicas in a spread domain, by service."""
    return _Model(catalog, fleet, list(kept), shares).best()


@dataclass(frozen=True)
class _Choice:
    """Some replicas of a service by a profile, on devices of one class: `members` are counts by node."""

    service: ServiceSpec
    profile: ProfileSpec
    device_class: str | None
    replicas: cp_model.IntVar
    members: Mapping[str, cp_model.IntVar]


class _Model:
    """One fleet and catalog as a model."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot, kept: list[Kept], shares: Mapping[str, int]) -> None:
        self._model = cp_model.CpModel()
        self._nodes = {str(node.name): node for node in fleet.nodes}
        self._services = catalog.services
        self._shares = shares
        self._kept = [(one, self._model.new_bool_var(f"keep {one[1].replica}")) for one in kept]
        self._pools = list(_pools(fleet))
        self._choices = [choice for service in catalog.services for choice in self._choices_of(service)]

    def best(self) -> Best:
        """Solve it."""
        self._devices()
        self._memory()
        for service in self._services:
            self._enough(service)
            self._spread(service)
        self._stability()
        priorities = sorted({service.priority for service in self._services})
        placed = {priority: self._placed(priority) for priority in priorities}
        worth = {priority: _SCALE ** (at + 1) for at, priority in enumerate(priorities)}
        kept = sum(keep for _, keep in self._kept)
        self._model.maximize(sum(worth[one] * placed[one] for one in priorities) + kept)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        # Some of these models make the presolve of ortools 9.15 end the whole process; without it they are as quick.
        solver.parameters.cp_model_presolve = False
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = _LIMIT
        status = solver.solve(self._model)
        if status != cp_model.OPTIMAL:
            raise RuntimeError(f"CP-SAT found no optimum: {solver.status_name(status)}")
        stay = sum(solver.value(keep) for _, keep in self._kept)
        return Best({one: solver.value(placed[one]) for one in priorities}, len(self._kept) - stay)

    # --- what may be placed where --------------------------------------------------------------------------------

    def _choices_of(self, service: ServiceSpec) -> Iterator[_Choice]:
        for profile in service.profiles:
            able = [name for name, node in self._nodes.items() if _takes(node, profile)]
            for device_class in profile.devices or (None,):
                for pool in self._pools if profile.nodes > 1 else [frozenset(able)]:
                    names = [name for name in able if name in pool]
                    if len(names) >= profile.nodes:
                        yield self._choice(service, profile, device_class, names)

    def _choice(
        self, service: ServiceSpec, profile: ProfileSpec, device_class: str | None, names: Iterable[str]
    ) -> _Choice:
        """With at most one member of a replica on a node, counts of which none is above that of the replicas can
        always be dealt out to them.
        """
        replicas = self._model.new_int_var(0, service.replicas, f"{service.name} {profile.name} {device_class}")
        members = {name: self._model.new_int_var(0, service.replicas, f"{replicas.name} {name}") for name in names}
        self._model.add(sum(members.values()) == profile.nodes * replicas)
        if profile.nodes > 1:
            for count in members.values():
                self._model.add(count <= replicas)
        return _Choice(service, profile, device_class, replicas, members)

    # --- what a node gives ---------------------------------------------------------------------------------------

    def _devices(self) -> None:
        for name, node in self._nodes.items():
            there = Counter(device.device_class for device in node.devices or () if _works(node, device.uuid))
            for device_class, count in there.items():
                new = [
                    choice.profile.gpus * choice.members[name]
                    for choice in self._choices
                    if choice.device_class == device_class and name in choice.members
                ]
                old = [_held(one, name, device_class) * keep for (_, one, _), keep in self._kept]
                self._model.add(sum(new) + sum(old) <= count)
            for choice in self._choices:
                if choice.device_class is not None and choice.device_class not in there and name in choice.members:
                    self._model.add(choice.members[name] == 0)

    def _memory(self) -> None:
        for name, node in self._nodes.items():
            memory = node.facts.memory if node.facts else None
            if memory is None or memory.total_bytes is None:
                continue
            new = [
                (choice.profile.min_memory_bytes, choice.members[name])
                for choice in self._choices
                if name in choice.members and choice.profile.min_memory_bytes
            ]
            old = [
                (profile.min_memory_bytes, keep)
                for (_, one, profile), keep in self._kept
                for part in one.parts
                if part.node.name == name and profile.min_memory_bytes
            ]
            self._room(f"memory of {name}", new, old, memory.total_bytes)

    def _room(
        self,
        name: str,
        new: list[tuple[int, cp_model.IntVar]],
        old: list[tuple[int, cp_model.IntVar]],
        limit: int,
    ) -> None:
        """What is new has to fit beside what stays; what stays may be more than fits."""
        total = sum(amount * count for amount, count in new) + sum(amount * count for amount, count in old)
        if sum(amount for amount, _ in old) <= limit:
            self._model.add(total <= limit)
            return
        some = self._model.new_bool_var(f"more on {name}")
        self._model.add(sum(count for _, count in new) == 0).only_enforce_if(some.negated())
        self._model.add(total <= limit).only_enforce_if(some)

    # --- what a service wants ------------------------------------------------------------------------------------

    def _of(self, service: ServiceSpec) -> list[_Choice]:
        return [choice for choice in self._choices if choice.service.name == service.name]

    def _stays(self, service: ServiceSpec) -> list[tuple[Instance, cp_model.IntVar]]:
        return [(one, keep) for (wanted, one, _), keep in self._kept if wanted.name == service.name]

    def _count(self, service: ServiceSpec) -> cp_model.LinearExprT:
        return sum(choice.replicas for choice in self._of(service)) + sum(keep for _, keep in self._stays(service))

    def _enough(self, service: ServiceSpec) -> None:
        self._model.add(self._count(service) <= service.replicas)

    def _placed(self, priority: int) -> cp_model.LinearExprT:
        return sum(self._count(service) for service in self._services if service.priority == priority)

    def _spread(self, service: ServiceSpec) -> None:
        """A replica of several nodes counts on each of them: services that have some are spread over nodes alone."""
        if service.spread is None:
            return
        by_domain: dict[str | None, list[str]] = defaultdict(list)
        for name, node in self._nodes.items():
            by_domain[name if service.spread == "node" else node.labels.get(service.spread)].append(name)
        for domain, names in by_domain.items():
            new = [
                (1, choice.members[name]) for choice in self._of(service) for name in names if name in choice.members
            ]
            old = [(1, keep) for one, keep in self._stays(service) for part in one.parts if part.node.name in names]
            self._room(f"{service.name} in {domain}", new, old, 0 if domain is None else self._shares[service.name])

    # --- what runs -----------------------------------------------------------------------------------------------

    def _stability(self) -> None:
        """What runs keeps its place unless something new of a higher priority comes to its nodes, and for ever on nodes
        that nothing may be done to.
        """
        for (service, one, _), keep in self._kept:
            nodes = {str(part.node.name) for part in one.parts}
            if any(part.node.state is not NodeState.OK for part in one.parts):
                self._model.add(keep == 1)
                continue
            higher = [
                count
                for choice in self._choices
                if choice.service.priority > service.priority
                for name, count in choice.members.items()
                if name in nodes
            ]
            self._model.add(sum(higher) >= 1).only_enforce_if(keep.negated())


def _pools(fleet: FleetSnapshot) -> Iterator[frozenset[str]]:
    """Nodes that may serve together: ready members of one domain, or with a confirmed port in one fabric."""
    for domain in fleet.domains:
        yield frozenset(member.node for member in domain.members if member.ready)
    by_fabric: dict[str, set[str]] = defaultdict(set)
    for node in fleet.nodes:
        for port in node.ports or ():
            if port.fabric is not None and port.verdict is Verdict.CONFIRMED:
                by_fabric[port.fabric].add(node.name)
    yield from map(frozenset, by_fabric.values())


def _takes(node: Node, profile: ProfileSpec) -> bool:
    """Whether a node takes anything new of this profile."""
    if node.state is not NodeState.OK or node.cordoned or node.drained or node.facts is None:
        return False
    labels = all(node.labels.get(label) == value for label, value in profile.node_selector.items())
    return labels and any(engine.kind == profile.engine for engine in node.facts.engines or ())


def _works(node: Node, uuid: str) -> bool:
    return any(one.uuid == uuid and not one.blocked_by and not one.kept_away_by for one in node.devices or ())


def _held(one: Instance, name: str, device_class: str) -> int:
    """Devices of a class in order that a running replica has on a node: those out of order are in no count."""
    return sum(
        device.device_class == device_class and _works(part.node, device.uuid)
        for part in one.parts
        if part.node.name == name
        for device in part.node.devices or ()
        if device.uuid in part.unit.devices
    )

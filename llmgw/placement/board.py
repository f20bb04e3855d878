# SPDX-License-Identifier: Apache-2.0
"""Everything promised while one placement is computed, and the questions that the rest of placement asks of it.

Cost: nodes of one signature share the answers of constraints that only read facts; nodes of one shape in one state
share the choice of devices and its score. So asking for the best of N nodes is N dictionary lookups and a few real
evaluations.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from llmgw.capability.stored import stored_method
from llmgw.engines.members import ports_needed
from llmgw.model.ids import DeviceClass, NodeName, ReplicaId
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.placement import Assignment, Member, Rejection
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.placement import groups
from llmgw.placement.disks import Disks, Key, disk_bytes
from llmgw.placement.feasibility import (
    Ask,
    asked,
    chosen_class,
    disk_needs,
    failing,
    has_enough,
    has_free,
    is_large_enough,
    rejections,
)
from llmgw.placement.findable import free_mask
from llmgw.placement.instances import Instance, Part
from llmgw.placement.ledger import Ledger
from llmgw.placement.memory.device_memory import Appetite
from llmgw.placement.memory.model_facts import ModelFacts
from llmgw.placement.pools import pools_of
from llmgw.placement.port_rows import ports_held
from llmgw.placement.score import Spot, score, total
from llmgw.placement.shapes import Shapes
from llmgw.placement.tally import Tally, even_share
from llmgw.placement.topology import choose
from llmgw.placement.weights_index import WeightsIndex

MOST_TRIES = 4000
"""Rearrangements tried in one placement: what is full in every way must not cost more than planning does."""
NOWHERE: frozenset[NodeName] = frozenset()
_NOT_ASKED = -1.0
"""No score is negative."""


class Board:
    """All ledgers of one placement, and who is where. Mutable; `take` and `give_back` are each other's opposite."""

    def __init__(self, catalog: Catalog, fleet: FleetSnapshot) -> None:
        self.catalog = catalog
        self.fleet = fleet
        self._disks = Disks()
        ports = catalog.fleet.port_range
        nodes = sorted(fleet.nodes, key=lambda node: node.name)
        self.ledgers = {node.name: Ledger(node, ports, self._disks) for node in nodes}
        self.shapes = Shapes(catalog, self.ledgers.values())
        self.pools = pools_of(fleet)
        self.assigned: dict[ReplicaId, Assignment] = {}
        self.on_node: dict[NodeName, dict[ReplicaId, Assignment]] = {name: {} for name in self.ledgers}
        self.models = ModelFacts(catalog, fleet)
        self._weights = WeightsIndex(fleet)
        self._appetites: dict[str, Appetite] = {}
        self._tallies: dict[str, Tally] = {}
        self._asks: dict[tuple[str, str], Ask] = {}
        self._eligible: dict[str, dict[NodeName, Ledger]] = {}
        self.version = 0
        """Changes with every promise."""
        self.tries_left = MOST_TRIES
        """How much may still be tried to make room."""
        self._disk_was: dict[tuple[ReplicaId, NodeName, str], Key] = {}
        self._disk_of: dict[tuple[ReplicaId, NodeName], tuple[Key, str, int]] = {}
        ready = {member: one.ready for one in fleet.domains for member in one.ready if len(one.ready) > 1}
        self._states: dict[tuple[int, ...], int] = {}
        self._open: dict[str, dict[NodeName, int]] = {}
        for ledger in self.ledgers.values():
            self._changed(ledger, ledger.classes)
        self._neighbours = {
            name: tuple(self.ledgers[other] for other in others if other in self.ledgers)
            for name, others in ready.items()
            if name in self.ledgers
        }

    # --- questions ---------------------------------------------------------------------------------------------------

    def ask(self, service: ServiceSpec, profile: ProfileSpec) -> Ask:
        """What one replica of the service wants by one of its profiles."""
        ask = self._asks.get((service.name, profile.name))
        if ask is None:
            tally = self.tally(service)
            holders, disk = self._weights.holders(profile.model), disk_bytes(profile, self.models)
            constraints = asked(service, profile, disk)
            ask = Ask(
                service,
                profile,
                tally,
                holders,
                self._appetite(profile),
                disk,
                self._stored(profile),
                constraints,
            )
            self._asks[service.name, profile.name] = ask
        return ask

    def _stored(self, profile: ProfileSpec) -> str | None:
        tensors = self.models.known(profile.model).tensors
        architecture = tensors.architecture if tensors is not None else None
        if architecture is None:
            return None
        return stored_method(profile.engine, architecture.quantization, architecture.weight_bits)

    def _appetite(self, profile: ProfileSpec) -> Appetite:
        appetite = self._appetites.get(profile.name)
        if appetite is None:
            appetite = self._appetites[profile.name] = Appetite(profile, self.models.known(profile.model))
        return appetite

    def tally(self, service: ServiceSpec) -> Tally:
        """Where the replicas of a service are. Its share counts only spread domains that could take a replica."""
        tally = self._tallies.get(service.name)
        if tally is None:
            tally = self._tallies[service.name] = Tally(service)
            if service.spread is not None:
                able = {name for one in service.profiles for name in self.eligible(service, one)}
                tally.share = even_share(service, (self.ledgers[name].node for name in sorted(able)))
        return tally

    def eligible(self, service: ServiceSpec, profile: ProfileSpec) -> Mapping[NodeName, Ledger]:
        """The nodes that could take one member of a replica if nothing had been promised to others, sorted."""
        found = self._eligible.get(profile.name)
        if found is None:
            holders = self._weights.holders(profile.model)
            disk = disk_bytes(profile, self.models)
            ask = Ask(service, profile, Tally(service), holders, self._appetite(profile), disk, self._stored(profile))
            verdicts: dict[tuple[int, int], bool] = {}
            for ledger in self.ledgers.values():
                kind = ledger.signature, ledger.shape
                if kind not in verdicts:
                    verdicts[kind] = not failing(ask, ledger) and has_enough(ask, ledger)
            modest = profile.min_memory_bytes is None and disk is None
            found = {
                name: ledger
                for name, ledger in self.ledgers.items()
                if verdicts[ledger.signature, ledger.shape] and (modest or is_large_enough(ask, ledger))
            }
            self._eligible[profile.name] = found
        return found

    def with_room(self, ask: Ask) -> Iterator[Ledger]:
        """The eligible nodes with enough free devices of a class of the profile, in no order; on CPU all of them."""
        eligible = self.eligible(ask.service, ask.profile)
        if ask.profile.on_cpu:
            yield from eligible.values()
            return
        seen: set[NodeName] = set()
        for device_class in ask.profile.devices:
            for name, free in self._open.get(device_class, {}).items():
                if free >= ask.profile.gpus and name in eligible and name not in seen:
                    seen.add(name)
                    yield eligible[name]

    @staticmethod
    def takes(ask: Ask, ledger: Ledger) -> bool:
        """Whether an eligible node has all that a member needs now, devices apart."""
        for constraint in ask.constraints:  # noqa: SIM110 - asked for every node: a generator costs as much again
            if constraint(ask, ledger) is not None:
                return False
        return True

    def rank(self, ask: Ask, ledger: Ledger, device_class: DeviceClass | None = None) -> float | None:
        """The score that one more member would get on an eligible node; None when it does not fit there now.
        `device_class`: on devices of this class, not on the first that has enough.
        """
        if not self.takes(ask, ledger):
            return None
        name = ledger.node.name
        whole = self.domain_whole(name)
        key = (
            ledger.state,
            ledger.replicas.get(ask.service.name, 0),
            name in ask.holders,
            len(ask.tally.nodes) == 1 and name in ask.tally.nodes,
            whole,
            device_class,
        )
        known = ask.ranks.get(key, _NOT_ASKED)
        if known is _NOT_ASKED:
            spot = self.spot(ask, ledger, device_class)
            known = None if spot is None else total(score(ask, ledger, spot, domain_whole=whole))
            ask.ranks[key] = known
        return known

    def free_total(self) -> int:
        """How many devices are free in the whole fleet."""
        return sum(free for nodes in self._open.values() for free in nodes.values())

    def domain_whole(self, name: NodeName) -> bool | None:
        """Whether no ready member of a node's NVLink domain runs anything (P10); None: it is no such member."""
        neighbours = self._neighbours.get(name)
        return None if neighbours is None else all(ledger.is_whole() for ledger in neighbours)

    def neighbours(self, name: NodeName) -> tuple[Ledger, ...]:
        """The ready members of a node's NVLink domain; empty when it is in none."""
        return self._neighbours.get(name, ())

    def spot(
        self,
        ask: Ask,
        ledger: Ledger,
        device_class: DeviceClass | None = None,
        near: tuple[int, ...] | None = None,
    ) -> Spot | None:
        """The devices that one member would get on a node; None when too few of each class are free. `near`: steps of
        each device of the node to the adapters of the fabric that members share.
        """
        if ask.profile.on_cpu:
            return Spot()
        if device_class is None:
            device_class = chosen_class(ask, ledger)
        if device_class is None or not has_free(ask, ledger, device_class):
            return None
        links = self.shapes.links(ledger)
        free = free_mask(ask.profile, ledger, device_class)
        unused = free & ~ledger.vacating
        if unused.bit_count() >= ask.profile.gpus:
            free = unused
        tensor = min(ask.profile.tensor_parallel, ask.profile.gpus)
        return Spot(device_class, choose(links, free, ask.profile.gpus, tensor, near))

    def rejections(self, service: ServiceSpec, profile: ProfileSpec, node: Node) -> tuple[Rejection, ...]:
        """Every constraint that keeps one more replica off the node now; empty when it fits there."""
        ask = self.ask(service, profile)
        found = rejections(ask, self.ledgers[node.name])
        if profile.nodes > 1:
            found = (*found, *groups.rejections(self, ask, node, fits_alone=not found))
        return found

    def find(
        self,
        service: ServiceSpec,
        profile: ProfileSpec,
        replica: ReplicaId,
        *,
        outside: Container[NodeName] = NOWHERE,
        home: Container[NodeName] = NOWHERE,
    ) -> Assignment | None:
        """The best place for one more replica by this profile, nothing taken; None when there is none. `outside`: nodes
        that it may not use; `home`: nodes that it is tried on first (P8).
        """
        ask = self.ask(service, profile)
        if profile.nodes > 1:
            return groups.find(self, ask, replica, outside, home)
        best: tuple[bool, float, NodeName] | None = None
        for ledger in self.with_room(ask):
            rank = None if ledger.node.name in outside else self.rank(ask, ledger)
            if rank is not None:
                place = (ledger.node.name not in home, -rank, ledger.node.name)
                best = place if best is None or place < best else best
        return None if best is None else self.on(ask, replica, self.ledgers[best[2]])

    def has_place_for(self, assignment: Assignment) -> bool:
        """Whether a replica could be put exactly where an assignment says: its devices, memory and ports are free, and
        its spread holds. Ports of what runs are its own.
        """
        ask = self.ask(assignment.service, assignment.profile)
        for member in assignment.members:
            ledger = self.ledgers[member.node]
            ports = () if assignment.kept else _ports(assignment, member)
            if not ledger.has_free(member.devices, ports) or not self.takes(ask, ledger):
                return False
        return True

    def on(self, ask: Ask, replica: ReplicaId, ledger: Ledger) -> Assignment | None:
        """The assignment of a replica of one member to an eligible node; None when it does not fit there now."""
        if not self.takes(ask, ledger):
            return None
        spot, port = self.spot(ask, ledger), ledger.free_port(ports_needed(ask.profile))
        if spot is None or port is None:
            return None
        member = self.member(ledger, spot, port)
        terms = score(ask, ledger, spot, domain_whole=self.domain_whole(ledger.node.name))
        return Assignment(replica, ask.service, ask.profile, (member,), score=terms)

    def member(self, ledger: Ledger, spot: Spot, port: int, rank: int = 0) -> Member:
        """A member on a node's chosen devices."""
        known = ledger.node.devices or ()
        chosen = tuple(known[position] for position in spot.choice.positions) if spot.choice else ()
        uuids = tuple(device.uuid for device in chosen)
        return Member(rank, ledger.node.name, uuids, port, numa_node=self.numa_node(ledger, uuids))

    @staticmethod
    def numa_node(ledger: Ledger, devices: Iterable[str]) -> int | None:
        """The one NUMA node of devices of a node; None when they are on several, or when that is unknown."""
        wanted = set(devices)
        found = {device.numa_node for device in ledger.node.devices or () if device.uuid in wanted}
        return found.pop() if len(found) == 1 else None

    # --- promises ----------------------------------------------------------------------------------------------------

    def reserve(self, part: Part) -> None:
        """Let the ports of what runs be taken whatever is placed: it listens there while the plan is carried out."""
        if part.unit.port is not None:
            row = range(part.unit.port, part.unit.port + ports_held(part.unit, self.catalog))
            self.ledgers[part.node.name].reserve_ports(row)

    def vacate(self, instance: Instance, *, still: bool = True) -> None:
        """Note that an instance must leave, so that its devices are others' last choice; with `still` False, that it
        has got another place.
        """
        for part in instance.parts:
            ledger = self.ledgers[part.node.name]
            ledger.vacate(part.unit.devices, still=still)
            self._changed(ledger, ())

    def take(self, assignment: Assignment) -> None:
        """Promise a replica all that it needs."""
        profile, replica = assignment.profile, assignment.replica
        self.version += 1
        ask = self.ask(assignment.service, profile)
        for member in assignment.members:
            ledger = self.ledgers[member.node]
            if not assignment.kept and ask.disk_bytes and member.node not in ask.holders:
                # What was given back gets the same filesystem again, so that trying leaves no trace.
                before = self._disk_was.get((replica, member.node, profile.name))
                needs = disk_needs(ask.disk_bytes, ask, ledger)
                room = ledger.room(profile.model, at_first=None if before is None else (before, needs))
                if room is not None:
                    self._disk_was[replica, member.node, profile.name] = room.filesystem
                    self._disks.promise(room.filesystem, profile.model.name, needs)
                    self._disk_of[replica, member.node] = (room.filesystem, profile.model.name, needs)
            ledger.promise(assignment.service.name, profile, member.devices, _ports(assignment, member))
            self._changed(ledger, ledger.classes)
            self.on_node[member.node][replica] = assignment
        self.assigned[replica] = assignment
        self.tally(assignment.service).add(assignment, self._nodes_of(assignment))

    def give_back(self, assignment: Assignment) -> None:
        """Undo `take`. The port of what runs stays taken: it listens until it is stopped."""
        self.version += 1
        for member in assignment.members:
            ports = () if assignment.kept else _ports(assignment, member)
            ledger = self.ledgers[member.node]
            ledger.release(assignment.service.name, assignment.profile, member.devices, ports)
            self._changed(ledger, ledger.classes)
            promised = self._disk_of.pop((assignment.replica, member.node), None)
            if promised is not None:
                self._disks.release(*promised)
            del self.on_node[member.node][assignment.replica]
        del self.assigned[assignment.replica]
        self.tally(assignment.service).add(assignment, self._nodes_of(assignment), step=-1)

    def _changed(self, ledger: Ledger, classes: Iterable[str]) -> None:
        """Keep what is known of a node by its state: its number, and how many devices of these classes are free."""
        state = ledger.signature, ledger.shape, ledger.taken, ledger.vacating, ledger.total
        ledger.state = self._states.setdefault(state, len(self._states))
        for name in classes:
            free = len(ledger.free_devices(name))
            if free:
                self._open.setdefault(name, {})[ledger.node.name] = free
            else:
                self._open.get(name, {}).pop(ledger.node.name, None)

    def _nodes_of(self, assignment: Assignment) -> Iterable[Node]:
        return [self.ledgers[member.node].node for member in assignment.members]


def _ports(assignment: Assignment, member: Member) -> range:
    return range(member.port, member.port + ports_needed(assignment.profile))

# SPDX-License-Identifier: Apache-2.0
"""Fabrics: what is declared, proved or refuted by what the ports of the whole fleet say (D9, P1b). Pure.

A verdict keeps new multi-node replicas away at most; it moves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llmgw.fleet.fabric_cuts import contradictions, join_by_prefix
from llmgw.fleet.fabric_doubts import doubtful, other_managers, unmatched
from llmgw.fleet.fabric_evidence import PortEvidence, Subnets, evidence_of, why_joined
from llmgw.fleet.fabric_selection import chosen, kind_of, unusable
from llmgw.fleet.fabric_settings import INDEPENDENT, INFINIBAND, JOINED, ROCE, Declaration
from llmgw.fleet.unknown_ports import is_unknown
from llmgw.model.fabric import Fabric, FabricMember, FabricPort, Verdict
from llmgw.model.ids import NodeName
from llmgw.nodekit import contract

UNDECLARED = "no fabric of llmgw_fabrics has it"
_WORST_FIRST = (Verdict.CONTRADICTED, Verdict.UNDECLARED, Verdict.UNVERIFIED, Verdict.CONFIRMED)


@dataclass(frozen=True, slots=True)
class Judged:
    """Every port of every node that reports ports, and the fabrics that they make, sorted by name."""

    ports: dict[str, tuple[FabricPort, ...]]
    fabrics: tuple[Fabric, ...]
    apart: dict[str, dict[str, str]] = field(default_factory=dict)
    """Node to port to a clause, for unverified ports that have another subnet manager than others of their fabric."""


@dataclass(slots=True)
class _Group:
    """The ports declared to be in one fabric, while they are judged."""

    declaration: Declaration
    members: list[int] = field(default_factory=list)
    sides: dict[int, list[int]] = field(default_factory=dict)
    """Members that nothing speaks against, by the subnet that they are proved to be in."""
    sound: int = 0
    """How many members the sides have together."""
    main: int | None = None
    """The side that has more of them than any other."""

    def weigh(self) -> None:
        """Count the sides anew."""
        ranked = sorted(self.sides, key=lambda side: -len(self.sides[side]))
        weights = [len(self.sides[side]) for side in ranked]
        self.sound = sum(weights)
        self.main = ranked[0] if weights and weights[0] > max(weights[1:], default=0) else None


def judge(
    nodes: Mapping[str, tuple[contract.RdmaPort, ...] | None], declared: Mapping[str, tuple[Declaration, ...]]
) -> Judged:
    """The verdict on each port of the nodes (None: a node's ports are not known) and the fabrics that follow."""
    return _Judgement(nodes, declared).result()


class _Judgement:
    """One look at the whole fleet."""

    def __init__(
        self,
        nodes: Mapping[str, tuple[contract.RdmaPort, ...] | None],
        declared: Mapping[str, tuple[Declaration, ...]],
    ) -> None:
        self._declared = declared
        self._raw: list[contract.RdmaPort] = []
        self._ports: list[PortEvidence] = []
        self._judged: dict[str, list[FabricPort]] = {}
        for node in sorted(nodes):
            if nodes[node] is not None:
                self._judged[node] = []
                self._read(node, nodes[node] or ())
        subnets = Subnets(self._ports)
        join_by_prefix(self._ports, subnets)
        self._component = {index: subnets.component(index) for index in range(len(self._ports))}
        self._verdict: dict[int, tuple[Verdict, str | None, tuple[str, ...]]] = {}
        self._rail: dict[int, int] = {}
        self._apart: dict[int, str] = {}
        self._groups: dict[str, _Group] = {}

    def _read(self, node: str, ports: Iterable[contract.RdmaPort]) -> None:
        for port in sorted(ports, key=_by_name):
            reason = unusable(port)
            if reason is None:
                self._raw.append(port)
                self._ports.append(evidence_of(node, port))
            else:
                self._judged[node].append(_port(node, port, Verdict.EXCLUDED, evidence=(reason,)))

    def result(self) -> Judged:
        """All verdicts, and the fabrics."""
        self._choose()
        for group in self._groups.values():
            self._refute(group)
        for group in self._groups.values():
            self._misplaced(group)
        for group in self._groups.values():
            group.weigh()
            self._confirm(group)
        names = self._found_names()
        for index, evidence in enumerate(self._ports):
            verdict, fabric, sentences = self._verdict.get(index, (Verdict.UNDECLARED, names.get(index), ()))
            self._judged[evidence.node].append(
                _port(
                    evidence.node,
                    self._raw[index],
                    verdict,
                    fabric,
                    evidence=sentences or self._undeclared(index),
                    rail=self._rail.get(index),
                )
            )
        ports = {node: tuple(sorted(found, key=_by_name)) for node, found in self._judged.items()}
        apart: dict[str, dict[str, str]] = {}
        for index, clause in self._apart.items():
            apart.setdefault(self._ports[index].node, {})[_port_name(self._ports[index])] = clause
        return Judged(ports, self._fabrics(ports), apart)

    def _choose(self) -> None:
        """Which declared fabric each port is in; what the declaration itself says against it is told at once."""
        for index, port in enumerate(self._ports):
            declaration, against = chosen(port, self._declared.get(port.node, ()))
            if declaration is None:
                continue
            group = self._groups.setdefault(declaration.name, _Group(declaration))
            if against:
                self._verdict[index] = (Verdict.CONTRADICTED, declaration.name, against)
            else:
                group.members.append(index)

    def _refute(self, group: _Group) -> None:
        """Contradict the members that cannot be in one subnet, and sort the others by the subnet they are in."""
        found = self._against(group)
        for index in group.members:
            if index in found:
                self._verdict[index] = (Verdict.CONTRADICTED, group.declaration.name, found[index])
            else:
                group.sides.setdefault(self._component[index], []).append(index)
        group.weigh()

    def _against(self, group: _Group) -> dict[int, tuple[str, ...]]:
        if group.declaration.rails == JOINED:
            return contradictions(self._ports, group.members, self._component)
        # Unconnected rails may have all alike, LIDs too: only what is proved to be one rail can contradict itself.
        rails: dict[int, list[int]] = {}
        for index in group.members:
            rails.setdefault(self._component[index], []).append(index)
        found: dict[int, tuple[str, ...]] = {}
        for rail in rails.values():
            found.update(contradictions(self._ports, rail, self._component))
        return found

    def _misplaced(self, group: _Group) -> None:
        """Contradict the members that are proved to be where another fabric is and not where their own is."""
        name = group.declaration.name
        if group.declaration.rails == INDEPENDENT:
            return
        owners = {one.main: one for one in self._groups.values() if one is not group and one.main is not None}
        most = sorted(map(len, group.sides.values()))[-2:]
        for side in sorted(group.sides.keys() & owners.keys()):
            owner, members = owners[side], group.sides[side]
            elsewhere = most[0] if len(members) == most[-1] else most[-1]
            if len(most) == 1 or elsewhere < len(members):
                continue
            theirs = self._ports[owner.sides[side][0]]
            for index in members:
                sentence = f"{why_joined(self._ports[index], theirs)}; that one is declared {owner.declaration.name}"
                self._verdict[index] = (Verdict.CONTRADICTED, name, (sentence,))
            del group.sides[side]

    def _confirm(self, group: _Group) -> None:
        """Confirm what is proved, and say of the rest why it is not."""
        declaration = group.declaration
        if declaration.rails == INDEPENDENT:
            first = sorted(group.sides, key=lambda side: group.sides[side][0])
            proved = [side for side in first if len({self._ports[index].node for index in group.sides[side]}) > 1]
            self._rail |= {index: rail for rail, side in enumerate(proved) for index in group.sides[side]}
        told = other_managers(self._ports, group.sides) if declaration.rails == JOINED else {}
        for side, members in group.sides.items():
            for index in members:
                proof = self._proof(group, side, index)
                verdict = Verdict.UNVERIFIED if proof is None else Verdict.CONFIRMED
                if proof is None and index in told:
                    self._apart[index] = told[index]
                sentence = proof or self._doubt(group, side, index)
                self._verdict[index] = (verdict, declaration.name, (sentence,))

    def _proof(self, group: _Group, side: int, index: int) -> str | None:
        port, members = self._ports[index], group.sides[side]
        fellow: int | None = None
        if group.declaration.rails == INDEPENDENT:
            fellow = next((one for one in members if self._ports[one].node != port.node), None)
        elif side == group.main:
            others = [one for one in (members[0], members[-1]) if one != index]
            fellow = next((one for one in others if self._ports[one].node != port.node), next(iter(others), None))
        if fellow is not None:
            return why_joined(port, self._ports[fellow])
        told = sorted(port.sm_guids & set(group.declaration.sm_guids))
        return f"its subnet manager is the declared {told[0]}" if told else None

    def _doubt(self, group: _Group, side: int, index: int) -> str:
        port, declaration = self._ports[index], group.declaration
        if declaration.kind == ROCE:
            known = [(at, net) for at in port.addresses for net in declaration.cidrs if at in net]
            where = f", and its {known[0][0]} is in {known[0][1]}" if known else ""
            return f"declared{where}; whether it reaches the other ports was not tried"
        mates = len(group.sides[side]) - 1
        others = group.sound - 1 - mates
        if not mates and not others:
            return f"declared; no other port of {declaration.name} is there to compare it with"
        if index in self._apart:
            return f"declared; {self._apart[index]}, and nothing proves that these are one subnet"
        if not mates:
            return f"declared; nothing proves that it is in one subnet with another port of {declaration.name}"
        some = f"{mates} port{'s' if mates > 1 else ''} of {declaration.name}"
        return f"declared; in one subnet with {some}, and nothing proves it of {others} more"

    def _found_names(self) -> dict[int, str]:
        """Names of the fabrics that nobody declared, by port: the last eight digits of the lowest GUID of a subnet
        manager, else of a switch; all sixteen where eight are not enough.
        """
        found: dict[int, tuple[set[str], set[str]]] = {}
        for index, side in self._component.items():
            if index not in self._verdict:
                managers, switches = found.setdefault(side, (set(), set()))
                managers |= self._ports[index].sm_guids
                switches |= {guid for guid in (self._ports[index].switch_guid,) if guid}
        lowest = {
            side: min(managers or switches) for side, (managers, switches) in found.items() if managers or switches
        }
        count = Counter(f"ib-{guid[-8:]}" for guid in lowest.values())
        count.update({one.name for declarations in self._declared.values() for one in declarations})
        short = {side: f"ib-{guid[-8:]}" for side, guid in lowest.items()}
        names = {side: name if count[name] == 1 else f"ib-{lowest[side]}" for side, name in short.items()}
        return {index: names[side] for index, side in self._component.items() if side in names}

    def _undeclared(self, index: int) -> tuple[str, ...]:
        side = self._component[index]
        owner = next((one for one in self._groups.values() if one.main == side and side in one.sides), None)
        if owner is None:
            return (UNDECLARED,)
        why = why_joined(self._ports[index], self._ports[owner.sides[side][0]])
        return (f"{why}, which is declared {owner.declaration.name}",)

    def _fabrics(self, ports: Mapping[str, Sequence[FabricPort]]) -> tuple[Fabric, ...]:
        managers: dict[tuple[str, str, int], frozenset[str]] = {
            (port.node, port.device, port.port): port.sm_guids for port in self._ports
        }
        by_fabric: dict[str, dict[str, list[FabricPort]]] = {
            one.name: {} for declarations in self._declared.values() for one in declarations
        }
        for node, found in ports.items():
            for port in found:
                if port.fabric is not None:
                    by_fabric.setdefault(port.fabric, {}).setdefault(node, []).append(port)
        told = [node for node, found in ports.items() if not any(map(is_unknown, found))]
        return tuple(
            self._fabric(name, members, managers) if members else self._empty(name, told)
            for name, members in sorted(by_fabric.items())
        )

    def _fabric(
        self,
        name: str,
        members: Mapping[str, Sequence[FabricPort]],
        managers: Mapping[tuple[str, str, int], frozenset[str]],
    ) -> Fabric:
        group = self._groups.get(name)
        guids = {
            found
            for ports in members.values()
            for port in ports
            if port.verdict is not Verdict.CONTRADICTED
            for found in managers[port.node, port.device, port.port]
        }
        each = tuple(
            FabricMember(NodeName(node), worst(found), tuple(found)) for node, found in sorted(members.items())
        )
        return Fabric(
            name=name,
            kind=group.declaration.kind if group else INFINIBAND,
            declared=group is not None,
            rails=group.declaration.rails if group else JOINED,
            verdict=worst([port for member in each for port in member.ports]),
            members=each,
            fingerprint=tuple(sorted(guids)),
            notes=self._notes(group),
        )

    def _notes(self, group: _Group | None) -> tuple[str, ...]:
        if group is None or group.main is None or group.main not in group.sides:
            return ()
        main = group.sides[group.main]
        rest = [index for side, members in group.sides.items() if side != group.main for index in members]
        doubts = doubtful(self._ports, rest, self._apart) if len(main) > 1 and group.declaration.rails == JOINED else ()
        same = [one for one in self._groups.values() if one is not group and one.main == group.main]
        return doubts + tuple(
            f"{one.declaration.name} is the same subnet: {self._ports[main[0]].name} is "
            f"{why_joined(self._ports[main[0]], self._ports[one.sides[group.main][0]])}"
            for one in sorted(same, key=lambda one: one.declaration.name)
            if group.main in one.sides
        )

    def _empty(self, name: str, told: Sequence[str]) -> Fabric:
        """A declared fabric that no port is in; `told` are the nodes of whose ports everything is known."""
        one = next(one for declarations in self._declared.values() for one in declarations if one.name == name)
        notes = unmatched(name, self._declared, told)
        return Fabric(
            name, one.kind, declared=True, rails=one.rails, verdict=Verdict.UNVERIFIED, members=(), notes=notes
        )


def worst(ports: Sequence[FabricPort]) -> Verdict:
    """The verdict of a set of ports: that of the worst of them."""
    found = {port.verdict for port in ports}
    return next(verdict for verdict in _WORST_FIRST if verdict in found)


def _port(
    node: str,
    port: contract.RdmaPort,
    verdict: Verdict,
    fabric: str | None = None,
    *,
    evidence: tuple[str, ...],
    rail: int | None = None,
) -> FabricPort:
    return FabricPort(
        node=NodeName(node),
        device=port.device,
        port=port.port,
        verdict=verdict,
        fabric=fabric,
        kind=kind_of(port),
        evidence=evidence,
        rate_gbps=port.rate_gbps,
        pci_address=port.pci_address,
        rail=rail,
    )


def _port_name(port: PortEvidence) -> str:
    return f"{port.device}:{port.port}"


def _by_name(port: FabricPort | contract.RdmaPort) -> tuple[int, str, int]:
    return (len(port.device), port.device, port.port)

# SPDX-License-Identifier: Apache-2.0
"""What must hold of every judgement about fabrics. Each property has a seeded defect that makes it fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.fleet import fabric_cuts, fabric_evidence, fabrics
from llmgw.fleet.fabrics import Judged, judge
from llmgw.model.fabric import Verdict
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, declared, ib, port_guid, ports_of

Nodes = dict[str, tuple[contract.RdmaPort, ...] | None]
FIRST_SM, SECOND_SM = "0x00000000000000aa", "0x00000000000000bb"
SET = "fec0:0000:0000:0001"


@dataclass(frozen=True)
class Case:
    """Two fabrics that nothing connects, with all that is equal in such fabrics. `fabric` has the truth by port."""

    nodes: Nodes
    fabric: dict[str, int]
    names: dict[str, tuple[Any, ...]]

    def judged(self) -> Judged:
        return judge(self.nodes, self.names)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to six nodes with up to two ports in each of two fabrics; what a port tells of its subnet is left to chance.

    LIDs are small numbers in both, both have the default prefix, and both managers have LID 1.
    """
    nodes: Nodes = {}
    truth: dict[str, int] = {}
    lids = [0, 0]
    made: list[tuple[int, str]] = []
    for number in range(draw(st.integers(1, 6))):
        ports: list[contract.RdmaPort] = []
        for index in range(draw(st.integers(0, 4))):
            side = draw(st.integers(0, 1))
            lids[side] += 1
            guid = len(made) + 1
            more: dict[str, Any] = {"lid": lids[side]}
            if draw(st.booleans()):
                more["sm_guids"] = ((FIRST_SM, SECOND_SM)[side],)
            if draw(st.integers(0, 4)) == 0:
                more["active"] = False
            seen = [port_guid(other) for other, (where, _) in enumerate(made, 1) if where == side]
            if draw(st.booleans()) and seen:
                more["subnet_port_guids"] = tuple(draw(st.lists(st.sampled_from(seen), max_size=3)))
            made.append((side, f"n{number}"))
            truth[f"n{number} mlx5_{index}:1"] = side
            ports.append(ib(guid, index, **more))
        nodes[f"n{number}"] = tuple(ports) if draw(st.integers(0, 9)) else None
    # Declared rightly, all as one, by chance, or not at all: PCI addresses tell the adapters.
    way = draw(st.sampled_from(("rightly", "as one", "by chance", "not")))
    names: dict[str, tuple[Any, ...]] = {}
    for node in nodes:
        sides: dict[str, list[str]] = {}
        for port in nodes[node] or ():
            side = truth[f"{node} {port.device}:1"]
            name = {"rightly": f"ib-{side}", "as one": "ib-0", "by chance": f"ib-{draw(st.integers(0, 1))}"}.get(way)
            if name is not None:
                sides.setdefault(name, []).append(port.pci_address or "")
        fabric = {name: {"kind": "infiniband", "hcas": {"pci": pci}} for name, pci in sides.items()}
        names |= declared([node], **fabric)
    return Case(nodes, truth, names)


def two_unconnected_fabrics_are_never_joined(case: Case) -> None:
    """No evidence may speak of one subnet across the two."""
    for port in ports_of(case.judged()):
        if port.verdict is Verdict.CONFIRMED:
            for sentence in port.evidence:
                if "in one subnet with" in sentence:
                    other = sentence.removeprefix("in one subnet with ").partition(": ")[0].partition(",")[0]
                    other = f"{other}:1" if not other.endswith(":1") else other
                    assert case.fabric[other] == case.fabric[f"{port.node} {port.name}"]


def confirmed_ports_of_a_fabric_are_in_one_subnet(case: Case) -> None:
    sides: dict[str | None, set[int]] = {}
    for port in ports_of(case.judged()):
        if port.verdict is Verdict.CONFIRMED:
            sides.setdefault(port.fabric, set()).add(case.fabric[f"{port.node} {port.name}"])
    assert all(len(found) == 1 for found in sides.values())


def the_order_of_input_does_not_matter(case: Case) -> None:
    turned = {node: None if ports is None else ports[::-1] for node, ports in reversed(case.nodes.items())}
    names = dict(reversed(case.names.items()))
    assert judge(turned, names) == case.judged()


def a_duplicate_lid_always_contradicts(case: Case) -> None:
    lids = {
        f"{node} {port.device}:1": port.lid for node, ports in case.nodes.items() for port in ports or () if port.active
    }
    for fabric in case.judged().fabrics:
        if fabric.declared:
            ports = [port for member in fabric.members for port in member.ports]
            sound = [lids[f"{port.node} {port.name}"] for port in ports if port.verdict is not Verdict.CONTRADICTED]
            assert len(sound) == len(set(sound))


def every_port_has_exactly_one_verdict(case: Case) -> None:
    found = case.judged()
    assert set(found.ports) == {node for node, ports in case.nodes.items() if ports is not None}
    for node, ports in case.nodes.items():
        told = sorted(port.name for port in found.ports.get(node, ()))
        assert told == sorted(f"{port.device}:1" for port in ports or ())
    assert all(port.evidence for port in ports_of(found))
    in_fabrics = [port for fabric in found.fabrics for member in fabric.members for port in member.ports]
    assert len(in_fabrics) == len({(port.node, port.name) for port in in_fabrics})
    assert set(in_fabrics) == {port for port in ports_of(found) if port.fabric is not None}


PROPERTIES: list[Callable[[Case], None]] = [
    two_unconnected_fabrics_are_never_joined,
    confirmed_ports_of_a_fabric_are_in_one_subnet,
    the_order_of_input_does_not_matter,
    a_duplicate_lid_always_contradicts,
    every_port_has_exactly_one_verdict,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_every_judgement(holds: Callable[[Case], None], case: Case) -> None:
    holds(case)


@settings(max_examples=50)
@given(st.integers(2, 5), st.integers(2, 5))
def test_a_prefix_that_both_fabrics_were_given_by_mistake_joins_nothing(first: int, second: int) -> None:
    nodes: Nodes = {f"a{lid}": (ib(lid, prefix=SET),) for lid in range(1, first + 1)}
    nodes |= {f"b{lid}": (ib(100 + lid, prefix=SET, lid=lid),) for lid in range(1, second + 1)}
    found = judge(nodes, declared(list(nodes), ib_a=by_pci(1)))
    confirmed = {port.node[0] for port in ports_of(found) if port.verdict is Verdict.CONFIRMED}
    assert len(confirmed) <= 1


def _join_by_default_prefix(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fabric_evidence.PortEvidence, "own_prefix", property(lambda port: port.prefix))
    patch.setattr(fabric_cuts, "contradictions", lambda *_: {})


def _join_by_manager_lid(patch: pytest.MonkeyPatch) -> None:
    whole = fabric_evidence.evidence_of

    def alike(node: str, port: contract.RdmaPort) -> fabric_evidence.PortEvidence:
        found = whole(node, port)
        return replace(found, sm_guids=frozenset({f"0x{found.sm_lid or 0:016x}"}))

    patch.setattr(fabrics, "evidence_of", alike)
    patch.setattr(fabrics, "contradictions", lambda *_: {})


def _keep_the_order_of_input(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fabrics, "sorted", lambda values, **_more: list(values), raising=False)


def _forget_lids(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fabric_cuts, "_by_lid", lambda *_: {})


def _forget_excluded_ports(patch: pytest.MonkeyPatch) -> None:
    whole = fabrics._port

    def without_reason(*arguments: Any, **more: Any) -> Any:
        port = whole(*arguments, **more)
        return replace(port, evidence=()) if port.verdict is Verdict.EXCLUDED else port

    patch.setattr(fabrics, "_port", without_reason)


DEFECTS = dict(
    zip(
        PROPERTIES,
        [_join_by_manager_lid, _join_by_default_prefix, _keep_the_order_of_input, _forget_lids, _forget_excluded_ports],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=cases())
    def defective(case: Case) -> None:
        holds(case)

    with pytest.raises(AssertionError):
        defective()

# SPDX-License-Identifier: Apache-2.0
"""Whatever is found of whatever cards: what is marked is bad hardware, is marked once, and stays out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.ids import DeviceId
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.plan import Quarantine
from llmgw.nodekit import contract
from llmgw.plan.quarantine import HARDWARE, quarantines
from tests.support import fleets

CODES = (*HARDWARE, "foreign-memory", "recovery-action", "remap-pending", "mig-empty")
Marks = Callable[[FleetSnapshot], tuple[Quarantine, ...]]


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    count = draw(st.integers(1, 8))
    subjects = st.integers(0, count - 1).map(lambda index: f"GPU-{name}-{index}")
    findings = st.builds(
        lambda code, severity, subject: contract.Finding(code, severity, "found", subject=subject, part="gpus"),
        st.sampled_from(CODES),
        st.sampled_from(("block", "warn")),
        subjects,
    )
    marks = draw(st.lists(subjects.map(contract.QuarantinedDevice), max_size=2, unique=True))
    found = tuple(draw(st.lists(findings, max_size=10)))
    one = fleets.node(name, count, findings=found, quarantined=tuple(marks))
    assert one.facts is not None
    xids = st.lists(st.sampled_from((48, 79, 119)).map(contract.Xid), max_size=2).map(tuple)
    gpus = tuple(replace(gpu, xids=draw(xids)) for gpu in one.facts.gpus or ())
    return fleets.with_facts(one, replace(one.facts, gpus=gpus))


FLEETS = st.tuples(nodes("n1"), nodes("n2")).map(lambda pair: fleets.fleet(*pair))


def marked(fleet: FleetSnapshot, marks: tuple[Quarantine, ...]) -> FleetSnapshot:
    """The fleet as it is seen once these marks are on its nodes."""
    seen = []
    for one in fleet.nodes:
        assert one.facts is not None
        more = tuple(contract.QuarantinedDevice(mark.device, mark.code) for mark in marks if mark.node == one.name)
        seen.append(fleets.with_facts(one, replace(one.facts, quarantined=(*(one.facts.quarantined or ()), *more))))
    return replace(fleet, nodes=tuple(seen))


def _each_is_new_and_has_its_finding(fleet: FleetSnapshot, marks: Marks) -> None:
    for mark in marks(fleet):
        node = fleet.node(mark.node)
        assert node is not None
        assert node.facts is not None
        assert mark.device not in {one.device for one in node.facts.quarantined or ()}
        assert (mark.code, "block", mark.device) in {
            (one.code, one.severity, one.subject) for one in node.facts.findings
        }
        assert mark.code in HARDWARE


def _what_is_marked_is_not_marked_again_and_stays_out(fleet: FleetSnapshot, marks: Marks) -> None:
    found = marks(fleet)
    after = marked(fleet, found)
    assert {(one.node, one.device) for one in marks(after)} & {(one.node, one.device) for one in found} == set()
    assert marks(after) == ()
    for node in after.nodes:
        assert node.facts is not None
        well = fleets.with_facts(node, replace(node.facts, findings=()))
        out = {device.uuid for device in well.devices or () if device.blocked_by}
        assert {mark.device for mark in found if mark.node == node.name} <= out


def _order_does_not_matter(fleet: FleetSnapshot, marks: Marks) -> None:
    turned = []
    for one in reversed(fleet.nodes):
        assert one.facts is not None
        facts = replace(
            one.facts, findings=one.facts.findings[::-1], quarantined=tuple(reversed(one.facts.quarantined or ()))
        )
        turned.append(fleets.with_facts(one, facts))
    assert marks(replace(fleet, nodes=tuple(turned))) == marks(fleet)


PROPERTIES = (
    _each_is_new_and_has_its_finding,
    _what_is_marked_is_not_marked_again_and_stays_out,
    _order_does_not_matter,
)


@pytest.mark.parametrize("holds", PROPERTIES)
@given(fleet=FLEETS)
def test_marks_are_right(holds: Callable[[FleetSnapshot, Marks], None], fleet: FleetSnapshot) -> None:
    holds(fleet, quarantines)


def _without_looking_at_marks(fleet: FleetSnapshot) -> tuple[Quarantine, ...]:
    return quarantines(marked(replace(fleet, nodes=tuple(map(_unmarked, fleet.nodes))), ()))


def _unmarked(one: Node) -> Node:
    assert one.facts is not None
    return fleets.with_facts(one, replace(one.facts, quarantined=()))


def _in_the_order_of_findings(fleet: FleetSnapshot) -> tuple[Quarantine, ...]:
    found = []
    for one in fleet.nodes:
        known = {mark.device for mark in quarantines(fleets.fleet(one))}
        assert one.facts is not None
        found += [
            Quarantine(one.name, DeviceId(finding.subject), finding.code, finding.message)
            for finding in one.facts.findings
            if finding.subject in known and finding.code in HARDWARE
        ]
    return tuple(found)


@pytest.mark.parametrize("defect", [_without_looking_at_marks, _in_the_order_of_findings])
def test_a_defect_is_found(defect: Marks) -> None:
    bad = contract.Finding("gpu-lost", "block", "found", subject="GPU-n1-0", part="gpus")
    worse = replace(bad, code="xid-fatal")
    one = fleets.node("n1", 4, findings=(bad, worse), quarantined=())
    other = fleets.node(
        "n2", 4, findings=(replace(bad, subject="GPU-n2-1"),), quarantined=(contract.QuarantinedDevice("GPU-n2-1"),)
    )
    fleet = fleets.fleet(one, other)

    def wrong() -> None:
        for holds in PROPERTIES:
            holds(fleet, defect)

    with pytest.raises(AssertionError):
        wrong()
    for holds in PROPERTIES:
        holds(fleet, quarantines)

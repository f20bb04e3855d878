# SPDX-License-Identifier: Apache-2.0
"""What a mark on a device does: it keeps that device out and no other, says since when, and how to end it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmgw.fleet.devices import devices_of
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.quarantine import mark_findings, names_of
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.nodekit import contract
from tests.support.fleets import facts

NOW = 1_796_049_000.0
MARK = contract.QuarantinedDevice("GPU-n1-2", "xid-fatal", "card 2 had XID 79", NOW, "ops@ctl1")
SPLIT = contract.Gpu(
    3,
    "GPU-n1-3",
    None,
    "a100-80g",
    mig_mode=True,
    mig_instances=(
        contract.MigInstance("MIG-0", 0, device_class="a100-80g-mig-1g.10gb"),
        contract.MigInstance("MIG-1", 1, device_class="a100-80g-mig-1g.10gb"),
    ),
)


def marked(*marks: contract.QuarantinedDevice, **more: Any) -> contract.NodeFacts:
    known = facts("n1", 3, **more)
    return replace(known, gpus=(*(known.gpus or ()), SPLIT), quarantined=marks)


def out(known: contract.NodeFacts) -> list[str]:
    return [one.display_name for one in devices_of(known) or () if one.blocked_by]


def test_a_marked_card_is_out_and_no_other() -> None:
    assert out(marked(MARK)) == ["2"]
    assert out(marked()) == []
    assert out(replace(marked(), quarantined=None)) == []


def test_it_says_since_when_why_and_how_to_end_it() -> None:
    device = next(one for one in devices_of(marked(MARK), node="n1") or () if one.blocked_by)
    (finding,) = device.blocked_by
    assert (finding.code, finding.severity) == ("quarantined", "block")
    assert finding.message == "quarantined since 2026-11-30 14:30 UTC: card 2 had XID 79"
    assert finding.remedy == "`llmgw nodes clear n1 2` after it was mended"


def test_a_mark_that_tells_nothing_counts_all_the_same() -> None:
    known = marked(contract.QuarantinedDevice("GPU-n1-0"))
    assert out(known) == ["0"]
    assert [one.message for one in mark_findings(known)] == ["quarantined: its mark does not tell why"]
    assert out(marked(replace(MARK, since=1e300))) == ["2"]


def test_the_mark_of_a_split_card_is_one_of_all_its_instances() -> None:
    assert out(marked(contract.QuarantinedDevice("GPU-n1-3"))) == ["3/mig0", "3/mig1"]
    (finding,) = mark_findings(marked(contract.QuarantinedDevice("MIG-1")), "n1")
    assert out(marked(contract.QuarantinedDevice("MIG-1"))) == ["3/mig1"]
    assert finding.remedy == "`llmgw nodes clear n1 3/mig1` after it was mended"


def test_a_mark_stays_when_what_was_found_is_gone_or_old() -> None:
    finding = contract.Finding("xid-fatal", "block", "card 2 had XID 79", subject="GPU-n1-2")
    known = marked(MARK, findings=(finding,))
    device = next(one for one in devices_of(known, old=(finding,)) or () if one.blocked_by)
    assert [one.code for one in device.blocked_by] == ["quarantined"]
    assert [one.code for one in device.kept_away_by] == ["xid-fatal"]
    both = next(one for one in devices_of(known) or () if one.blocked_by)
    assert [one.code for one in both.blocked_by] == ["xid-fatal", "quarantined"]


def test_the_mark_of_a_card_that_was_replaced_is_told_and_keeps_nothing_out() -> None:
    known = marked(replace(MARK, device="GPU-gone"))
    assert out(known) == []
    (finding,) = mark_findings(known, "n1")
    assert (finding.code, finding.severity) == ("quarantined-absent", "info")
    assert "`llmgw nodes clear n1 GPU-gone` if it was replaced" in str(finding.remedy)


def test_where_the_cards_are_unknown_no_card_is_said_to_be_missing() -> None:
    (finding,) = mark_findings(replace(marked(MARK), gpus=None), "n1")
    assert (finding.code, finding.remedy) == ("quarantined", "`llmgw nodes clear n1 GPU-n1-2` after it was mended")
    assert names_of(replace(marked(MARK), gpus=None)) is None


def test_the_fleet_shows_the_mark_among_the_findings_of_its_node_however_old_the_facts_are() -> None:
    known = replace(marked(MARK), collected_at=NOW - 90 * 86400)
    (node,) = build_snapshot([Host("n1", node=True, gateway=False)], {"n1": Stored(known)}, View(NOW)).nodes
    assert [one.remedy for one in node.findings if one.code == "quarantined"] == [
        "`llmgw nodes clear n1 2` after it was mended"
    ]
    assert [one.display_name for one in node.devices or () if one.blocked_by] == ["2"]


def test_the_order_of_marks_does_not_matter() -> None:
    other = contract.QuarantinedDevice("GPU-n1-0", "gpu-lost", "gone")
    assert mark_findings(marked(MARK, other)) == mark_findings(marked(other, MARK))

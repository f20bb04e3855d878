# SPDX-License-Identifier: Apache-2.0
"""Which devices are marked: bad hardware of their own, found lately, on nodes that answer, and once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.fleet.aging import FINDINGS_LIMIT_S
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.nodekit import contract
from llmgw.plan.quarantine import quarantines
from tests.support import fleets

NOW = 1000.0
UUID = "GPU-6a1b2c3d-0000-1111-2222-333344445555"


def finding(code: str, subject: str, message: str = "it is bad", **more: Any) -> contract.Finding:
    return contract.Finding(code, more.pop("severity", "block"), message, subject=subject, part="gpus", **more)


def xid(code: int, cleared: str | None = None) -> contract.Xid:
    return contract.Xid(code, cleared=cleared)


def node(*findings: contract.Finding, gpus: int = 8, **more: Any) -> Node:
    return fleets.node("n1", gpus, quarantined=more.pop("quarantined", ()), findings=findings, **more)


def marked(*nodes: Node) -> list[tuple[str, str]]:
    return [(one.device, one.code) for one in quarantines(fleets.fleet(*nodes))]


def with_xids(one: Node, index: int, *xids: contract.Xid) -> Node:
    assert one.facts is not None
    assert one.facts.gpus is not None
    gpus = tuple(replace(gpu, xids=xids) if gpu.index == index else gpu for gpu in one.facts.gpus)
    return fleets.with_facts(one, replace(one.facts, gpus=gpus))


@pytest.mark.parametrize("code", ["xid-fatal", "gpu-lost", "remap-failed", "ecc-uncorrected"])
def test_a_card_whose_hardware_is_bad_is_marked_with_what_was_found(code: str) -> None:
    fleet = fleets.fleet(node(finding(code, "GPU-n1-2", "card 2 had XID 79")))
    assert [(one.node, one.device, one.code, one.message) for one in quarantines(fleet)] == [
        ("n1", "GPU-n1-2", code, "card 2 had XID 79")
    ]


@pytest.mark.parametrize(
    "code",
    ["foreign-memory", "remap-pending", "retirement-pending", "recovery-action", "mig-empty", "uuid-duplicate"],
)
def test_what_is_over_when_it_is_over_is_not_marked(code: str) -> None:
    assert marked(node(finding(code, "GPU-n1-2"))) == []


def test_a_warning_marks_nothing() -> None:
    assert marked(node(finding("gpu-lost", "GPU-n1-2", severity="warn"))) == []


def test_what_is_marked_already_is_not_marked_again() -> None:
    mark = contract.QuarantinedDevice("GPU-n1-2", "gpu-lost", "earlier")
    assert marked(node(finding("xid-fatal", "GPU-n1-2"), quarantined=(mark,))) == []


def test_a_node_that_does_not_tell_its_marks_is_left_alone() -> None:
    assert marked(node(finding("xid-fatal", "GPU-n1-2"), quarantined=None)) == []


@pytest.mark.parametrize("state", [state for state in NodeState if state is not NodeState.OK])
def test_only_nodes_that_answer_and_may_be_touched_are_marked(state: NodeState) -> None:
    assert marked(replace(node(finding("xid-fatal", "GPU-n1-2")), state=state)) == []


def test_an_old_finding_marks_nothing() -> None:
    fleet = fleets.fleet(node(finding("xid-fatal", "GPU-n1-2")))
    assert quarantines(replace(fleet, taken_at=NOW + FINDINGS_LIMIT_S))
    assert quarantines(replace(fleet, taken_at=NOW + FINDINGS_LIMIT_S + 1)) == ()


def test_of_several_findings_the_one_that_tells_most_is_kept_and_their_order_does_not_matter() -> None:
    found = [finding("ecc-uncorrected", "GPU-n1-2"), finding("gpu-lost", "GPU-n1-2"), finding("xid-fatal", "GPU-n1-2")]
    assert marked(node(*found)) == marked(node(*reversed(found))) == [("GPU-n1-2", "xid-fatal")]


def test_marks_are_sorted_by_node_and_device() -> None:
    other = fleets.node("n0", 4, quarantined=(), findings=(finding("xid-fatal", "GPU-n0-3"),))
    one = node(finding("ecc-uncorrected", "GPU-n1-5"), finding("xid-fatal", "GPU-n1-2"))
    found = quarantines(FleetSnapshot((one, other), (), NOW))
    assert [(mark.node, mark.device) for mark in found] == [("n0", "GPU-n0-3"), ("n1", "GPU-n1-2"), ("n1", "GPU-n1-5")]


def test_a_driver_that_loses_every_card_at_once_marks_none_of_them() -> None:
    assert marked(node(*(finding("gpu-lost", f"GPU-n1-{index}") for index in range(8)))) == []
    assert marked(node(*(finding("gpu-lost", f"GPU-n1-{index}") for index in range(2)), gpus=2)) == []


@pytest.mark.parametrize(("silent", "marks"), [(1, 1), (4, 4), (5, 0)])
def test_cards_are_to_blame_themselves_until_more_than_half_of_a_node_are_silent(silent: int, marks: int) -> None:
    assert len(marked(node(*(finding("gpu-lost", f"GPU-n1-{index}") for index in range(silent))))) == marks


def test_the_only_card_of_a_node_is_marked() -> None:
    assert marked(node(finding("gpu-lost", "GPU-n1-0"), gpus=1)) == [("GPU-n1-0", "gpu-lost")]


def test_a_card_with_errors_in_its_own_memory_is_marked_among_cards_that_the_driver_lost() -> None:
    one = node(*(finding("xid-fatal", f"GPU-n1-{index}") for index in range(8)))
    for index in range(8):
        one = with_xids(one, index, xid(48 if index == 3 else 79))
    assert marked(one) == [("GPU-n1-3", "xid-fatal")]


def test_an_error_before_the_last_reset_says_nothing_of_now() -> None:
    one = node(*(finding("xid-fatal", f"GPU-n1-{index}") for index in range(8)))
    for index in range(8):
        one = with_xids(one, index, xid(79), xid(48, cleared="the node was booted"))
    assert marked(one) == []


def lost(address: str, *evidence: str) -> contract.Finding:
    return finding("gpu-lost", address, evidence=evidence)


def without_uuid(*findings: contract.Finding, held: tuple[str, ...] = (), missing: int = 1) -> Node:
    gpus = tuple(
        contract.Gpu(index, None, pci_address=f"0000:{index}1:00.0") if index < missing else fleets.gpu(index, "n1")
        for index in range(8)
    )
    one = node(*findings)
    assert one.facts is not None
    units = (contract.ObservedUnit("llmgw-chat.0.0.service", devices=held),)
    return fleets.with_facts(one, replace(one.facts, gpus=gpus, units=units))


def test_a_lost_card_is_marked_by_the_name_that_the_kernel_remembers() -> None:
    one = without_uuid(lost("0000:01:00.0", f"GPU is lost; known to the kernel as {UUID}"))
    assert marked(one) == [(UUID, "gpu-lost")]


def test_a_lost_card_is_marked_as_the_device_that_a_unit_holds_and_that_is_not_there() -> None:
    one = without_uuid(lost("0000:01:00.0"), held=("GPU-n1-7", UUID))
    assert marked(one) == [(UUID, "gpu-lost")]


def test_a_lost_card_that_nobody_can_name_is_not_marked() -> None:
    assert marked(without_uuid(lost("0000:01:00.0"))) == []
    assert marked(without_uuid(lost("0000:01:00.0"), held=("GPU-a", "GPU-b"))) == []
    assert marked(without_uuid(lost("0000:01:00.0"), held=("MIG-a",))) == []


def test_two_lost_cards_and_two_devices_that_are_gone_are_the_same() -> None:
    found = (lost("0000:01:00.0"), lost("0000:11:00.0"))
    one = without_uuid(*found, held=("GPU-b", "GPU-a", "GPU-n1-4"), missing=2)
    assert marked(one) == [("GPU-a", "gpu-lost"), ("GPU-b", "gpu-lost")]


def in_mig_mode(*findings: contract.Finding) -> Node:
    one = node(*findings)
    assert one.facts is not None
    card = replace(
        fleets.gpu(0, "n1"),
        mig_mode=True,
        mig_instances=tuple(
            contract.MigInstance(f"MIG-{number}", number, device_class="h200-1g.18gb") for number in (0, 1)
        ),
    )
    return fleets.with_facts(one, replace(one.facts, gpus=(card, *(fleets.gpu(index, "n1") for index in (1, 2)))))


def test_a_bad_instance_is_marked_alone_and_a_bad_card_stands_for_its_instances() -> None:
    alone, whole = finding("ecc-uncorrected", "MIG-1"), finding("ecc-uncorrected", "GPU-n1-0")
    assert marked(in_mig_mode(alone)) == [("MIG-1", "ecc-uncorrected")]
    assert marked(in_mig_mode(alone, whole)) == [("GPU-n1-0", "ecc-uncorrected")]


def test_unknown_cards_mark_nothing() -> None:
    one = node(finding("xid-fatal", "GPU-n1-2"))
    assert one.facts is not None
    assert marked(fleets.with_facts(one, replace(one.facts, gpus=None))) == []

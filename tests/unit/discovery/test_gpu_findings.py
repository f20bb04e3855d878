# SPDX-License-Identifier: Apache-2.0
"""What blocks a card, what is only told, and that a finding is about the card that it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
    DeviceProcess,
    Ecc,
    Finding,
    Gpu,
    GpuFabric,
    MigInstance,
    Remap,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_findings

NO_DOMAIN = "00000000-0000-0000-0000-000000000000"
RACK = "0a0b0c0d-0102-0304-0506-0708090a0b0c"
WELL = Gpu(
    0,
    "GPU-a",
    name="NVIDIA H100 80GB HBM3",
    device_class="h100-80g",
    pci_address="0000:4c:00.0",
    ecc=Ecc(enabled=True, corrected_volatile=9, uncorrected_volatile=0, uncorrected_aggregate=0),
    remap=Remap(corrected_rows=3, pending=False, failed=False, retired_pages=2, retired_pending=False),
    recovery_action="None",
    throttle_reasons=("gpu_idle", "sw_power_cap"),
    persistence_mode=True,
    pcie_width=16,
    pcie_width_max=16,
    processes=(DeviceProcess(5, "engine", 70000, unit="llmgw-chat.0.0.service"),),
    mig_mode=False,
    mig_pending=False,
    fabric=GpuFabric("Completed", "Success", NO_DOMAIN, 0),
)
BARE = Gpu(0, "GPU-a", name="NVIDIA A30", device_class="a30-24g")


def bare(**facts: object) -> Gpu:
    return replace(BARE, **facts)  # type: ignore[arg-type]


def joined(**parts: object) -> GpuFabric:
    return replace(GpuFabric("Completed", "Success", RACK, 7, "Healthy", "Full"), **parts)  # type: ignore[arg-type]


def judged(card: Gpu, *gone: int) -> list[tuple[str, str, str | None]]:
    return [(one.code, one.severity, one.subject) for one in gpu_findings.judge([card], frozenset(gone))]


def only(*cards: Gpu) -> Finding:
    (found,) = gpu_findings.judge(cards)
    return found


def test_a_card_that_is_well_or_unknown_has_no_finding() -> None:
    assert judged(WELL) == []
    assert judged(BARE) == []
    assert judged(bare(fabric=joined())) == []
    assert judged(bare(pcie_width=8, pcie_width_max=8)) == []


@pytest.mark.parametrize(
    ("card", "code", "severity"),
    [
        (bare(ecc=Ecc(uncorrected_volatile=1, uncorrected_aggregate=1)), "ecc-uncorrected", "block"),
        (bare(ecc=Ecc(uncorrected_volatile=0, uncorrected_aggregate=1)), "ecc-history", "warn"),
        (bare(ecc=Ecc(sram_threshold_exceeded=True)), "ecc-sram-threshold", "warn"),
        (bare(remap=Remap(failed=True)), "remap-failed", "block"),
        (bare(remap=Remap(pending=True)), "remap-pending", "block"),
        (bare(remap=Remap(retired_pending=True)), "retirement-pending", "block"),
        (bare(recovery_action="Reset"), "recovery-action", "block"),
        (bare(recovery_action="Action 9"), "recovery-action", "block"),
        (bare(throttle_reasons=("hw_thermal_slowdown",)), "throttled", "warn"),
        (bare(pcie_width=8, pcie_width_max=16), "pcie-width", "warn"),
        (bare(persistence_mode=False), "persistence-off", "warn"),
        (bare(mig_mode=True), "mig-empty", "block"),
        (bare(mig_mode=False, mig_pending=True), "mig-pending", "warn"),
        (bare(mig_mode=True, mig_instances=(MigInstance(None, 0),)), "mig-unidentified", "warn"),
        (bare(device_class=None), "class-unknown", "warn"),
        (bare(fabric=GpuFabric("In Progress")), "fabric-not-joined", "warn"),
        (bare(fabric=GpuFabric("Not Started")), "fabric-not-joined", "warn"),
        (bare(fabric=joined(status="Insufficient Resources")), "fabric-failed", "warn"),
        (bare(fabric=joined(health_summary="Unhealthy")), "fabric-unhealthy", "warn"),
        (bare(fabric=joined(route_unhealthy=True)), "fabric-unhealthy", "warn"),
        (bare(fabric=joined(health_summary="Limited Capacity")), "fabric-degraded", "warn"),
        (bare(fabric=joined(bandwidth="Degraded")), "fabric-degraded", "warn"),
        (bare(fabric=joined(route_recovery=True)), "fabric-degraded", "warn"),
        (bare(fabric=joined(access_timeout_recovery=True)), "fabric-degraded", "warn"),
        (bare(fabric=joined(incorrect_configuration="No Partition")), "fabric-misconfigured", "warn"),
    ],
)
def test_each_defect_has_its_finding_on_its_card(card: Gpu, code: str, severity: str) -> None:
    assert judged(card) == [(code, severity, "GPU-a")]
    assert only(card).remedy


def test_a_card_that_no_engine_can_be_given_is_blocked() -> None:
    assert judged(replace(WELL, uuid=None, processes=None)) == [("uuid-unknown", "block", "0000:4c:00.0")]
    twins = gpu_findings.judge([BARE, replace(BARE, index=1), replace(BARE, index=2, uuid="GPU-b")])
    assert [(one.code, one.severity, one.subject) for one in twins] == [("uuid-duplicate", "block", "GPU-a")] * 2
    assert "cards 0, 1 have" in twins[0].message


def test_a_class_is_unknown_for_a_reason() -> None:
    assert "memory of card 0" in only(bare(device_class=None)).message
    assert "name of card 0" in only(bare(device_class=None, name=None)).message


def test_the_sentence_says_how_much_and_the_remedy_which_card() -> None:
    card = replace(WELL, ecc=Ecc(uncorrected_volatile=1), processes=None)
    found = only(card)
    assert "1 uncorrected memory error since" in found.message
    assert "nvidia-smi --gpu-reset -i 0000:4c:00.0" in (found.remedy or "")
    assert "3 uncorrected memory errors" in only(bare(ecc=Ecc(uncorrected_volatile=3))).message


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("Reset", "--gpu-reset -i GPU-a"),
        ("Reboot", "reboot it"),
        ("Drain P2P", "-i GPU-a -pm 0"),
        ("Drain and Reset", "What runs on it may finish"),
        ("Recover IMEX Domain", "nvidia-imex"),
        ("Action 8", "do what the driver asks for"),
    ],
)
def test_each_recovery_action_has_its_own_remedy(action: str, words: str) -> None:
    found = only(bare(recovery_action=action))
    assert action in found.message
    assert words in (found.remedy or "")


def test_throttling_says_where_to_look() -> None:
    hot = only(bare(throttle_reasons=("hw_slowdown", "hw_thermal_slowdown", "sw_power_cap"), temperature_c=91))
    assert ("at 91 C: hw_thermal_slowdown, hw_slowdown" in hot.message, "sw_power_cap" in hot.message) == (True, False)
    assert "air flow" in (hot.remedy or "")
    brake = only(bare(throttle_reasons=("hw_power_brake_slowdown", "hw_slowdown")))
    assert "power supplies" in (brake.remedy or "")


# --- MIG ---


def test_a_pending_change_of_mig_mode_says_in_which_direction_and_how_to_take_it_back() -> None:
    on = only(bare(mig_mode=False, mig_pending=True))
    assert ("turns MIG mode on" in on.message, "-mig 0" in (on.remedy or "")) == (True, True)
    instances = (MigInstance("MIG-0", 0),)
    off = only(bare(mig_mode=True, mig_pending=False, mig_instances=instances))
    assert ("turns MIG mode off" in off.message, "-mig 1" in (off.remedy or "")) == (True, True)
    assert [one[0] for one in judged(bare(mig_mode=True, mig_pending=False))] == ["mig-empty", "mig-pending"]


def test_errors_of_an_instance_block_that_instance_alone() -> None:
    instances = (
        MigInstance("MIG-0", 0, ecc=Ecc(uncorrected_volatile=2)),
        MigInstance("MIG-3", 3, ecc=Ecc(uncorrected_volatile=0)),
        MigInstance("MIG-4", 4),
    )
    card = bare(index=2, mig_mode=True, mig_instances=instances)
    assert judged(card) == [("ecc-uncorrected", "block", "MIG-0")]
    assert only(card).message.startswith("2/mig0 had 2 uncorrected memory errors")


# --- processes ---


def test_foreign_memory_blocks_and_names_pid_name_and_amount() -> None:
    found = only(bare(index=3, processes=(DeviceProcess(77, "train.py", 512, kind="C"),)))
    assert (found.code, found.severity, found.subject) == ("foreign-memory", "block", "GPU-a")
    assert all(word in found.message for word in ("77", "train.py", "512 MiB", "card 3"))


def test_foreign_memory_of_an_instance_blocks_that_instance_alone() -> None:
    instances = (MigInstance("MIG-0", 0, processes=(DeviceProcess(7, "x", None),)), MigInstance("MIG-1", 1))
    assert judged(bare(mig_mode=True, mig_instances=instances)) == [("foreign-memory", "block", "MIG-0")]


def test_a_desktop_is_told_and_blocks_nothing_until_it_takes_much() -> None:
    assert judged(bare(processes=(DeviceProcess(7, "Xorg", 20, kind="G"),)))[0][1] == "info"
    assert judged(bare(processes=(DeviceProcess(7, "blender", 900, kind="G"),)))[0][1] == "block"
    assert judged(bare(processes=(DeviceProcess(7, "both", 20, kind="C+G"),)))[0][1] == "block"


def test_a_process_that_is_gone_or_holds_nothing_does_not_block() -> None:
    card = bare(processes=(DeviceProcess(7, "x", 30), DeviceProcess(8, "y", 0)))
    assert judged(card, 7) == [("foreign-memory-unowned", "warn", "GPU-a")]


# --- several cards ---


def test_what_the_node_does_to_all_its_cards_is_told_once() -> None:
    off = [bare(index=number, uuid=f"GPU-{number}", persistence_mode=False) for number in range(8)]
    found = only(*off)
    assert (found.code, found.subject, found.evidence) == (
        "persistence-off",
        None,
        tuple(f"GPU-{number}" for number in range(8)),
    )
    assert "all 8 cards" in found.message
    some = only(*off[:2], *(replace(card, persistence_mode=True) for card in off[2:6]), off[6])
    assert "cards 0, 1 and 6" in some.message


def test_a_fabric_manager_that_is_down_is_one_finding_that_blocks_nothing() -> None:
    found = only(*(bare(index=number, uuid=f"GPU-{number}", fabric=GpuFabric("In Progress")) for number in range(8)))
    assert (found.code, found.severity, found.subject) == ("fabric-not-joined", "warn", None)
    assert ("all 8 cards is In Progress" in found.message, "802" in found.message) == (True, True)


def test_cards_of_one_node_in_different_domains_are_a_broken_node() -> None:
    cards = [
        bare(uuid="GPU-0", fabric=joined()),
        bare(index=1, uuid="GPU-1", fabric=joined(clique_id=8)),
        bare(index=2, uuid="GPU-2", fabric=joined(cluster_uuid=NO_DOMAIN, clique_id=0)),
        bare(index=3, uuid="GPU-3"),
    ]
    found = only(*cards)
    assert (found.code, found.severity, found.subject) == ("fabric-split", "warn", None)
    assert found.evidence == (f"card 0: {RACK}.7", f"card 1: {RACK}.8", "card 2: no domain")
    assert "3 cards of this node are in 3 different" in found.message


def test_an_unhealthy_fabric_is_one_finding_with_all_its_words() -> None:
    found = only(bare(fabric=joined(health_summary="Unhealthy", bandwidth="Degraded", route_unhealthy=True)))
    assert found.code == "fabric-unhealthy"
    assert "summary Unhealthy, routes could not be recovered" in found.message


# --- lost cards ---


def test_a_lost_card_is_known_by_its_address_or_by_the_uuid_that_it_still_told() -> None:
    found = gpu_findings.lost(Gpu(2, None, pci_address="0000:4c:00.0"), "GPU is lost")
    assert (found.code, found.severity, found.subject, found.evidence) == (
        "gpu-lost",
        "block",
        "0000:4c:00.0",
        ("GPU is lost",),
    )
    assert gpu_findings.lost(Gpu(2, "GPU-c", pci_address="0000:4c:00.0")).subject == "GPU-c"


def test_a_card_that_wants_a_reset_is_reset_and_one_that_may_not_be_seen_is_not_blocked() -> None:
    reset = gpu_findings.lost(Gpu(2, "GPU-c"), "GPU requires reset")
    assert ("--gpu-reset -i GPU-c" in (reset.remedy or ""), reset.severity) == (True, "block")
    refused = gpu_findings.lost(Gpu(2, "GPU-c"), "Insufficient Permissions")
    assert (refused.code, refused.severity) == ("gpu-refused", "warn")


def test_a_card_of_which_nothing_is_known_has_no_finding_but_that() -> None:
    assert gpu_findings.judge([Gpu(1, None, pci_address="0000:4c:00.0")]) == ()

# SPDX-License-Identifier: Apache-2.0
"""What blocks a card, what is only told, and that a finding is about the card that it is about."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import DeviceProcess, Ecc, Gpu, MigInstance, Remap
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_findings

WELL = Gpu(
    0,
    "GPU-a",
    ecc=Ecc(enabled=True, corrected_volatile=9, uncorrected_volatile=0, uncorrected_aggregate=0),
    remap=Remap(corrected_rows=3, pending=False, failed=False, retired_pages=2, retired_pending=False),
    recovery_action="None",
    throttle_reasons=("gpu_idle", "sw_power_cap"),
    persistence_mode=True,
    processes=(DeviceProcess(5, "engine", 70000, unit="llmgw-chat.0.0.service"),),
    mig_mode=False,
    mig_pending=False,
)


def judged(card: Gpu, *gone: int) -> list[tuple[str, str, str | None]]:
    return [(one.code, one.severity, one.subject) for one in gpu_findings.judge([card], frozenset(gone))]


def test_a_card_that_is_well_or_unknown_has_no_finding() -> None:
    assert judged(WELL) == []
    assert judged(Gpu(0, "GPU-a")) == []


@pytest.mark.parametrize(
    ("card", "code", "severity"),
    [
        (Gpu(0, "GPU-a", ecc=Ecc(uncorrected_volatile=1, uncorrected_aggregate=1)), "ecc-uncorrected", "block"),
        (Gpu(0, "GPU-a", ecc=Ecc(uncorrected_volatile=0, uncorrected_aggregate=1)), "ecc-history", "warn"),
        (Gpu(0, "GPU-a", ecc=Ecc(sram_threshold_exceeded=True)), "ecc-sram-threshold", "warn"),
        (Gpu(0, "GPU-a", remap=Remap(failed=True)), "remap-failed", "block"),
        (Gpu(0, "GPU-a", remap=Remap(pending=True)), "remap-pending", "block"),
        (Gpu(0, "GPU-a", remap=Remap(retired_pending=True)), "retirement-pending", "block"),
        (Gpu(0, "GPU-a", recovery_action="GPU Reset"), "recovery-action", "block"),
        (Gpu(0, "GPU-a", recovery_action="A word of tomorrow"), "recovery-action", "block"),
        (Gpu(0, "GPU-a", throttle_reasons=("hw_thermal_slowdown",)), "throttled", "warn"),
        (Gpu(0, "GPU-a", persistence_mode=False), "persistence-off", "warn"),
        (Gpu(0, "GPU-a", mig_mode=True), "mig-empty", "block"),
        (Gpu(0, "GPU-a", mig_mode=False, mig_pending=True), "mig-pending", "warn"),
        (Gpu(0, "GPU-a", mig_mode=True, mig_instances=(MigInstance(None, 0),)), "mig-unidentified", "warn"),
    ],
)
def test_each_defect_has_its_finding_on_its_card(card: Gpu, code: str, severity: str) -> None:
    assert judged(card) == [(code, severity, "GPU-a")]


def test_foreign_memory_blocks_and_names_pid_name_and_amount() -> None:
    (found,) = gpu_findings.judge([Gpu(3, "GPU-a", processes=(DeviceProcess(77, "train.py", 512, kind="C"),))])
    assert (found.code, found.severity, found.subject) == ("foreign-memory", "block", "GPU-a")
    assert all(word in found.message for word in ("77", "train.py", "512 MiB", "card 3"))


def test_foreign_memory_of_an_instance_blocks_that_instance_alone() -> None:
    instances = (MigInstance("MIG-0", 0, processes=(DeviceProcess(7, "x", None),)), MigInstance("MIG-1", 1))
    assert judged(Gpu(0, "GPU-a", mig_mode=True, mig_instances=instances)) == [("foreign-memory", "block", "MIG-0")]


def test_a_desktop_is_told_and_blocks_nothing_until_it_takes_much() -> None:
    assert judged(Gpu(0, "GPU-a", processes=(DeviceProcess(7, "Xorg", 20, kind="G"),)))[0][1] == "info"
    assert judged(Gpu(0, "GPU-a", processes=(DeviceProcess(7, "blender", 900, kind="G"),)))[0][1] == "block"
    assert judged(Gpu(0, "GPU-a", processes=(DeviceProcess(7, "both", 20, kind="C+G"),)))[0][1] == "block"


def test_a_process_that_is_gone_or_holds_nothing_does_not_block() -> None:
    card = Gpu(0, "GPU-a", processes=(DeviceProcess(7, "x", 30), DeviceProcess(8, "y", 0)))
    assert judged(card, 7) == [("foreign-memory-unowned", "warn", "GPU-a")]


def test_a_lost_card_is_known_by_its_address() -> None:
    found = gpu_findings.lost(Gpu(2, None, pci_address="0000:4c:00.0"), "GPU is lost")
    assert (found.code, found.severity, found.subject, found.evidence) == (
        "gpu-lost",
        "block",
        "0000:4c:00.0",
        ("GPU is lost",),
    )

# SPDX-License-Identifier: Apache-2.0
"""What real machines printed is read as it should be."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Gpu, MigInstance
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import storage, system_facts
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_text, smi_xml
from tests.unit.readings.corpus import Item, items

FLAGS = {"Enabled": True, "Disabled": False}
FABRIC = {
    "state": "state",
    "status": "status",
    "cluster_uuid": "clusterUuid",
    "health_summary": "health/summary",
    "bandwidth": "health/bandwidth",
}


def known(text: str | None) -> str | None:
    return None if text in {None, "", "N/A", "[N/A]"} else text


def number(text: str | None) -> int | None:
    return int(text.split()[0]) if text is not None and known(text) else None


def total(counts: dict[str, str] | None, scope: str, *words: str) -> int | None:
    """Sum of the error counters of a scope whose name has one of the words; the old form has totals of its own."""
    if counts is None:
        return None
    named = {path.split("/", 1)[1]: value for path, value in counts.items() if path.startswith(f"{scope}/")}
    whole = [value for path, value in named.items() if path.endswith("/total")]
    used = {path: value for path, value in named.items() if path.endswith("/total")} if whole else named
    values = [number(value) for path, value in used.items() if any(path.startswith(word) for word in words)]
    found = [value for value in values if value is not None]
    return sum(found) if found else None


CORRECTED = ("sram_correctable", "dram_correctable", "single_bit")
UNCORRECTED = ("sram_uncorrectable", "dram_uncorrectable", "double_bit")


def check_card(gpu: Gpu, expected: dict[str, Any]) -> None:
    assert gpu.index == expected["index"]
    assert (gpu.uuid, gpu.name) == (expected["uuid"], expected["name"])
    assert gpu.pci_address == smi_xml.pci_address(expected["pci_bus_id"])
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (expected["memory_total_mib"], expected["memory_used_mib"])
    assert gpu.mig_mode is FLAGS.get(expected["mig_current"])
    assert gpu.mig_pending is FLAGS.get(expected["mig_pending"])
    assert (gpu.ecc.enabled if gpu.ecc else None) is FLAGS.get(expected["ecc_mode"])
    assert gpu.utilization_percent == number(expected["gpu_util"])
    assert gpu.persistence_mode is FLAGS.get(expected["persistence"])
    assert gpu.recovery_action == expected["recovery_action"]
    check_errors(gpu, expected["ecc_errors"])
    check_fabric(gpu, expected["fabric"])
    check_instances(gpu.mig_instances, expected["mig_devices"])
    check_processes(gpu, expected["processes"])


def check_errors(gpu: Gpu, counts: dict[str, str] | None) -> None:
    ecc = gpu.ecc
    found = (
        (ecc.corrected_volatile, ecc.uncorrected_volatile, ecc.corrected_aggregate, ecc.uncorrected_aggregate)
        if ecc
        else (None, None, None, None)
    )
    assert found == (
        total(counts, "volatile", *CORRECTED),
        total(counts, "volatile", *UNCORRECTED),
        total(counts, "aggregate", *CORRECTED),
        total(counts, "aggregate", *UNCORRECTED),
    )


def check_fabric(gpu: Gpu, expected: dict[str, str] | None) -> None:
    for field, path in FABRIC.items():
        assert (getattr(gpu.fabric, field) if gpu.fabric else None) == known((expected or {}).get(path))
    assert (gpu.fabric.clique_id if gpu.fabric else None) == number((expected or {}).get("cliqueId"))


def check_instances(instances: tuple[MigInstance, ...], expected: list[dict[str, Any]]) -> None:
    found = [
        {
            "index": one.index,
            "gi": one.gpu_instance_id,
            "ci": one.compute_instance_id,
            "sm": one.multiprocessors,
            "memory_total_mib": one.memory_total_mib,
            "memory_used_mib": one.memory_used_mib,
        }
        for one in instances
    ]
    assert found == expected


def check_processes(gpu: Gpu, expected: list[dict[str, Any]]) -> None:
    held = [*(gpu.processes or ()), *(process for one in gpu.mig_instances for process in one.processes or ())]
    found = {(one.pid, one.kind, one.name, one.used_mib) for one in held}
    assert found == {(one["pid"], one["type"], one["name"], one["used_mib"]) for one in expected}
    assert len(held) == len(expected)


@pytest.mark.parametrize("item", items("nvidia-smi-xml"))
def test_every_driver_is_read_card_by_card(item: Item) -> None:
    report = smi_xml.read(item.text)
    assert (report.driver_version, report.cuda_version) == (item.expected["driver"], item.expected["cuda"])
    assert report.attached_gpus == item.expected["attached_gpus"]
    assert len(report.gpus) == len(item.expected["gpus"])
    assert report.lost == ()
    for gpu, expected in zip(report.gpus, item.expected["gpus"], strict=True):
        check_card(gpu, expected)


@pytest.mark.parametrize("item", items("smi-L"))
def test_every_list_names_its_cards_and_instances(item: Item) -> None:
    found = [
        {
            "index": card.index,
            "name": card.name,
            "uuid": card.uuid,
            "mig": [{"index": one.index, "profile": one.profile, "uuid": one.uuid} for one in card.instances],
        }
        for card in smi_text.listing(item.text)
    ]
    assert found == item.expected["gpus"]


@pytest.mark.parametrize("item", items("error"))
def test_every_failure_is_known_by_its_condition(item: Item) -> None:
    failure = smi_text.failure(item.text)
    assert (failure.condition if failure else None) == item.expected["condition"]
    assert (failure.gpu_index if failure else None) == item.expected["gpu_index"]
    assert (failure.bus_id if failure else None) == item.expected["bdf"]


@pytest.mark.parametrize("item", items("meminfo"))
def test_every_kernel_tells_its_memory(item: Item) -> None:
    found = system_facts.memory(item.text)
    kib = [item.expected["mem_total_kb"], item.expected["mem_available_kb"]]
    assert [found.total_bytes, found.available_bytes] == [None if value is None else value * 1024 for value in kib]


@pytest.mark.parametrize("item", items("mountinfo"))
def test_every_mount_is_read(item: Item) -> None:
    found = [
        {"target": one.target, "fstype": one.type, "source": one.source, "root": one.root}
        for one in storage.mounts(item.text)
    ]
    assert found == item.expected["mounts"]
    assert len(found) == item.expected["total_lines"]

# SPDX-License-Identifier: Apache-2.0
"""What real machines printed is read as it should be."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Gpu, MigInstance
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import smi_card
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_q, smi_xml
from tests.unit.readings.corpus import Item, items

FLAGS = {"Enabled": True, "Disabled": False}
FABRIC = {
    "state": "state",
    "status": "status",
    "cluster_uuid": "clusteruuid",
    "health_summary": "health/summary",
    "bandwidth": "health/bandwidth",
}


def one_form(texts: dict[str, str] | None) -> dict[str, str]:
    """Texts by the names of the XML, which are those of the text form without case, blanks and underscores."""
    kept = {
        path: "".join(letter for letter in path.lower() if letter.isalnum() or letter == "/") for path in texts or {}
    }
    return {kept[path]: text for path, text in (texts or {}).items()}


def known(text: str | None) -> str | None:
    return None if text in {None, "", "N/A", "[N/A]"} else text


def number(text: str | None) -> int | None:
    return int(text.split()[0]) if text is not None and known(text) else None


def total(counts: dict[str, str] | None, scope: str, *words: str) -> int | None:
    """Sum of the error counters of a scope whose name has one of the words; the old form has totals of its own."""
    texts = one_form(counts)
    named = {path.split("/", 1)[1]: value for path, value in texts.items() if path.startswith(f"{scope}/")}
    whole = [value for path, value in named.items() if path.endswith("/total")]
    used = {path: value for path, value in named.items() if path.endswith("/total")} if whole else named
    values = [number(value) for path, value in used.items() if any(path.startswith(word) for word in words)]
    found = [value for value in values if value is not None]
    return sum(found) if found else None


CORRECTED = ("sramcorrectable", "dramcorrectable", "singlebit")
UNCORRECTED = ("sramuncorrectable", "dramuncorrectable", "doublebit")


def check_card(gpu: Gpu, expected: dict[str, Any]) -> None:
    assert gpu.index == expected["index"]
    assert (gpu.uuid, gpu.name) == (expected["uuid"], expected["name"])
    assert gpu.pci_address == smi_card.pci_address(expected["pci_bus_id"])
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (expected["memory_total_mib"], expected["memory_used_mib"])
    assert gpu.memory_reserved_mib == expected["memory_reserved_mib"]
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


def check_fabric(gpu: Gpu, section: dict[str, str] | None) -> None:
    expected = one_form(section)
    for field, path in FABRIC.items():
        assert (getattr(gpu.fabric, field) if gpu.fabric else None) == known(expected.get(path))
    assert (gpu.fabric.clique_id if gpu.fabric else None) == number(expected.get("cliqueid"))


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


@pytest.mark.parametrize("item", [*items("nvidia-smi-xml"), *items("nvidia-smi-q")])
def test_every_driver_is_read_card_by_card(item: Item) -> None:
    reader = smi_xml if item.kind == "nvidia-smi-xml" else smi_q
    told = smi_card.cards(reader.read(item.text))
    assert (told.driver_version, told.cuda_version) == (item.expected["driver"], item.expected["cuda"])
    assert len(told.gpus) == len(item.expected["gpus"])
    assert told.lost == {}
    for gpu, expected in zip(told.gpus, item.expected["gpus"], strict=True):
        check_card(gpu, expected)
        check_what_every_card_tells(gpu)


def check_what_every_card_tells(gpu: Gpu) -> None:
    """What has other names from driver to driver is found in all of them (a GTX 1070 Ti of which half was cut off)."""
    assert gpu.temperature_c is not None
    assert gpu.pcie_width in {1, 4, 8, 16}
    if gpu.name != "GeForce GTX 1070 Ti":
        assert gpu.pcie_width_max in {8, 16}
        assert gpu.throttle_reasons is not None
        assert gpu.power_draw_w is not None
        assert gpu.power_limit_w is not None
        assert gpu.processes is not None

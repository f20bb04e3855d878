# SPDX-License-Identifier: Apache-2.0
"""What the XML of nvidia-smi becomes: every card it holds, every field it has, and nothing it does not say."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import DeviceProcess, GpuFabric, Remap
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_xml
from tests.support import smi_texts
from tests.support.smi_texts import card, document


def test_a_card_is_read_with_all_its_fields() -> None:
    report = smi_xml.read(document(card()))
    (gpu,) = report.gpus
    assert (report.driver_version, report.cuda_version, report.attached_gpus) == ("570.86.15", "12.8", 1)
    assert (gpu.index, gpu.uuid, gpu.pci_address) == (0, smi_texts.uuid(0), "0000:10:00.0")
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.utilization_percent) == (81559, 4, 7)
    assert (gpu.temperature_c, gpu.power_draw_w, gpu.power_limit_w) == (31, 70.11, 700.0)
    assert (gpu.persistence_mode, gpu.throttle_reasons, gpu.recovery_action) == (True, ("gpu_idle",), "None")
    assert gpu.ecc is not None
    assert (gpu.ecc.corrected_volatile, gpu.ecc.corrected_aggregate, gpu.ecc.uncorrected_volatile) == (0, 3, 0)
    assert gpu.remap == Remap(corrected_rows=1, uncorrected_rows=0, pending=False, failed=False)
    zero = "00000000-0000-0000-0000-000000000000"
    assert gpu.fabric == GpuFabric("Completed", "Success", zero, 0)


def test_fields_that_a_driver_lacks_are_unknown_and_cost_nothing_else() -> None:
    (gpu,) = smi_xml.read(smi_texts.OLD).gpus
    assert (gpu.uuid, gpu.memory_total_mib, gpu.power_draw_w) == (smi_texts.uuid(9), 16280, 25.69)
    assert (gpu.utilization_percent, gpu.fabric, gpu.mig_mode, gpu.recovery_action) == (None, None, None, None)
    assert gpu.throttle_reasons == ("hw_slowdown",)
    assert gpu.ecc is not None
    assert (gpu.ecc.corrected_volatile, gpu.ecc.uncorrected_volatile, gpu.ecc.uncorrected_aggregate) == (3, 2, None)
    assert gpu.remap == Remap(retired_pages=5, retired_pending=True)


@pytest.mark.parametrize("word", ["N/A", "[N/A]", "Unknown Error", "[Unknown Error]", "ERR!", "Not Supported", ""])
def test_memory_that_is_not_reported_is_unknown_and_not_zero(word: str) -> None:
    (gpu,) = smi_xml.read(document(card(total=word, used=word))).gpus
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (None, None)


def test_the_memory_of_a_mig_card_is_the_cards_own() -> None:
    text = document(card(mig=("Enabled", "Enabled"), instances=[smi_texts.instance(0, 1), smi_texts.instance(3, 9)]))
    (gpu,) = smi_xml.read(text).gpus
    assert gpu.memory_total_mib == 81559
    assert [(one.index, one.gpu_instance_id, one.memory_total_mib) for one in gpu.mig_instances] == [
        (0, 1, 40192),
        (3, 9, 40192),
    ]


def test_a_process_belongs_to_the_instance_that_it_runs_in() -> None:
    processes = [
        smi_texts.process(11, "python", "500 MiB", place=("1", "0")),
        smi_texts.process(12, "monitor", "8 MiB"),
        smi_texts.process(13, "python", "N/A", place=("7", "0")),
    ]
    instances = [smi_texts.instance(0, 1), smi_texts.instance(1, 2)]
    (gpu,) = smi_xml.read(document(card(mig=("Enabled", "Enabled"), instances=instances, processes=processes))).gpus
    assert gpu.mig_instances[0].processes == (DeviceProcess(11, "python", 500, kind="C"),)
    assert gpu.mig_instances[1].processes == ()
    assert gpu.processes == (DeviceProcess(12, "monitor", 8, kind="C"), DeviceProcess(13, "python", None, kind="C"))


def test_a_card_whose_identity_is_an_error_is_lost_and_the_others_are_not() -> None:
    report = smi_xml.read(document(card(0), card(1, gpu_uuid="GPU is lost"), card(2)))
    assert report.lost == (1,)
    assert [gpu.uuid for gpu in report.gpus] == [smi_texts.uuid(0), None, smi_texts.uuid(2)]


def test_messages_around_the_document_are_passed_over_and_told() -> None:
    text = "Unable to determine the device handle for GPU1: 0000:11:00.0: Unknown Error\n" + document(card())
    assert len(smi_xml.read(text).gpus) == 1
    assert "Unable to determine" in smi_xml.around(text)
    assert "product_name" not in smi_xml.around(text)


def test_an_inline_dtd_and_no_dtd_are_the_same_document() -> None:
    whole = document(card())
    body = whole[whole.index("<nvidia_smi_log>") :]
    inline = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log [ <!ELEMENT gpu (uuid)> ]>\n'
    assert smi_xml.read(inline + body) == smi_xml.read(body) == smi_xml.read(whole.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    "text", ["", "<nvidia_smi_log>", document(card())[:-30], "<nvidia_smi_log><a></nvidia_smi_log>"]
)
def test_what_is_not_complete_is_refused(text: str) -> None:
    with pytest.raises(smi_xml.SmiError):
        smi_xml.read(text)


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("00000000:4C:00.0", "0000:4c:00.0"),
        ("0000:4c:00.0", "0000:4c:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("", None),
        (None, None),
        ("nonsense", None),
    ],
)
def test_a_bus_id_is_written_as_the_kernel_writes_it(printed: str | None, address: str | None) -> None:
    assert smi_xml.pci_address(printed) == address

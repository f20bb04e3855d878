# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi -q -x`: every way in which drivers wrote it, and everything that can happen to a document."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_xml
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support import smi_machines, smi_texts
from tests.support.smi_machines import Card, Instance, Process

BODY = "<nvidia_smi_log><driver_version>1.2</driver_version></nvidia_smi_log>"


def test_a_card_is_read_as_printed() -> None:
    reading = smi_xml.read(smi_machines.xml(Card(), attached=4))
    assert (reading.dtd, reading.driver, reading.cuda, reading.attached_gpus) == ("v12", "570.86.15", "12.8", 4)
    (gpu,) = reading.gpus
    assert (gpu.index, gpu.pci_bus_id, gpu.minor, gpu.serial) == (0, "00000000:10:00.0", "0", "1650000000007")
    assert (gpu.memory_total_mib, gpu.memory_reserved_mib, gpu.memory_used_mib) == (81559, 479, 11125)
    assert (gpu.gpu_util, gpu.persistence, gpu.addressing_mode, gpu.recovery_action) == (
        "65 %",
        "Enabled",
        "None",
        "None",
    )
    assert gpu.fabric is not None
    assert gpu.fabric["health/route_unhealthy"] == "True"
    assert gpu.ecc_errors is not None
    assert gpu.ecc_errors["aggregate_uncorrectable_sram_sources/sram_l2"] == "9"


@pytest.mark.parametrize(
    ("prolog", "dtd"),
    [
        ("", None),
        ('<?xml version="1.0" ?>\n', None),
        ("<!-- nvsmi_device_v11.dtd is not declared -->", None),
        ('<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v7.dtd">\n', "v7"),
        ("<!DOCTYPE nvidia_smi_log SYSTEM 'nvsmi_device_v13.dtd'>", "v13"),
        ('<!DOCTYPE nvidia_smi_log SYSTEM "other.dtd">', None),
        ("<!DOCTYPE nvidia_smi_log [ <!-- nvsmi_device_v9.dtd: <nvidia_smi_log> --> <!ELEMENT gpu (uuid)> ]>", "v9"),
        ("a message first\n", None),
    ],
)
def test_every_kind_of_prolog_is_passed_over_and_names_the_dtd(prolog: str, dtd: str | None) -> None:
    reading = smi_xml.read(f"{prolog}{BODY}")
    assert (reading.dtd, reading.driver, reading.gpus) == (dtd, "1.2", ())


def test_line_ends_of_another_system_change_nothing() -> None:
    text = smi_machines.xml(Card(processes=(Process(5),)))
    assert smi_xml.read(text.replace("\n", "\r\n")) == smi_xml.read(text)


def test_elements_that_a_driver_lacks_are_unknown_and_cost_nothing_else() -> None:
    (gpu,) = smi_xml.read(smi_texts.OLD).gpus
    assert (gpu.uuid, gpu.memory_total_mib) == (smi_texts.uuid(9), 16280)
    assert (gpu.minor, gpu.memory_reserved_mib, gpu.gpu_util, gpu.fabric, gpu.ecc_mode) == (None,) * 5
    assert (gpu.mig_mode_element_present, gpu.mig_current, gpu.mig_devices) == (False, None, ())


def test_the_first_drivers_had_other_names_for_memory_and_processes() -> None:
    text = """<nvidia_smi_log><gpu id="0000:14:00.0"><uuid>GPU-1</uuid>
        <memory_usage><total>5375 MB</total><used>2594 MB</used></memory_usage>
        <compute_processes><process_info><pid>7</pid><process_name>a.out</process_name>
        <used_memory>98 MB</used_memory></process_info></compute_processes></gpu></nvidia_smi_log>"""
    (gpu,) = smi_xml.read(text).gpus
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (5375, 2594)
    assert [(one.pid, one.type, one.name, one.used_mib, one.gi) for one in gpu.processes] == [
        (7, None, "a.out", 98, None)
    ]


def test_the_memory_of_a_mig_card_is_the_cards_own_wherever_the_instances_stand() -> None:
    text = smi_texts.document(smi_texts.card(mig=("Enabled", "Enabled"), instances=[smi_texts.instance(3, 9, 1)]))
    (gpu,) = smi_xml.read(text).gpus
    assert gpu.memory_total_mib == 81559
    (device,) = gpu.mig_devices
    assert (device.index, device.gi, device.ci, device.sm, device.memory_total_mib) == (3, 9, 1, 42, 40192)


@pytest.mark.parametrize("word", ["N/A", "[N/A]", "Not Supported", "[Unknown Error]", "ERR!", "", "9" * 40])
def test_what_is_no_number_is_unknown_and_not_zero(word: str) -> None:
    (gpu,) = smi_xml.read(smi_machines.xml(Card(total=word, used=word, limit=word))).gpus
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.power_limit_w) == (None, None, None)


def test_a_word_in_place_of_the_processes_tells_of_none() -> None:
    silent, empty = smi_xml.read(smi_machines.xml(Card(processes=None), Card(1))).gpus
    assert (silent.processes, silent.processes_told) == ((), False)
    assert (empty.processes, empty.processes_told) == ((), True)


def test_messages_around_the_document_are_passed_over_and_told() -> None:
    text = "Unable to determine the device handle\n" + smi_machines.xml(Card()) + "WARNING: infoROM is corrupted\n"
    assert len(smi_xml.read(text).gpus) == 1
    said = [line for line in smi_xml.around(text).split("\n") if line]
    assert said == ["Unable to determine the device handle", "WARNING: infoROM is corrupted"]


def test_of_two_answers_in_one_text_the_first_is_read() -> None:
    text = smi_machines.xml(Card(), driver="1.0") + smi_machines.xml(Card(), Card(1), driver="2.0")
    reading = smi_xml.read(text)
    assert (reading.driver, len(reading.gpus)) == ("1.0", 1)


def test_a_control_character_in_the_name_of_a_process_costs_nothing() -> None:
    text = smi_machines.xml(Card(processes=(Process(5, name="py\x1bthon\x00"),)))
    (gpu,) = smi_xml.read(text).gpus
    assert [process.name for process in gpu.processes] == ["python"]


@pytest.mark.parametrize("share", range(0, 100, 7))
def test_a_document_that_was_cut_is_refused_and_not_taken_for_fewer_cards(share: int) -> None:
    text = smi_machines.xml(Card(), Card(1, mig=("Enabled", "Enabled"), instances=(Instance(0, 1),)))
    with pytest.raises(Unreadable, match="complete"):
        smi_xml.read(text[: len(text) * share // 100])


@pytest.mark.parametrize("inside", ["<a>", "&amp", "a & b", "&b;", "<gpu id=1></gpu>", "\ud800", "<a\ufffe:/>"])
def test_a_document_that_is_not_well_formed_is_refused(inside: str) -> None:
    with pytest.raises(Unreadable, match="well-formed"):
        smi_xml.read(f"<nvidia_smi_log>{inside}</nvidia_smi_log>")


def test_entities_are_not_expanded() -> None:
    layers = "".join(f'<!ENTITY e{place} "{f"&e{place - 1};" * 10}">' for place in range(1, 12))
    text = f'<!DOCTYPE nvidia_smi_log [<!ENTITY e0 "ha">{layers}]><nvidia_smi_log>&e11;</nvidia_smi_log>'
    with pytest.raises(Unreadable):
        smi_xml.read(text)
    outside = (
        '<!DOCTYPE nvidia_smi_log [<!ENTITY f SYSTEM "file:///etc/hostname">]><nvidia_smi_log>&f;</nvidia_smi_log>'
    )
    with pytest.raises(Unreadable):
        smi_xml.read(outside)


def test_elements_without_end_inside_each_other_are_refused() -> None:
    nested = "<a>" * 5000 + "</a>" * 5000
    with pytest.raises(Unreadable, match="deeper"):
        smi_xml.read(f"<nvidia_smi_log><gpu>{nested}</gpu></nvidia_smi_log>")


@pytest.mark.parametrize(
    ("text", "xml", "whole"),
    [
        (BODY, True, True),
        ("\ufeff\n<?xml", True, False),
        ("<nvidia_smi", True, False),
        (f"Mon Jan  5\n{BODY}", False, True),
        ("hello", False, False),
        ("", False, False),
    ],
)
def test_a_text_is_known_as_xml_and_as_whole(text: str, xml: bool, whole: bool) -> None:
    assert (smi_xml.is_xml(text), smi_xml.is_whole(text)) == (xml, whole)

# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi -q`: a tree by indentation, with values that hold colons and names that changed over the years."""

from __future__ import annotations

import textwrap

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_q
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support import smi_machines
from tests.support.smi_machines import Card, Instance, Process

INSTANCES = (Instance(0, 2), Instance(1, 2, 1, total="N/A"))
PROCESSES = (
    Process(21, name="[worker: a@b:Main] -active- (-A x.y)", gi="2", ci="1"),
    Process(22, name="python -c 'x : y'", kind="C+G", used="N/A"),
    Process(23, name="", kind="G"),
)


def test_a_card_is_read_as_printed() -> None:
    reading = smi_q.read(smi_machines.text(Card(), Card(1), attached=8))
    assert (reading.dtd, reading.driver, reading.cuda, reading.attached_gpus) == (None, "570.86.15", "12.8", 8)
    gpu = reading.gpus[1]
    assert (gpu.index, gpu.pci_bus_id, gpu.minor, gpu.serial) == (1, "00000000:11:00.0", "1", "1650000000007")
    assert (gpu.memory_total_mib, gpu.memory_reserved_mib, gpu.memory_used_mib) == (81559, 479, 11125)
    assert (gpu.gpu_util, gpu.addressing_mode, gpu.recovery_action) == ("65 %", "None", "None")
    assert gpu.fabric is not None
    assert gpu.fabric["Health/Route Recovery in progress"] == "False"
    assert gpu.ecc_errors is not None
    assert gpu.ecc_errors["Volatile/SRAM Uncorrectable SEC-DED"] == "3"
    assert gpu.ecc_errors["Channel Repair Pending"] == "No"


@pytest.mark.parametrize("column", [40, 42, 55, 70])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_column_of_the_colons_and_the_line_ends_change_nothing(column: int, end: str) -> None:
    card = Card(mig=("Enabled", "Enabled"), instances=INSTANCES, processes=PROCESSES)
    text = smi_machines.text(card, column=column).replace("\n", end)
    assert smi_q.read(text) == smi_q.read(smi_machines.text(card))


def test_blanks_that_were_lost_or_added_around_lines_change_nothing() -> None:
    text = smi_machines.text(Card(processes=PROCESSES))
    expected = smi_q.read(text)
    assert smi_q.read("\n".join(line.rstrip() for line in text.splitlines())) == expected
    assert smi_q.read(textwrap.indent(text, "    ")) == expected
    assert smi_q.read(text.replace("    ", "\t")) == expected
    assert smi_q.read(text.replace("        ", "\t")) == expected


def test_processes_keep_colons_and_brackets_and_the_instance_that_was_named_before_them() -> None:
    (gpu,) = smi_q.read(smi_machines.text(Card(processes=PROCESSES))).gpus
    assert [(one.pid, one.type, one.name, one.used_mib, one.gi, one.ci) for one in gpu.processes] == [
        (21, "C", "[worker: a@b:Main] -active- (-A x.y)", 100, 2, 1),
        (22, "C+G", "python -c 'x : y'", None, None, None),
        (23, "G", None, 100, None, None),
    ]


def test_the_memory_of_a_mig_card_is_the_cards_own_and_each_instance_has_its_own() -> None:
    (gpu,) = smi_q.read(smi_machines.text(Card(mig=("Enabled", "Enabled"), instances=INSTANCES))).gpus
    assert gpu.memory_total_mib == 81559
    assert [(one.index, one.gi, one.ci, one.sm, one.memory_total_mib) for one in gpu.mig_devices] == [
        (0, 2, 0, 16, 9984),
        (1, 2, 1, 16, None),
    ]
    assert gpu.ecc_errors is not None
    assert gpu.ecc_errors["Volatile/SRAM Correctable"] == "1"


def test_an_instance_is_named_for_the_process_behind_it_alone() -> None:
    text = "GPU 0000:01:00.0\n  Processes\n    GPU instance ID : 2\n    Process ID : 7\n    Process ID : 8\n"
    (gpu,) = smi_q.read(text).gpus
    assert [(one.pid, one.gi) for one in gpu.processes] == [(7, 2), (8, None)]


@pytest.mark.parametrize(
    ("section", "told"),
    [("Processes : None", True), ("Compute Processes : N/A", False), ("Processes", True), ("Other : 1", False)],
)
def test_no_processes_and_unknown_processes_are_not_the_same(section: str, told: bool) -> None:
    (gpu,) = smi_q.read(f"GPU 0000:01:00.0\n    {section}\n").gpus
    assert (gpu.processes, gpu.processes_told) == ((), told)


def test_a_view_of_one_part_has_no_uuids() -> None:
    text = smi_machines.text(Card())
    head = text[: text.index("    Product Name")]
    reading = smi_q.read(head + "    FB Memory Usage\n        Total      : 10 MiB\n        Used       : 1 MiB\n")
    assert [(gpu.uuid, gpu.memory_total_mib, gpu.mig_mode_element_present) for gpu in reading.gpus] == [
        (None, 10, False)
    ]


def test_the_first_drivers_had_other_names() -> None:
    text = """
==============NVSMI LOG==============

Timestamp                       : Fri Jan  6 18:50:57 2012
Driver Version                  : 290.10
Attached GPUs                   : 1
GPU 0000:01:00.0
    Product Name                : Tesla M2090
    Memory Usage
        Total                   : 5375 MB
        Used                    : 10 MB
    Utilization
        Gpu                     : 0 %
    Temperature
        Gpu                     : 62 C
    Power Readings
        Power Limit             : 225 W
    Compute Processes
        Process ID              : 77
            Name                : ./a.out
            Used GPU Memory     : 5 MB
"""
    (gpu,) = smi_q.read(text).gpus
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.gpu_util) == (5375, 10, "0 %")
    assert (gpu.temperature_c, gpu.power_limit_w) == (62, 225.0)
    assert [(one.pid, one.name, one.used_mib, one.type) for one in gpu.processes] == [(77, "./a.out", 5, None)]


def test_versions_that_are_about_to_go_are_read_without_the_note_behind_them() -> None:
    noted = "610.1 [Deprecated; will be removed. Use KMD Version instead]"
    reading = smi_q.read(smi_machines.text(Card(), driver=noted, cuda="13.3 [Deprecated; use another]"))
    assert (reading.driver, reading.cuda) == ("610.1", "13.3")
    alone = smi_q.read("KMD Version : 611.2\nCUDA UMD Version : 14.0\nAttached GPUs : 0\n")
    assert (alone.driver, alone.cuda, alone.gpus) == ("611.2", "14.0", ())


def test_a_section_before_the_cards_is_none_of_theirs() -> None:
    text = smi_machines.text(Card()).replace(
        "\nAttached GPUs", "vGPU Driver Capability\n        Multi-vGPU      : Supported\n\nAttached GPUs"
    )
    assert smi_q.read(text) == smi_q.read(smi_machines.text(Card()))


def test_a_process_whose_name_has_several_lines_costs_no_other() -> None:
    broken = Process(21, name="python -c\nimport os\nAttached GPUs : 99")
    text = smi_machines.text(Card(processes=(broken, Process(22))), Card(1))
    reading = smi_q.read(text)
    assert reading.attached_gpus == 2
    assert [[(one.pid, one.used_mib) for one in gpu.processes] for gpu in reading.gpus] == [[(21, 100), (22, 100)], []]


@pytest.mark.parametrize("text", ["", "hello : there", "<nvidia_smi_log></nvidia_smi_log>", "GPU 0: A (UUID: B)"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="GPU <bus id>"):
        smi_q.read(text)


def test_lines_without_end_inside_each_other_are_refused() -> None:
    nested = "\n".join(" " * depth + "a" for depth in range(1, 5000))
    with pytest.raises(Unreadable, match="deeper"):
        smi_q.read(f"GPU 0000:01:00.0\n{nested}\n")

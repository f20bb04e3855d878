# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi --query-... --format=csv`: rows with a header or without, cells as printed."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_csv
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_csv import Table


def test_rows_below_a_header_are_objects_without_units_in_their_names() -> None:
    text = "name, pci.baseClass, memory.total [MiB]\r\n\r\nNVIDIA A10, 0x3, 23028 MiB\r\nOdd, [N/A], \r\n"
    assert smi_csv.read(text) == Table(
        3,
        (
            {"name": "NVIDIA A10", "pci.baseClass": "0x3", "memory.total": "23028 MiB"},
            {"name": "Odd", "pci.baseClass": "[N/A]", "memory.total": ""},
        ),
    )


def test_rows_without_a_header_are_lists() -> None:
    assert smi_csv.read("0, NVIDIA A10, [N/A]\n\n1, , 3 %") == Table(
        3, (("0", "NVIDIA A10", "[N/A]"), ("1", "", "3 %"))
    )


@pytest.mark.parametrize("first", ["Name, index", "0, index", "index, used memory", "index, [MiB]"])
def test_a_line_with_a_cell_that_is_no_field_is_a_row(first: str) -> None:
    assert smi_csv.read(first).rows == (tuple(first.split(", ")),)


def test_a_header_alone_has_no_rows() -> None:
    assert smi_csv.read("pid, process_name\n") == Table(2, ())


def test_what_a_row_has_too_many_belongs_to_its_last_cell_and_what_it_lacks_is_unknown() -> None:
    rows = smi_csv.read("pid, process_name\n7, python -c f(a, b)\n8\n").rows
    assert rows == ({"pid": "7", "process_name": "python -c f(a, b)"}, {"pid": "8", "process_name": None})


def test_the_name_of_a_process_may_hold_commas_in_the_middle_of_a_row() -> None:
    rows = smi_csv.read("pid, process_name, used_gpu_memory [MiB]\n7, run a, b, c, 5 MiB\n").rows
    assert rows == ({"pid": "7", "process_name": "run a, b, c", "used_gpu_memory": "5 MiB"},)


def test_a_comma_inside_a_cell_parts_nothing() -> None:
    assert smi_csv.read("a,b, c\n").rows == (("a,b", "c"),)


def test_a_text_without_lines_is_refused() -> None:
    with pytest.raises(Unreadable):
        smi_csv.read(" \n\n")


@pytest.mark.parametrize(
    "text",
    [
        "<?xml version='1.0' ?>\n<nvidia_smi_log>\n",
        "\ufeff\n<nvidia_smi_log>\n",
        "\t\x1b[4mGPU0\tNIC0\x1b[0m\nGPU0\t X \tPIX\t\nNIC0\tPIX\t X \n",
        "GPU 0: NVIDIA A10 (UUID: GPU-0)\n",
        "==============NVSMI LOG==============\n\nTimestamp : Tue\n",
        "+---------------------+\n| NVIDIA-SMI 550.54   |\n",
    ],
)
def test_what_nvidia_smi_prints_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="comma-separated"):
        smi_csv.read(text)

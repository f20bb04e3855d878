# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi prints when something is wrong: the condition, the card, and what it told nevertheless."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_error
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_error import SmiError
from tests.support import smi_machines, smi_tables
from tests.support.smi_machines import Card

XML = smi_machines.xml(Card())
HANDLE = "Unable to determine the device handle for "


def told(text: str) -> tuple[str | None, int | None, str | None]:
    said = smi_error.read(text)
    return said.condition, said.gpu_index, said.bdf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" \n", "empty"),
        (XML[:700], "truncated-xml"),
        ("<?xml version", "truncated-xml"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "driver-not-loaded"),
        ("Failed to initialize NVML: Driver/library version mismatch", "driver-library-mismatch"),
        ("Failed to initialize NVML: Unknown Error", "nvml-init-failed"),
        ("No devices were found", "no-devices"),
        ("No GPU instances found: Not Found", "mig-enabled-no-instances"),
        ("No MIG-supported devices found.", "mig-unsupported"),
        ("Unable to enable MIG Mode for GPU 00000000:21:00.0: Not Supported\nAll done.", "mig-unsupported"),
        ("Failed to display compute instances: Insufficient Permissions", "insufficient-permissions"),
        ("Failed to run topology matrix", "topology-unavailable"),
        ("The -i command line argument must be used in conjunction with -n or -p.", "usage-error"),
        ("ERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.", "usage-error"),
        ('Field "compute_cap" is not a valid field to query.', "usage-error"),
        ("Invalid combination of input arguments. Please run 'nvidia-smi topo -h' for help.", "usage-error"),
        ("0, [Insufficient Permissions], 3 %", None),
        ("0, 31 %, [Unknown Error]", None),
        (XML.replace("65 %", "Insufficient Permissions"), None),
        ("GPU 0000:01:00.0\n    Power Smoothing      : Insufficient Permissions\n", None),
        (smi_tables.card(0, "ERR!", memory="Not Supported"), None),
        ("NVIDIA-SMI has failed because it couldn't communicate with the\nNVIDIA driver.", "driver-not-loaded"),
        (f"{HANDLE}GPU 00000000:21:00.0:\nGPU is lost.", "gpu-lost"),
        ("all is well", None),
    ],
)
def test_a_text_names_its_condition(text: str, expected: str | None) -> None:
    assert smi_error.read(text).condition == expected


def test_of_several_conditions_the_one_that_explains_most_is_named() -> None:
    lost = HANDLE + "GPU3: 0000:5A:00.0: GPU is lost.  Reboot the system"
    text = f"{HANDLE}GPU1: 0000:1A:00.0: Unknown Error\n{lost}\nNo devices were found\n"
    assert told(text) == ("gpu-lost", 3, "0000:5A:00.0")
    assert smi_error.read(text).n_gpus == 0


@pytest.mark.parametrize(
    ("named", "index", "bus_id"),
    [
        ("GPU 0000:0B:00.0", None, "0000:0B:00.0"),
        ("GPU0000:07:00.0", None, "0000:07:00.0"),
        ("GPU1: 0000:34:00.0", 1, "0000:34:00.0"),
        ("GPU12: 00000000:AF:00.0", 12, "00000000:AF:00.0"),
        ("gpu 0009:01:00.0", None, "0009:01:00.0"),
        ("GPU at PCI:0000:10:1c.0", None, "0000:10:1c.0"),
        ("GPU 2: 0000:34:00.0", 2, "0000:34:00.0"),
        ("GPU 000:BA:80.0", None, "000:BA:80.0"),
        ("the card", None, None),
    ],
)
@pytest.mark.parametrize("verb", ["determine", "detect"])
def test_a_message_names_a_card_by_bus_id_and_sometimes_by_index(
    verb: str, named: str, index: int | None, bus_id: str | None
) -> None:
    text = f"Unable to {verb} the device handle for {named}: Unknown Error"
    assert told(text) == ("gpu-handle-error", index, bus_id)


def test_a_message_about_one_card_leaves_the_table_of_the_others() -> None:
    text = smi_tables.whole(
        smi_tables.card(0, "NVIDIA A10"), smi_tables.card(2, "NVIDIA A10"), driver="610.1", new=True
    )
    said = smi_error.read(f"{HANDLE}GPU1: 0000:11:00.0: Unknown Error\n{text}")
    assert (said.condition, said.gpu_index, said.driver, said.n_gpus) == ("gpu-handle-error", 1, "610.1", 2)
    assert [gpu.index for gpu in said.gpus] == [0, 2]


def test_messages_among_rows_are_no_rows_and_a_header_names_the_cells() -> None:
    text = "index, power.draw [W]\n0, 43.33 W\n" + HANDLE + "GPU1: 0000:0A:00.0: GPU is lost, reboot\n2, [N/A]\n"
    assert smi_error.read(text).rows == ({"index": "0", "power.draw": "43.33 W"}, {"index": "2", "power.draw": "[N/A]"})


@pytest.mark.parametrize(
    "line",
    [
        "Treating as warning, moving on.",
        "# collected at noon, by hand",
        "No devices were found, try again",
        "    Clocks, all of them         : 5, 6",
        "<process_name>a, b</process_name>",
        "Mon Jan  5\n    <process_name>a, b</process_name>",
        "|  0   N/A  N/A   77   C   python a, b   5MiB |",
        "attached, or the attached cables are not seated properly.",
        "This container image is (c) 2020-2024, ANY CORPORATION. All rights reserved.",
        "By pulling it, you accept the terms and conditions of this license:",
        'Defaulted container "driver" out of: driver, toolkit, manager (init)',
        'DRIVER version      : Deprecated, see "KMD version" instead',
        "  SYS  = Connection across the interconnect (e.g., QPI/UPI)",
        "C:\\> nvidia-smi --query-gpu=index, name --format=csv",
    ],
)
def test_what_is_no_row_of_values_is_left_out(line: str) -> None:
    assert smi_error.read(line).rows == ()


@pytest.mark.parametrize(
    "line",
    [
        "No, 5",
        "Enabled, 0",
        "0, Orin (nvgpu), [N/A]",
        "All, the, rest",
        "0, [Requested functionality has been deprecated], On",
        "0, Requested functionality has been deprecated, On",
        "7, Not Active, [GPU requires reset]",
    ],
)
def test_a_row_may_begin_with_any_word(line: str) -> None:
    assert smi_error.read(line).rows == (tuple(line.split(", ")),)


def test_versions_are_told_by_tables_messages_and_even_by_broken_xml() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 590.48\n"
    assert smi_error.read(text).nvml_library == "590.48"
    assert smi_error.read(XML[:900]).driver == "570.86.15"
    assert smi_error.read(smi_tables.whole(driver="535.1")).driver == "535.1"
    assert smi_error.read(smi_tables.whole(driver="N/A")).driver is None


def test_nothing_at_all_is_a_reading_too() -> None:
    assert smi_error.read("\x00") == SmiError(None, None, None, None, None, None, (), ())


def test_every_line_about_an_unreachable_card_is_kept() -> None:
    lines = [
        f"{HANDLE}GPU1: 0000:11:00.0: Unknown Error",
        "GPU 00000000:12:00.0",
        f"  {HANDLE}GPU 0000:13:00.0: GPU is lost.  Reboot the system",
    ]
    found = [(one.bdf, one.text) for one in smi_error.unreachable("\n".join(lines))]
    assert found == [("0000:11:00.0", lines[0]), ("0000:13:00.0", lines[2].strip())]


def test_the_cards_that_a_long_answer_describes_are_in_no_message() -> None:
    text = "Attached GPUs                : 1\nGPU 00000000:1C:00.0\n    Fan Speed                : Unknown Error\n"
    assert told(text) == (None, None, None)
    assert told(f"{HANDLE}GPU 0000:2D:00.0: Unknown Error\n{text}") == ("gpu-handle-error", None, "0000:2D:00.0")


def test_a_cut_table_still_counts_its_cards() -> None:
    cut = smi_tables.card(6, "NVIDIA A10", fan="ERR!") + smi_tables.card(7, "NVIDIA A10")
    said = smi_error.read(f"[...]\n{cut}")
    assert (said.condition, said.driver, said.n_gpus) == (None, None, 2)
    assert [(gpu.index, gpu.fan) for gpu in said.gpus] == [(6, "ERR!"), (7, None)]

# SPDX-License-Identifier: Apache-2.0
"""The table of a bare nvidia-smi: its cards, and the rows below that are none."""

from __future__ import annotations

import textwrap

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_table
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_table import TableGpu
from tests.support.smi_tables import INSTANCES, OLD, PROCESSES, card, whole

CARDS = whole(card(0, "NVIDIA H100 80GB HBM3"), card(11, "NVIDIA A10", bus_id="00000000:1B:00.0", fan="0%"))
EXPECTED = (
    TableGpu(0, "NVIDIA H100 80GB HBM3", "00000000:10:00.0", None, 36, 1, 81559, unified=False),
    TableGpu(11, "NVIDIA A10", "00000000:1B:00.0", "0%", 36, 1, 81559, unified=False),
)


def test_every_card_of_a_table_is_read() -> None:
    assert smi_table.gpus(CARDS) == EXPECTED


def test_rows_of_instances_and_of_processes_are_no_cards() -> None:
    assert smi_table.gpus(CARDS + INSTANCES + PROCESSES) == EXPECTED
    assert smi_table.gpus(INSTANCES + PROCESSES) == ()
    assert smi_table.gpus((CARDS + INSTANCES + PROCESSES).replace("\n\n", "\n")) == EXPECTED


def test_an_indented_table_with_other_line_ends_is_the_same() -> None:
    assert smi_table.gpus(textwrap.indent(CARDS, "    ").replace("\n", "\r\n")) == EXPECTED


def test_the_tables_of_old_drivers_tell_megabytes_and_short_bus_ids() -> None:
    assert smi_table.gpus(OLD) == (
        TableGpu(0, "GeForce GTX 680", "0000:03:00.0", "31%", 44, 14, 2047, unified=False),
        TableGpu(1, "Tesla K20c", "0000:04:00.0", "ERR!", 35, 11, 4799, unified=False),
    )
    assert smi_table.driver(OLD) == "319.17"


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("NVIDIA RTX PRO 6000 Blac...", "On"),
        ("NVIDIA GeForce RTX 3050 ...", "WDDM"),
        ("NVIDIA A100-PCI...", "Off"),
        ("ERR!", "Off"),
        ("NVIDIA TITAN V", "N/A"),
    ],
)
def test_a_name_is_kept_as_printed_and_the_mode_behind_it_is_not(name: str, mode: str) -> None:
    (gpu,) = smi_table.gpus(whole(card(3, name, mode=mode)))
    assert (gpu.index, gpu.name) == (3, name)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("Not Supported", (None, None, True)),
        ("N/A /      N/A", (None, None, False)),
        ("ERR!", (None, None, False)),
        ("102MiB / 131072MiB", (102, 131072, False)),
    ],
)
def test_memory_that_is_not_told_is_unknown_and_shared_memory_is_known_as_such(
    memory: str, expected: tuple[int | None, int | None, bool]
) -> None:
    (gpu,) = smi_table.gpus(whole(card(0, "NVIDIA GB10", memory=memory, fan="ERR!", temperature="ERR!")))
    assert (gpu.memory_used_mib, gpu.memory_total_mib, gpu.unified) == expected
    assert (gpu.fan, gpu.temp_c) == ("ERR!", None)


def test_a_card_whose_second_line_was_cut_off_is_still_a_card() -> None:
    text = CARDS[: CARDS.index("| N/A")]
    assert [(gpu.index, gpu.temp_c, gpu.unified) for gpu in smi_table.gpus(text)] == [(0, None, False)]


def test_a_table_without_its_head_is_read_by_the_bus_ids() -> None:
    headless = CARDS[CARDS.index("|   0") :]
    assert smi_table.gpus(f"$ nvidia-smi\n[...]\n{headless}{INSTANCES}{PROCESSES}") == EXPECTED
    assert smi_table.gpus(card(0, "Orin (nvgpu)", bus_id="N/A")) == ()


def test_a_card_without_a_bus_id_is_one_below_a_head() -> None:
    (gpu,) = smi_table.gpus(whole(card(0, "Orin (nvgpu)", mode="N/A", bus_id="N/A", memory="Not Supported")))
    assert (gpu.name, gpu.bdf, gpu.unified) == ("Orin (nvgpu)", None, True)


def test_a_message_or_blank_lines_within_a_table_hide_no_card() -> None:
    place = CARDS.index("|  11")
    assert smi_table.gpus(f"{CARDS[:place]}Unable to read a sensor\n{CARDS[place:]}") == EXPECTED
    assert smi_table.gpus(CARDS.replace("\n", "\n\n")) == EXPECTED


def test_a_virtual_gpu_below_its_card_tells_nothing_about_the_card() -> None:
    text = """
| GPU  Name                       | Bus-Id                       | GPU-Util   |
|      vGPU ID     Name           | VM ID     VM Name            | vGPU-Util  |
|=================================+==============================+============|
|   4  NVIDIA A16                 | 00000000:41:00.0             |   0%       |
|      3251630001  NVIDIA A16-4C  | 7d1f  build-7                |      0%    |
"""
    assert smi_table.gpus(text) == (
        TableGpu(4, "NVIDIA A16", "00000000:41:00.0", None, None, None, None, unified=False),
    )

# SPDX-License-Identifier: Apache-2.0
"""Numbers of meminfo; one that is not there, or not whole, is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import meminfo
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

TEXT = """MemTotal:       4096 kB
MemFree:         100 kB
MemAvailable:   3000 kB
Buffers:           7 kB
Active(anon):     11 kB
SwapTotal:         0 kB
HugePages_Total:     512
HugePages_Free:       12
Hugepagesize:       2048 kB
Hugetlb:         1048576 kB
"""


def test_numbers_are_told_as_printed() -> None:
    found = meminfo.read(TEXT)
    assert (found.mem_total_kb, found.mem_available_kb, found.mem_free_kb) == (4096, 3000, 100)
    assert (found.hugepages_total, found.hugepages_free, found.hugepagesize_kb, found.hugetlb_kb) == (
        512,
        12,
        2048,
        1048576,
    )


def test_none_is_a_number_and_absent_is_unknown() -> None:
    found = meminfo.read(TEXT)
    assert (found.swap_total_kb, found.swap_free_kb, found.cached_kb) == (0, None, None)


@pytest.mark.parametrize("end", ["MemAvailable:   30", "MemAvailable:   3000 k", "MemAvailable: lots kB", "MemAvail"])
def test_a_number_that_is_cut_off_is_unknown(end: str) -> None:
    found = meminfo.read(f"MemTotal: 4096 kB\n{end}")
    assert (found.mem_total_kb, found.mem_available_kb) == (4096, None)


def test_a_number_without_a_unit_is_whole_when_more_follows() -> None:
    assert meminfo.read("MemTotal: 4096\nMemFree: 100\n").mem_total_kb == 4096


def test_memory_of_a_numa_node_is_read_and_the_first_node_counts() -> None:
    text = "".join(
        f"Node {node} MemTotal:       {4096 + node} kB\nNode {node} HugePages_Total:     {node + 2}\n"
        for node in range(2)
    )
    found = meminfo.read(text)
    assert (found.mem_total_kb, found.hugepages_total, found.mem_available_kb) == (4096, 2, None)


def test_the_first_of_two_lines_counts() -> None:
    assert meminfo.read("MemTotal: 1 kB\nMemTotal: 2 kB\n").mem_total_kb == 1


@pytest.mark.parametrize("text", ["", "total used free\n", "MemTotal 4096 kB\n", "MemTotal: \u0664 kB\n"])
def test_another_text_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        meminfo.read(text)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    for tried in (text, TEXT + text, TEXT.replace("4096", text)):
        try:
            meminfo.read(tried)
        except Unreadable:
            continue

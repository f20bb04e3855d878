# SPDX-License-Identifier: Apache-2.0
"""What infiniband-diags print about a subnet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import ib_tools
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

REPORT = """SW     4  7 0x00a1000000000001 4x NDR                                    'leaf'
SW     4  2 0x00a1000000000001 4x NDR - CA    12  2 0x00b83f0000000002 ( 'leaf' - 'x - CA 1 1 0x00000000000000ff' )
CA    12  2 0x00b83f0000000002 4x NDR - SW     4  2 0x00a1000000000001 ( 'tray-b' - 'leaf' )
CA    11  1 0x00B83F0000000001 4x NDR - SW     4  1 0x00a1000000000001 ( 'tray-a' - 'leaf' )
"""


def test_the_subnet_manager_is_told_by_its_port_guid() -> None:
    text = "sminfo: sm lid 1 sm guid 0xa1000000000009, activity count 5 priority 0 state 3 SMINFO_MASTER\n"
    assert ib_tools.subnet_manager(text) == "0x00a1000000000009"


def test_the_ports_of_adapters_are_told_once_each_and_those_of_switches_not() -> None:
    assert ib_tools.adapter_ports(REPORT) == ("0x00b83f0000000001", "0x00b83f0000000002")


@pytest.mark.parametrize(
    ("kind", "expected"), [("Switch", "0x00a1000000000001"), ("2", "0x00a1000000000001"), ("Channel Adapter", None)]
)
def test_a_neighbour_is_told_when_it_is_a_switch(kind: str, expected: str | None) -> None:
    text = f"# Node info: DR path 0,1\nNodeType:....{kind}\nGuid:....0x00a1000000000001\nPortGuid:....0x1\n"
    assert ib_tools.neighbour_switch(text) == expected


@pytest.mark.parametrize("text", ["0xB83FD20300000001", "b83f:d203:0000:0001", "b83fd20300000001"])
def test_a_guid_has_one_form(text: str) -> None:
    assert ib_tools.guid(text) == "0xb83fd20300000001"


READERS: list[Callable[[str], object]] = [ib_tools.subnet_manager, ib_tools.neighbour_switch, ib_tools.adapter_ports]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "sminfo: iberror: failed: query",
        "ibnetdiscover: iberror: failed: discover failed",
        "Ca : 0x00a1 ports 1",
        "sm guid 0x0",
    ],
)
def test_what_went_wrong_is_refused(reader: Callable[[str], object], text: str) -> None:
    with pytest.raises(Unreadable):
        reader(text)


@given(st.text(max_size=200), st.integers(0, 600))
def test_any_text_gives_a_reading_or_the_readers_own_error(noise: str, place: int) -> None:
    for reader in READERS:
        try:
            reader(REPORT[: place % len(REPORT)] + noise)
        except Unreadable:
            continue

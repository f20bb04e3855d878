# SPDX-License-Identifier: Apache-2.0
"""What `nvidia-smi nvlink -s` says of links: active, inactive, none, and unknown."""

from __future__ import annotations

import contextlib
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import nvlink
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.nvlink import CardLinks
from tests.support.smi_texts import uuid


def card(number: int, *links: str, name: str = "NVIDIA H100 80GB HBM3", before: str = "\t ") -> str:
    listed = "".join(f"{before}Link {link}: {state}\n" for link, state in enumerate(links))
    return f"GPU {number}: {name} (UUID: {uuid(number)})\n{listed}"


def test_links_are_counted_by_card() -> None:
    text = card(0, "26.562 GB/s", "26.562 GB/s") + card(3, "25 GB/s", "<inactive>", "26.562 GB/s", before=" " * 9)
    assert asdict(nvlink.read(text)) == {
        "gpus": (
            {
                "index": 0,
                "name": "NVIDIA H100 80GB HBM3",
                "n_links": 2,
                "active_links": 2,
                "gbps_per_link": (26.562,),
                "uuid": uuid(0),
                "notes": (),
            },
            {
                "index": 3,
                "name": "NVIDIA H100 80GB HBM3",
                "n_links": 3,
                "active_links": 2,
                "gbps_per_link": (25.0, 26.562),
                "uuid": uuid(3),
                "notes": (),
            },
        ),
        "messages": (),
    }


@pytest.mark.parametrize("state", ["<inactive>", "<inActive>", "inactive", "", "disabled"])
def test_a_link_without_a_speed_is_inactive(state: str) -> None:
    (only,) = nvlink.read(card(0, state, state)).gpus
    assert (only.n_links, only.active_links, only.gbps_per_link) == (2, 0, ())


def test_a_card_without_nvlink_has_none_and_the_message_is_kept() -> None:
    read = nvlink.read(f"{card(0, name='NVIDIA L40S')}Device does not have or support Nvlink\n")
    assert read.gpus == (CardLinks(0, "NVIDIA L40S", 0, 0, (), uuid(0), ("Device does not have or support Nvlink",)),)
    assert read.messages == ("Device does not have or support Nvlink",)


@pytest.mark.parametrize(
    "message",
    [
        "NVLink operations are not supported for Devices in MIG mode",
        "\tNVML: Unable to retrieve NVLink information: Not supported for devices in MIG mode.",
        "GPU 1: NVLink is not supported for Devices in MIG mode",
    ],
)
def test_links_of_a_card_in_mig_mode_are_unknown_and_those_of_others_are_not(message: str) -> None:
    read = nvlink.read(f"{card(0, '25 GB/s')}{card(1)}{message}\n{card(2, '25 GB/s')}")
    assert [(one.n_links, one.active_links, one.gbps_per_link) for one in read.gpus] == [
        (1, 1, (25.0,)),
        (None, None, ()),
        (1, 1, (25.0,)),
    ]
    assert read.messages == (message.strip(),)


def test_what_stands_behind_the_uuid_is_no_part_of_the_name() -> None:
    line = card(0, name="NVIDIA L40S").rstrip()
    no_nvlink, in_mig_mode = " Device does not have or support Nvlink\n", " not supported for Devices in MIG mode\n"
    assert nvlink.read(line + no_nvlink).gpus[0] == nvlink.read(f"{line}\n{no_nvlink}").gpus[0]
    assert nvlink.read(line + in_mig_mode).gpus[0] == nvlink.read(f"{line}\n{in_mig_mode}").gpus[0]


def test_a_message_before_the_first_card_belongs_to_none() -> None:
    read = nvlink.read(f"a warning\n{card(0, '25 GB/s')}")
    assert (read.messages, read.gpus[0].notes) == (("a warning",), ())


def test_line_ends_of_another_system_and_a_missing_last_one_change_nothing() -> None:
    text = card(0, "25 GB/s", "<inactive>")
    assert nvlink.read(text.replace("\n", "\r\n").rstrip()) == nvlink.read(text)


def test_a_cut_uuid_costs_the_uuid_alone() -> None:
    read = nvlink.read(card(0, "25 GB/s") + card(1)[:38])
    assert [(one.index, one.name) for one in read.gpus] == [(0, "NVIDIA H100 80GB HBM3"), (1, "NVIDIA H100 80GB HBM3")]


def test_what_says_nothing_of_nvlink_is_refused() -> None:
    for text in ("", "\n", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."):
        with pytest.raises(Unreadable, match="neither a card nor a word of NVLink"):
            nvlink.read(text)


MATRIX = """\tGPU0\tGPU1\tCPU Affinity
GPU0\t X \tNV18\t0-7
GPU1\tNV18\t X \t0-7

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def test_a_topology_matrix_speaks_of_nvlink_and_is_refused() -> None:
    for text in (MATRIX, MATRIX.replace("\t", "    "), MATRIX[MATRIX.index("Legend") :]):
        with pytest.raises(Unreadable, match="topology matrix"):
            nvlink.read(text)


@pytest.mark.parametrize("message", ["NVML: Unable to retrieve NVLink information", "No NVLinks. X = 1, NV18"])
def test_a_message_about_nvlink_alone_is_a_reading(message: str) -> None:
    assert nvlink.read(message) == nvlink.NvlinkStatus((), (message,))


@given(
    st.text()
    | st.lists(st.sampled_from(["GPU 0: x", "Link 1: ", "9 GB/s", "\n", "(UUID: ", "MIG mode", " "])).map("".join)
)
def test_no_text_makes_the_reader_raise_anything_else(text: str) -> None:
    with contextlib.suppress(Unreadable):
        nvlink.read(text)

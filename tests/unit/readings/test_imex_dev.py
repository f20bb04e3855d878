# SPDX-License-Identifier: Apache-2.0
"""IMEX channels: in /proc/devices, in a listing, in both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import imex_dev
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.imex_dev import ImexDevices

PROC = "Character devices:\n195 nvidia\n236 nvidia-caps\n237 nvidia-caps-imex-channels\n\nBlock devices:\n  8 sd\n"
LISTING = """/dev/nvidia-caps-imex-channels:
total 0
drwxr-xr-x  2 root root      100 Jan  2 03:04 .
crw-rw-rw-. 1 root root 239, 2047 Jan  2 03:04 channel2047
crw-rw-rw-  1 root root 239,    0 2026-01-02 03:04 channel0
crw-rw-rw-  1 0    0    239,   10 Jan  2 03:04 /dev/nvidia-caps-imex-channels/channel10
"""


def test_one_name_is_the_beginning_of_the_other() -> None:
    assert imex_dev.read(PROC) == ImexDevices(237, 236, ())
    assert imex_dev.read("236 nvidia-caps\n") == ImexDevices(None, 236, ())


def test_a_listing_tells_the_channels_and_their_major_number() -> None:
    assert imex_dev.read(LISTING) == ImexDevices(239, None, (0, 10, 2047))


def test_the_registered_major_number_counts_more_than_that_of_old_files() -> None:
    assert imex_dev.read(PROC + LISTING) == ImexDevices(237, 236, (0, 10, 2047))


def test_names_alone_tell_channels_without_a_number() -> None:
    assert imex_dev.read("channel1  channel0\n/dev/nvidia-caps-imex-channels/channel7\n") == ImexDevices(
        None, None, (0, 1, 7)
    )


def test_devices_of_another_kind_are_no_channels() -> None:
    text = "cr-------- 1 root root 236, 1 Jan  2 03:04 nvidia-cap1\n"
    assert imex_dev.read(text) == ImexDevices()


@pytest.mark.parametrize(
    "text",
    [
        "ls: cannot access '/dev/nvidia-caps-imex-channels/channel0': No such file or directory",
        "mknod /dev/nvidia-caps-imex-channels/channel0 c 237 0",
    ],
)
def test_a_channel_that_is_only_spoken_of_is_not_there(text: str) -> None:
    assert imex_dev.read(text).channels == ()


@pytest.mark.parametrize("text", ["", "\n", "command not found", "total"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        imex_dev.read(text)


@given(st.binary(max_size=200), st.integers(0, 500))
def test_any_bytes_give_a_reading_or_the_readers_own_error(noise: bytes, place: int) -> None:
    whole = PROC + LISTING
    try:
        found = imex_dev.read(whole[: place % len(whole)] + noise.decode("utf-8", "replace"))
    except Unreadable:
        return
    assert list(found.channels) == sorted(set(found.channels))

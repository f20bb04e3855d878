# SPDX-License-Identifier: Apache-2.0
"""What the kernel log says of cards, in every form in which its readers print it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import kernel_log
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.kernel_log import Entry, pci_key

FELL = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOADS = "nvidia-nvlink: Nvlink Core is being initialized, major device number 508"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (builder@host)"


def entries(text: str) -> list[Entry]:
    return list(kernel_log.read(text).entries)


def kinds(*lines: str) -> list[str]:
    return [entry.kind for entry in entries("".join(f"[    {at}.000000] {line}\n" for at, line in enumerate(lines)))]


@pytest.mark.parametrize(
    ("before", "seconds", "unix"),
    [
        ("[ 1234.500000] ", 1234.5, None),
        ("[ 1234.500000][    T1] ", 1234.5, None),
        ("kern  :err   : [ 1234.500000] ", 1234.5, None),
        ("<3>[ 1234.500000] ", 1234.5, None),
        ("[ 1234.500000] node7 kernel: ", 1234.5, None),
        ("[ 9000.000000] node7 kernel: [ 1234.500000] ", 1234.5, None),
        ("3,871,1234500000,-;", 1234.5, None),
        ("3,871,1234500000,c,caller=T1;", 1234.5, None),
        ("1767607200.250000 node7 kernel: ", None, 1767607200.25),
        ("2026-01-05T10:00:00,250000+00:00 ", None, 1767607200.25),
        ("2026-01-05T12:00:00+0200 node7 kernel: ", None, 1767607200.0),
        ("2026-01-05T04:30:00-05:30 node7 kernel: ", None, 1767607200.0),
        ("2026-01-05T10:00:00Z node7 kernel: ", None, 1767607200.0),
        ("2026-13-99T10:00:00Z node7 kernel: ", None, None),
        ("Jan  5 10:00:00 node7 kernel: [ 1234.500000] ", 1234.5, None),
        ("Jan  5 10:00:00 node7 kernel: ", None, None),
        ("[Mon Jan  5 10:00:00 2026] ", None, None),
        ("", None, None),
    ],
)
def test_the_time_is_read_in_every_form_and_the_host_is_left_out(
    before: str, seconds: float | None, unix: float | None
) -> None:
    (entry,) = entries(f"{before}{FELL}\n")
    assert (entry.seconds, entry.unix) == (seconds, unix)
    assert (entry.kind, entry.code, entry.pci, entry.message) == ("xid", 79, "0000:3b:00", FELL)


@pytest.mark.parametrize(
    ("line", "pci", "code"),
    [
        ("NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus", "0000:03:00", 79),
        ("NVRM: Xid (0000:03:00): 31", "0000:03:00", 31),
        (
            "NVRM: Xid (PCI:0000:3B:00.0): 48, An uncorrectable double bit error (DBE) has been detected",
            "0000:3b:00",
            48,
        ),
        ("NVRM: Xid (PCI:0000000F:01:00): 119, Timeout waiting for RPC from GSP!", "000f:01:00", 119),
        ("NVRM: NVRM: Xid (PCI:0019:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08", "0019:01:00", 149),
        ("NVRM: Xid (PCI:0000:10:1c): 63, pid=1, Row Remapper: New row marked for remapping", "0000:10:1c", 63),
        ("NVRM: Xid (0003:00): 6, PE0001", None, 6),
    ],
)
def test_an_xid_names_card_and_code(line: str, pci: str | None, code: int) -> None:
    (entry,) = entries(f"{line}\n")
    assert (entry.kind, entry.pci, entry.code) == ("xid", pci, code)


def test_in_mig_mode_an_xid_names_the_instance_beside_the_card() -> None:
    (entry,) = entries("[ 1.0] NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7, name=python3, Contained: SM (0x1)\n")
    assert (entry.pci, entry.code) == ("0000:3b:00", 94)
    assert "GPU-I:05" in entry.message


@pytest.mark.parametrize("line", [FELL[: FELL.index("79") + length] for length in (2, 1, 0, -9)])
def test_a_number_that_is_cut_by_the_end_of_the_text_is_not_read(line: str) -> None:
    assert entries(f"[ 1.0] {FELL}\n[ 2.0] {line}") == entries(f"[ 1.0] {FELL}\n")


def test_lines_of_others_that_speak_of_xids_are_passed_over() -> None:
    assert entries("Xid (PCI:0000:3b:00): 79, x\nsystemd: Xid (PCI:0000:3b:00): 79, x\nNVRM: Xid (PCI): 79, x\n") == []


def test_an_error_of_a_switch_is_none_of_a_card() -> None:
    (entry,) = entries(
        "[ 9.5] nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate\n"
    )
    assert (entry.kind, entry.pci, entry.code, entry.seconds) == ("sxid", "0000:c3:00", 20009, 9.5)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU at 0000:3b:00.0 has fallen off the bus.",
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        (
            "NVRM: The NVIDIA GPU 0000:3b:00.0\n               NVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "               NVRM: fallen off the bus and is not responding to commands."
        ),
        (
            "NVRM: The NVIDIA GPU 0000:3b:00.0\n[    5.0] NVRM: (PCI ID: 10de:2330) installed in this system has\n"
            "[    5.0] NVRM: fallen off the bus and is not responding to commands."
        ),
    ],
)
def test_a_card_can_fall_off_the_bus_without_an_xid(line: str) -> None:
    (entry,) = entries(f"[    5.0] {line}\n[    6.0] usb 1-1: new device\n")
    assert (entry.kind, entry.pci, entry.seconds) == ("off-bus", "0000:3b:00", 5.0)


def test_lines_that_go_on_belong_to_the_message_before_them() -> None:
    (entry,) = entries(
        "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed\n"
        "       from 0x0 (None) to 0x1 (GPU Reset Required)\n[ 2.0] eth0: up\n   and more of that\n"
    )
    assert entry.message.endswith("changed from 0x0 (None) to 0x1 (GPU Reset Required)")


def test_repetitions_that_the_log_counted_are_counted() -> None:
    (entry,) = entries(
        "Jan  5 10:00:00 node7 rsyslogd: message repeated 12 times: [ NVRM: Xid (PCI:0000:3b:00): 31, Ch 1]\n"
    )
    assert (entry.count, entry.message) == (12, "NVRM: Xid (PCI:0000:3b:00): 31, Ch 1")


def test_each_load_of_the_driver_is_one_event_where_it_began() -> None:
    fell = "NVRM: GPU at 0000:3b:00.0 has fallen off the bus."
    assert kinds(LOADS, LOADED) == ["driver-loaded"]
    assert kinds(LOADED, FELL, LOADED) == ["driver-loaded", "xid", "driver-loaded"]
    assert kinds(LOADS, fell, LOADED) == ["driver-loaded", "off-bus"]
    assert kinds(LOADS, LOADED, FELL, LOADS, fell, LOADED) == ["driver-loaded", "xid", "driver-loaded", "off-bus"]


def test_a_card_that_the_kernel_finds_is_an_event() -> None:
    assert kinds("pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200", "pci 0000:3c:00.0: [15b3:1021] type 00") == [
        "card-found"
    ]


def test_messages_are_bounded() -> None:
    (entry,) = entries(f"[ 1.0] {FELL}{'x' * 5000}\n" + "  more\n" * 1000)
    assert len(entry.message) == 200


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("[    0.000000] Linux version 6.1\n[   10.5] x\n", 0.0),
        ("[ 8000.5] x\n[ 9000.0] y\n", 8000.5),
        ("6,1,8000500000,-;x\n", 8000.5),
        ("Linux version 6.1\n", None),
        ("", None),
    ],
)
def test_where_the_log_begins_is_told(text: str, begins: float | None) -> None:
    assert kernel_log.read(text).begins == begins


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("00000000:3B:00.0", "0000:3b:00"),
        ("0000:3b:00", "0000:3b:00"),
        ("0000000F:01:00.0", "000f:01:00"),
        ("00010000:01:00.0", "10000:01:00"),
        ("10000:01:00.0", "10000:01:00"),
        ("3b:00.0", None),
        ("", None),
        (None, None),
    ],
)
def test_addresses_of_all_forms_have_one_key(address: str | None, key: str | None) -> None:
    assert pci_key(address) == key


PIECES = [
    "NVRM: ",
    "Xid (PCI:0000:3b:00): ",
    "79,",
    "[ 1.5] ",
    "\n",
    " ",
    "2026-02-31T10:00:00Z ",
    "pci 0000:3b:00.0: [10de:",
]


@given(st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=30).map("".join))
def test_every_text_is_readable(text: str) -> None:
    assert all(len(entry.message) <= 200 for entry in kernel_log.read(text).entries)

# SPDX-License-Identifier: Apache-2.0
"""Which ports the program of the role node asks the kernel to leave alone, and which files it leaves."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

PROGRAM = Path(__file__).parents[3] / "collections/ansible_collections/llmgw/fleet/roles/node/files/reserved_ports.py"
OWN = runpy.run_path(str(PROGRAM))
ENGINES = set(range(18000, 19000))
WIDE, USUAL = "1024\t65535\n", "32768\t60999\n"


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    folder = tmp_path / "ipv4"
    folder.mkdir()
    (folder / "ip_local_port_range").write_text(WIDE)
    (folder / "ip_local_reserved_ports").write_text("\n")
    return folder


def reserve(kernel: Path, *, check: bool = False, ports: set[int] = ENGINES) -> dict[str, Any]:
    answer: dict[str, Any] = OWN["reserve"](ports, kernel.parent / "sysctl.d/90-llmgw.conf", kernel, check=check)
    return answer


def now(kernel: Path) -> str:
    return (kernel / "ip_local_reserved_ports").read_text().strip()


def test_ports_that_the_kernel_would_hand_out_are_reserved_now_and_at_every_boot(kernel: Path) -> None:
    assert reserve(kernel) == {"changed": True, "note": None}
    assert now(kernel) == "18000-18999"
    last = (kernel.parent / "sysctl.d/90-llmgw.conf").read_text().splitlines()[-1]
    assert last == "net.ipv4.ip_local_reserved_ports = 18000-18999"
    assert reserve(kernel) == {"changed": False, "note": None}


def test_what_was_reserved_before_stays_reserved(kernel: Path) -> None:
    (kernel / "ip_local_reserved_ports").write_text("8080,18999-19005\n")
    reserve(kernel)
    assert now(kernel) == "8080,18000-19005"


def test_where_no_port_of_the_range_is_handed_out_nothing_is_done_and_an_older_file_goes(kernel: Path) -> None:
    reserve(kernel)
    (kernel / "ip_local_port_range").write_text(USUAL)
    assert reserve(kernel, check=True)["changed"] is True
    assert reserve(kernel)["changed"] is True
    assert not (kernel.parent / "sysctl.d/90-llmgw.conf").exists()
    assert reserve(kernel)["changed"] is False


def test_check_mode_promises_what_is_then_done_and_does_nothing(kernel: Path) -> None:
    assert reserve(kernel, check=True)["changed"] is True
    assert (now(kernel), (kernel.parent / "sysctl.d").exists()) == ("", False)


def test_a_kernel_that_forgot_is_told_again(kernel: Path) -> None:
    reserve(kernel)
    (kernel / "ip_local_reserved_ports").write_text("\n")
    assert reserve(kernel)["changed"] is True
    assert now(kernel) == "18000-18999"


@given(st.frozensets(st.integers(1, 65535), min_size=1, max_size=40))
def test_a_list_of_ports_is_read_back_as_it_was_written(numbers: frozenset[int]) -> None:
    assert OWN["ports"](OWN["listed"](numbers)) == numbers


@pytest.mark.parametrize("text", ["", "18999-18000", "0-10", "80-65536", "ports", "1-99999999999999"])
def test_a_range_that_is_none_is_refused_with_an_example(text: str) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, text, "/nowhere"], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 1
    assert done.stderr == f"llmgw_port_range is {text!r}: write the first and the last port, such as 18000-18999\n"

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import HostChange, Step, WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.port_conflicts import conflicts, ports_of
from tests.support.fake_host import FakeHost
from tests.unit.module_utils.test_port_owner import HEAD, line
from tests.unit.module_utils.unit_texts import NAME, wanted

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables here are of a little-endian machine")

OTHER = "llmgw-chat.1.0.service"


def machine(unit: str = "sshd.service") -> FakeHost:
    """Process 9 of a unit listens on 10.0.0.1:18000."""
    files = {
        "/proc/net/tcp": HEAD + line("0100000A", 18000, 90),
        "/proc/9/cgroup": f"0::/system.slice/{unit}\n",
        "/proc/9/comm": "nginx\n",
    }
    return FakeHost(files, links={"/proc/9/fd/5": "socket:[90]"})


def change(*steps: Step) -> HostChange:
    return HostChange(steps)


@pytest.mark.parametrize("action", ["created", "restarted", "started"])
def test_a_unit_on_a_port_that_another_process_has_is_not_started(action: str) -> None:
    found = conflicts(machine(), change(Step(NAME, action, wanted(), None)))
    assert list(found) == [NAME]
    assert found[NAME].startswith("port 18000 is taken by nginx (process 9), so nothing was touched. End that process")


@pytest.mark.parametrize("action", ["kept", "rewritten"])
def test_a_unit_that_goes_on_is_no_conflict(action: str) -> None:
    assert conflicts(machine(), change(Step(NAME, action, wanted(), None))) == {}


def test_its_own_process_gives_way() -> None:
    assert conflicts(machine(NAME), change(Step(NAME, "restarted", wanted(), None))) == {}


@pytest.mark.parametrize(("action", "free"), [("removed", True), ("restarted", True), ("kept", False)])
def test_a_port_of_a_unit_that_stops_in_the_same_change_is_free_by_then(action: str, free: bool) -> None:
    other = Step(OTHER, action, None if action == "removed" else wanted("/bin/other", name=OTHER), None)
    moved = replace(other, wanted=None) if action != "kept" else other
    found = conflicts(machine(OTHER), change(Step(NAME, "created", wanted(), None), moved))
    assert (NAME not in found) is free


def member(rank: int) -> WantedUnit:
    unit = wanted()
    header = unitfile.parse(unit.text)._replace(rank=rank, members=2, group="sha256:g")
    kind = "leader" if rank else "http"
    return replace(unit, text=unitfile.section(header), readiness=replace(unit.readiness, kind=kind))


def test_members_of_a_group_need_the_ports_of_its_guard_and_of_the_meeting() -> None:
    assert ports_of(wanted()) == (18000,)
    assert ports_of(member(0)) == (18000, 18001, 18002)
    assert ports_of(member(1)) == (18002,)


@pytest.mark.parametrize(
    ("command", "ports"),
    [
        ("vllm serve m --data-parallel-size 2 --data-parallel-rpc-port 18001", (18000, 18001)),
        ("vllm serve m --data-parallel-rpc-port=18001 --x", (18000, 18001)),
        ("vllm serve m --note data-parallel-rpc-port 18001", (18000,)),
    ],
)
def test_copies_in_one_engine_need_the_port_by_which_they_are_reached(command: str, ports: tuple[int, ...]) -> None:
    assert ports_of(wanted(command)) == ports

# SPDX-License-Identifier: Apache-2.0
"""A replica over several nodes is changed by one call on each: what fails on one is put back on all (R4, R7)."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
from tests.systemd.node import Node, Outcome, Wrapped
from tests.systemd.test_groups import LIMIT_S, Group, until

DIES = f"{sys.executable} -c 'import time; time.sleep(1); raise SystemExit(3)'"
NOT_THERE = "/nonexistent/engine"


def members(group: Group, engine: str, digest: str = "sha256:two", *, ready_s: float = 30) -> list[WantedUnit]:
    """Another version of a group of two, whose leader's engine is this command."""
    ports = [f"--member {rank}=127.0.0.1:{port}" for rank, port in enumerate(group.guards)]
    found = []
    for rank, command in enumerate((engine, "/bin/sleep 1000")):
        told = f"--group {digest} --rank {rank} {' '.join(ports)} --stop-timeout 20"
        program = f"/usr/bin/env python3 -I {group.node.state_dir}/guard.py {told} -- {command}"
        kind = "leader" if rank else "http"
        readiness = Readiness(
            kind, "127.0.0.1", group.port, expect_model="group", start_timeout_s=5, ready_timeout_s=ready_s
        )
        found.append(group.node.unit(f"rank{rank}", program, readiness, stop_s=30, members=2))
    return found


@pytest.fixture
def hosts(node: Node, wrapped: Wrapped, tmp_path: Path) -> list[Node]:
    """Two hosts with one manager and state directories of their own, as far as calls can tell."""
    other = Node(wrapped, tmp_path / "other")
    other.state_dir.mkdir()
    for folder in ("logs", "guard.py"):
        (other.state_dir / folder).symlink_to(node.state_dir / folder)
    return [node, other]


def apply(hosts: list[Node], units: list[WantedUnit]) -> list[Outcome]:
    """One call on each host at the same time; each has one unit."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        calls = [pool.submit(host.apply, [unit]) for host, unit in zip(hosts, units, strict=True)]
        return [call.result() for call in calls]


def ends(outcomes: list[Outcome]) -> list[tuple[str, bool | None]]:
    return [(result.state, result.put_back) for outcome in outcomes for result in outcome.results.values()]


def test_a_follower_is_ready_once_its_leader_serves_and_stays_so(hosts: list[Node]) -> None:
    group = Group(hosts[0], 2, load_s=1.0)
    outcomes = apply(hosts, group.units)
    assert ends(outcomes) == [("ready", None), ("ready", None)]
    follower = outcomes[1].results[group.units[1].name]
    assert follower.detail == f"of its leader at 127.0.0.1:{group.port}: it serves group"
    assert group.serves
    again = apply(hosts, group.units)
    assert [(one.changed, ends([one])) for one in again] == [(False, [("ready", None)])] * 2


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("engine", "ready_s"), [(DIES, 60), ("/bin/sleep 1000", 8), (NOT_THERE, 60)])
def test_a_new_version_whose_leader_fails_is_put_back_on_all_hosts(
    hosts: list[Node], engine: str, ready_s: float
) -> None:
    group = Group(hosts[0], 2)
    apply(hosts, group.units)
    assert group.serves
    outcomes = apply(hosts, members(group, engine, ready_s=ready_s))
    assert ends(outcomes) == [("failed", True), ("failed", True)], [one.results for one in outcomes]
    assert [(group.node.unit_dir / unit.name).read_text() for unit in group.units] == [one.text for one in group.units]
    until("the old group to serve", lambda: group.serves)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_leader_of_the_group_before_makes_no_follower_ready(hosts: list[Node]) -> None:
    group = Group(hosts[0], 2)
    unit = group.units[1]
    stranger = group.node.engine("stranger", group.port)
    served = stranger.text.replace("--served-model-name stranger", "--served-model-name group")
    (group.node.unit_dir / stranger.name).write_text(served)
    hosts[0].state.prepare()
    (hosts[0].state_dir / "logs").mkdir(exist_ok=True)
    group.node.systemctl("daemon-reload")
    group.node.systemctl("start", stranger.name)
    until("a process on the leader's port to serve", lambda: group.serves)
    late = replace(unit, readiness=replace(unit.readiness, ready_timeout_s=4))
    result = hosts[0].apply([late]).results[unit.name]
    assert result.state == "failed"
    assert "its group is not together yet" in result.detail
    assert "it waits for rank 0 at 127.0.0.1:" in result.detail
    assert result.seconds < LIMIT_S

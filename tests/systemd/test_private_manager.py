# SPDX-License-Identifier: Apache-2.0
"""A manager of our own: found again, and gone without a trace."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.demo.managers import Manager, ManagerKind, private_manager
from tests.systemd.node import Wrapped


@pytest.fixture
def manager(wrapped: Wrapped, tmp_path: Path) -> Iterator[Manager]:
    """A second manager beside the session's."""
    assert wrapped.prefix
    own = private_manager(tmp_path)
    yield own
    own.close()


def systemctl(manager: Manager, *arguments: str) -> str:
    argv = [*manager.argv_prefix, "systemctl", "--user", *arguments]
    environment = {**os.environ, **manager.environment}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()


def group_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().splitlines()[-1].split(":", 2)[2]


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet collected by whoever is its parent now."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return True


def start(manager: Manager, command: str) -> int:
    units = Path(manager.environment["XDG_CONFIG_HOME"]) / "systemd/user"
    units.mkdir(parents=True)
    (units / "probe.service").write_text(f"[Service]\nExecStart={command}\nTimeoutStopSec=1\n")
    systemctl(manager, "daemon-reload")
    systemctl(manager, "start", "probe.service")
    return int(systemctl(manager, "show", "-p", "MainPID", "--value", "probe.service"))


def test_it_runs_units_and_leaves_nothing_behind(manager: Manager, tmp_path: Path) -> None:
    assert (manager.kind, manager.scope) == (ManagerKind.PRIVATE, "user")
    pid = start(manager, "/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'")
    assert group_of(pid).startswith("/llmgw-")
    began = time.monotonic()
    manager.close()
    assert time.monotonic() - began < 60
    assert ended(pid)
    assert list(tmp_path.iterdir()) == []


def test_it_is_found_again_by_another_process(manager: Manager, tmp_path: Path) -> None:
    again = private_manager(tmp_path)
    assert again.argv_prefix == manager.argv_prefix


def test_two_managers_do_not_see_one_another(manager: Manager, wrapped: Wrapped) -> None:
    start(manager, "/bin/sleep 1000")
    done = subprocess.run(
        wrapped.argv(["systemctl", "--user", "show", "-p", "ActiveState", "--value", "probe.service"]),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == "inactive"


def test_what_a_killed_manager_left_running_is_ended_by_the_next(manager: Manager, tmp_path: Path) -> None:
    pid = start(manager, "/bin/sleep 1000")
    subprocess.run(["kill", "-KILL", manager.argv_prefix[1].partition("=")[2]], timeout=10, check=True)
    again = private_manager(tmp_path)
    try:
        assert ended(pid)
        assert systemctl(again, "show", "-p", "Version").startswith("Version=")
    finally:
        again.close()

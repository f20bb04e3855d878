# SPDX-License-Identifier: Apache-2.0
"""What does not become ready is told why, in time, and what was there comes back (R4, R6)."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import Manager, SystemdError
from tests.systemd.node import SIMULATOR, Node, free_port


def ready_within(unit: WantedUnit, seconds: float) -> WantedUnit:
    return replace(unit, readiness=replace(unit.readiness, ready_timeout_s=seconds))


def test_a_new_unit_that_fails_is_taken_away_again_and_its_log_is_shown(node: Node) -> None:
    bad, good = node.engine("bad", free_port(), "--fail-load 0.1"), node.engine("good", free_port())
    outcome = node.apply([bad, good])
    result = outcome.results[bad.name]
    assert (result.state, result.put_back) == ("failed", True)
    assert re.fullmatch(r"it ended and was restarted \d+ times, exit status 1", result.detail)
    assert result.log_tail is not None
    assert "fail" in result.log_tail
    assert (outcome.results[good.name].state, outcome.results[good.name].log_tail) == ("ready", None)
    assert list(node.look()) == [good.name]
    assert [path.name for path in node.unit_dir.rglob("*bad*")] == []


def test_a_changed_unit_that_fails_gives_way_to_what_ran_before(node: Node) -> None:
    port = free_port()
    good, bad = node.engine("svc", port), node.engine("svc", port, "--fail-load 0.1")
    node.apply([good], generation=1)
    result = node.apply([bad], generation=2).results[good.name]
    assert (result.action, result.state, result.put_back) == ("restarted", "failed", True)
    seen = node.look()[good.name]
    assert (seen.running_digest, seen.actual_text_digest) == (good.process_digest, good.text_digest)
    assert seen.generation == 1
    assert node.apply([good], generation=3).changed is False


def test_what_was_never_ready_is_not_put_back_but_the_last_good_text_is(node: Node) -> None:
    port = free_port()
    good = node.engine("lg", port)
    broken = node.engine("lg", port, "--fail-load 0.1")
    bad = node.engine("lg", port, "--fail-load 0.2")
    node.apply([good])
    node.systemctl("stop", good.name)
    (node.unit_dir / good.name).write_text(broken.text)
    node.systemctl("daemon-reload")
    result = node.apply([bad], generation=2).results[good.name]
    assert (result.state, result.put_back) == ("failed", True)
    assert node.look()[good.name].running_digest == good.process_digest


def test_a_previous_version_that_fails_as_well_is_said_so(node: Node) -> None:
    port = free_port()
    first, second = node.engine("both", port, "--fail-load 0.1"), node.engine("both", port, "--fail-load 0.2")
    (node.unit_dir / first.name).write_text(first.text)
    result = node.apply([second]).results[first.name]
    assert (result.state, result.put_back) == ("failed", False)


def test_a_command_that_is_not_there_fails_at_once(node: Node) -> None:
    unit = node.unit("nocmd", "/nonexistent/engine", extra="RestartSec=30")
    began = time.monotonic()
    result = node.apply([unit]).results[unit.name]
    assert result.detail == "its command cannot be executed (exit status 203)"
    assert time.monotonic() - began < 10


def test_a_unit_that_systemd_cannot_read_fails_at_once(node: Node) -> None:
    unit = node.unit("badset", "relative/path")
    result = node.apply([unit]).results[unit.name]
    assert result.state == "failed"
    assert result.seconds < 5
    assert node.look() == {}


def test_a_process_that_ends_well_has_ended_all_the_same(node: Node) -> None:
    unit = node.unit("brief", "/bin/true")
    assert node.apply([unit]).results[unit.name].detail == "it ended, exit status 0"


def test_an_engine_that_loads_for_ever_fails_at_its_deadline(node: Node) -> None:
    unit = ready_within(node.engine("never", free_port(), "--load-never"), 1)
    result = node.apply([unit]).results[unit.name]
    assert result.detail == "not ready within 1 s: its port is closed"
    assert result.seconds < 5


def test_an_engine_that_should_listen_at_once_fails_at_its_start_deadline(node: Node) -> None:
    unit = node.engine("late", free_port(), "--load-never")
    readiness = replace(unit.readiness, start_timeout_s=1, listens_while_loading=True)
    result = node.apply([replace(unit, readiness=readiness)]).results[unit.name]
    assert result.detail == "not started within 1 s: its port is closed"


def test_another_process_on_the_port_does_not_pass_for_the_engine(node: Node) -> None:
    port = free_port()
    argv = [sys.executable, str(SIMULATOR), "--model", "tiny", "--served-model-name", "port", "--port", str(port)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as squatter:
        try:
            readiness = Readiness("http", "127.0.0.1", port, expect_model="port", ready_timeout_s=2)
            result = node.apply([node.unit("port", "/bin/sleep 1000", readiness)]).results["llmgw-port.0.0.service"]
        finally:
            squatter.kill()
    assert result.detail == f"not ready within 2 s: port {port} is answered by a process not its own"


def test_the_log_shown_is_the_end_of_what_this_start_printed(node: Node) -> None:
    count = "i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done"
    first = node.unit("log", f"/bin/sh -c 'echo from an earlier start; {count}; exec sleep 1000'")
    node.apply([first])
    second = node.unit(
        "log", f"/bin/sh -c '{count.replace('line', 'LINE')}; echo the reason; exit 3'", extra="Restart=no"
    )
    result = node.apply([second]).results[first.name]
    assert result.log_tail is not None
    lines = result.log_tail.split("\n")
    assert len(lines) == 40
    assert lines[-1] == "the reason"
    assert "earlier" not in result.log_tail


def test_a_long_line_in_the_log_is_cut(node: Node) -> None:
    unit = node.unit(
        "long", "/bin/sh -c 'head -c 100000 /dev/zero | tr \"\\\\\\\\0\" x; echo; exit 1'", extra="Restart=no"
    )
    result = node.apply([unit]).results[unit.name]
    assert result.log_tail is not None
    assert 1000 < len(result.log_tail) <= 8192


def test_a_unit_that_does_not_stop_is_left_where_it_is(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = node.unit("stuck", "/bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'", stop_s=30)
    node.apply([unit])
    monkeypatch.setattr("ansible_collections.llmgw.fleet.plugins.module_utils.units_wait._STOP_MARGIN_S", -29.0)
    result = node.apply([], [unit.name]).results[unit.name]
    assert (result.state, result.detail) == ("failed", "it did not stop within 1 s")
    assert (node.unit_dir / unit.name).exists()


def test_a_manager_that_does_not_answer_is_an_error_not_an_empty_node(node: Node) -> None:
    manager = Manager(node.host, "user")
    environment = dict(node.wrapped.environment, XDG_RUNTIME_DIR="/nonexistent")
    node.host._wrapped = node.wrapped._replace(environment=environment)
    with pytest.raises(SystemdError, match="systemctl show: Failed to connect"):
        manager.show(["llmgw-x.0.0.service"])
    node.host._wrapped = node.wrapped

# SPDX-License-Identifier: Apache-2.0
"""What does not become ready is told why, in time, and what was there comes back (R4, R6)."""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import Manager, SystemdError
from ansible_collections.llmgw.fleet.plugins.module_utils.units_apply import Apply
from tests.systemd.node import Node, free_port


def ready_within(unit: WantedUnit, seconds: float) -> WantedUnit:
    return replace(unit, readiness=replace(unit.readiness, ready_timeout_s=seconds))


def test_a_new_unit_that_fails_is_taken_away_again_and_its_log_is_shown(node: Node) -> None:
    bad, good = node.engine("bad", free_port(), "--fail-load 0.1"), node.engine("good", free_port())
    outcome = node.apply([bad, good])
    result = outcome.results[bad.name]
    assert (result.state, result.put_back) == ("failed", True)
    happened = r"the device's memory ran out \(it ended and was restarted \d+ times, exit status 1\)\. Lower .*"
    assert re.fullmatch(happened, result.detail)
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
    assert time.monotonic() - began < 25


def test_a_unit_that_systemd_cannot_read_fails_at_once(node: Node) -> None:
    unit = node.unit("badset", "relative/path")
    result = node.apply([unit]).results[unit.name]
    assert result.state == "failed"
    assert result.seconds < 15
    assert node.look() == {}


def test_a_process_that_ends_well_has_ended_all_the_same(node: Node) -> None:
    unit = node.unit("brief", "/bin/true")
    assert node.apply([unit]).results[unit.name].detail == "it ended, exit status 0"


def test_an_engine_that_loads_for_ever_fails_at_its_deadline(node: Node) -> None:
    unit = ready_within(node.engine("never", free_port(), "--load-never"), 1)
    result = node.apply([unit]).results[unit.name]
    assert result.detail.startswith("not ready within 1 s: its port is closed")
    assert result.seconds < 15


def test_an_engine_that_should_listen_at_once_fails_at_its_start_deadline(node: Node) -> None:
    unit = node.engine("late", free_port(), "--load-never")
    readiness = replace(unit.readiness, start_timeout_s=1, listens_while_loading=True)
    result = node.apply([replace(unit, readiness=readiness)]).results[unit.name]
    assert result.detail.startswith("not started within 1 s: its port is closed")


def test_another_process_on_the_port_does_not_pass_for_the_engine(node: Node) -> None:
    port = free_port()
    other = node.engine("port", port, "--served-model-name port")
    squat = "/bin/sh -c 'systemctl --user start --no-block squatter.service; exec sleep 1000'"
    command = next(line for line in other.text.splitlines() if line.startswith("ExecStart="))
    (node.unit_dir / "squatter.service").write_text(f"[Service]\n{command}\n")
    readiness = Readiness("http", "127.0.0.1", port, expect_model="port", ready_timeout_s=10)
    unit = node.unit("port", squat, readiness)
    try:
        result = node.apply([unit]).results[unit.name]
    finally:
        node.systemctl("stop", "squatter.service")
        (node.unit_dir / "squatter.service").unlink()
    assert result.detail == f"not ready within 10 s: port {port} is answered by a process not its own"


def test_a_port_that_is_taken_is_told_before_the_old_version_is_touched(node: Node) -> None:
    old = node.engine("taken", free_port())
    node.apply([old])
    pid = node.main_pid(old.name)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        moved, fresh = node.engine("taken", port), node.engine("fresh", port)
        outcome = node.apply([moved, fresh], generation=2)
    for unit in (moved, fresh):
        result = outcome.results[unit.name]
        assert (result.action, result.state, result.put_back) == ("kept", "failed", None)
        assert f"port {port} is taken by " in result.detail
        assert f"(process {os.getpid()}), so nothing was touched" in result.detail
    assert node.main_pid(old.name) == pid
    assert [unit.actual_text_digest for unit in node.look().values()] == [old.text_digest]
    assert not any("daemon-reload" in command for command in outcome.commands)


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


@pytest.mark.timeout(120)
def test_a_state_directory_that_takes_no_notes_ends_no_call_and_keeps_no_unit_from_being_put_back(node: Node) -> None:
    good, port = node.engine("good", free_port()), free_port()
    before, bad = node.engine("bad", port), node.engine("bad", port, "--fail-load 0.1")
    node.apply([before])
    _survey, change = node.compute([good, bad])
    notes = node.state_dir / "last-good"
    kept = notes.rename(node.state_dir / "kept")
    notes.symlink_to(kept / f"{before.name}")  # what lies there can be neither listed nor written
    run = Apply(node.host, node.manager, node.state, 2)
    results = {result.name: result for result in run.carry_out(change)}
    assert (results[good.name].state, results[bad.name].state) == ("ready", "failed")
    assert results[bad.name].put_back is True
    assert (node.unit_dir / bad.name).read_text() == before.text
    (warning,) = [text for text in run.warnings if good.name in text]
    assert warning.startswith(f"{good.name} is ready, but that could not be noted")
    assert "Not a directory" in warning

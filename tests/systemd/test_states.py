# SPDX-License-Identifier: Apache-2.0
"""The states of units on a real manager, as facts have them (R6)."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from contextlib import closing

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from tests.systemd.node import Node, free_port


def until(node: Node, service: str, condition: Callable[[ObservedUnit], bool]) -> ObservedUnit:
    """The unit as it is seen once the condition holds."""
    end = time.monotonic() + 40
    while not condition(seen := node.seen(service)):
        assert time.monotonic() < end, f"{service} is still {seen.state}: {seen.reason}"
        time.sleep(0.05)
    return seen


def test_a_ready_unit_knows_since_when_and_what_its_engine_said_of_memory(node: Node) -> None:
    before = time.time()
    node.apply([node.engine("rdy", free_port(), "--kv-tokens 5000")])
    seen = node.seen("rdy")
    assert (seen.state, seen.deadline, seen.reason, seen.progress) == ("ready", None, None, None)
    assert seen.state_since is not None
    assert before - 1 < seen.state_since <= time.time() + 0.1
    assert seen.memory_report is not None
    assert (seen.memory_report.kv_cache_tokens, seen.memory_report.source) == (5000, "sim")
    node.apply([node.engine("rdy", free_port(), "--kv-tokens 7000")], generation=2)
    report = node.seen("rdy").memory_report
    assert report is not None
    assert report.kv_cache_tokens == 7000


def test_what_is_known_of_a_unit_stays_when_it_is_kept(node: Node) -> None:
    unit = node.engine("stay", free_port(), "--kv-tokens 5000")
    node.apply([unit])
    first = node.seen("stay")
    node.apply([unit], generation=2)
    again = node.seen("stay")
    assert (again.state_since, again.memory_report) == (first.state_since, first.memory_report)
    assert not any("journalctl" in command or command.startswith("tail ") for command in node.host.ran)


def test_a_unit_loads_drains_and_goes(node: Node) -> None:
    port = free_port()
    unit = node.engine("life", port, "--itl-ms 20", "--shutdown-timeout 30", stop_s=40)
    node.apply([unit])
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=40)) as connection:
        body = {"model": "life", "prompt": "x", "max_tokens": 200, "stream": True, "ignore_eos": True}
        connection.request("POST", "/v1/completions", json.dumps(body))
        response = connection.getresponse()
        assert response.readline().startswith(b"data: ")
        node.systemctl("stop", "--no-block", unit.name)
        draining = until(node, "life", lambda seen: seen.active_state != "active")
        assert (draining.state, draining.reason) == ("draining", "it was asked to stop, and finishes what is in flight")
        assert draining.deadline is not None
        assert draining.state_since is not None
        assert draining.deadline - draining.state_since == 40
        assert b"[DONE]" in response.read()
    gone = until(node, "life", lambda seen: seen.active_state == "inactive")
    assert (gone.state, gone.reason) == (None, "it does not run")


def test_a_unit_that_loads_and_then_fails_says_so_each_time(node: Node) -> None:
    unit = node.engine("bad", free_port(), "--fail-load 3", extra="RestartSec=2")
    node.state.prepare()
    (node.unit_dir / unit.name).write_text(unit.text)
    (node.state_dir / "logs").mkdir(exist_ok=True)
    node.systemctl("daemon-reload")
    node.systemctl("start", unit.name)
    loading = until(node, "bad", lambda seen: seen.active_state == "active")
    assert loading.state == "loading"
    assert loading.reason is not None
    assert loading.reason in {"loading weights", "its engine does not serve yet"}
    assert loading.deadline is not None
    assert loading.since is not None
    assert loading.deadline == loading.since + 20
    again = until(node, "bad", lambda seen: seen.sub_state == "auto-restart")
    assert again.state == "starting"
    assert again.reason is not None
    assert again.reason.startswith("the device's memory ran out (it ended with an error, and is started again). Lower ")

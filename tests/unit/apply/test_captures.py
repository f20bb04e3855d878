# SPDX-License-Identifier: Apache-2.0
"""A run of the capture playbook, event by event, becomes a list of captures and of hosts without one."""

from __future__ import annotations

from typing import Any

from llmgw.apply.captures import Captures, capture_lines

TAKEN = {"name": "n1", "size_bytes": 48_400, "calls": 214, "left_out": [], "unanswered": [], "changed": True}


def event(kind: str, action: str, answer: dict[str, Any] | None, host: str = "n1") -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task_action": action, "res": answer}}


def fed(*events: dict[str, Any]) -> dict[str, Any]:
    captures = Captures()
    for one in events:
        captures.feed(one)
    return captures.document()


def test_a_capture_is_what_the_module_took_and_fetch_brought() -> None:
    document = fed(
        {"event": "playbook_on_start"},
        event("runner_on_ok", "ansible.builtin.tempfile", {"path": "/x"}),
        event("runner_on_ok", "llmgw.fleet.capture", TAKEN),
        event("runner_on_ok", "ansible.builtin.fetch", {"dest": "/out/n1.tar.gz"}),
    )
    assert document == {
        "captures": [
            {
                "host": "n1",
                "file": "/out/n1.tar.gz",
                "name": "n1",
                "size_bytes": 48_400,
                "calls": 214,
                "left_out": [],
                "unanswered": [],
            }
        ],
        "failed": [],
    }
    assert capture_lines(document) == ["n1  /out/n1.tar.gz  48 kB, 214 answers"]


def test_what_a_capture_lacks_is_told() -> None:
    document = fed(
        event(
            "runner_on_ok", "llmgw.fleet.capture", TAKEN | {"unanswered": ["exists /dead"], "left_out": ["read /big"]}
        ),
        event("runner_on_ok", "fetch", {"dest": "/out/n1.tar.gz"}),
    )
    assert capture_lines(document)[1:] == ["    no answer to: exists /dead", "    too large, left out: read /big"]


def test_a_host_without_a_capture_has_a_reason_and_the_first_one_counts() -> None:
    document = fed(
        event("runner_on_unreachable", "ansible.builtin.tempfile", {"msg": "Connection refused\nmore"}, "n2"),
        event("runner_on_failed", "llmgw.fleet.capture", {"msg": "no room"}),
        event("runner_on_failed", "ansible.builtin.file", {"msg": "neither this"}),
        event("runner_on_failed", "ansible.builtin.file", None, "n3"),
    )
    assert document == {
        "captures": [],
        "failed": [
            {"host": "n1", "why": "no room"},
            {"host": "n2", "why": "Connection refused"},
            {"host": "n3", "why": "no reason given"},
        ],
    }
    assert capture_lines(document) == []

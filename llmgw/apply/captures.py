# SPDX-License-Identifier: Apache-2.0
"""What a run of the playbook llmgw.fleet.capture brought, out of ansible-runner's events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw.apply.reasons import failure_reason, first_line

_CAPTURE = "llmgw.fleet.capture"
_FETCH = ("fetch", "ansible.builtin.fetch", "ansible.legacy.fetch")
_FAILED = ("runner_on_failed", "runner_on_unreachable")


@dataclass(slots=True)
class Captures:
    """A run seen so far: what the module said of each host, where each capture is, and why hosts have none."""

    taken: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def feed(self, event: Mapping[str, Any]) -> None:
        """Learns from one event."""
        data = event.get("event_data") or {}
        host, answer = str(data.get("host")), data.get("res") or {}
        action = data.get("resolved_action") or data.get("task_action")
        if event.get("event") in _FAILED:
            self.failed.setdefault(host, first_line(failure_reason(answer) if answer.get("msg") else None))
        elif event.get("event") == "runner_on_ok" and action == _CAPTURE:
            self.taken[host] = answer
        elif event.get("event") == "runner_on_ok" and action in _FETCH:
            self.files[host] = str(answer.get("dest"))

    def document(self) -> dict[str, Any]:
        """The run as JSON values."""
        captures = [
            {
                "host": host,
                "file": self.files[host],
                **{key: self.taken[host].get(key) for key in ("name", "size_bytes", "calls", "left_out", "unanswered")},
            }
            for host in sorted(self.files)
        ]
        return {
            "captures": captures,
            "failed": [{"host": host, "why": why} for host, why in sorted(self.failed.items())],
        }


def capture_lines(document: Mapping[str, Any]) -> list[str]:
    """A document of captures as text: a line a capture, and what is missing in it."""
    lines = []
    for one in document["captures"]:
        lines.append(f"{one['host']}  {one['file']}  {one['size_bytes'] / 1000:.0f} kB, {one['calls']} answers")
        for key, what in (("unanswered", "no answer to"), ("left_out", "too large, left out")):
            lines += [f"    {what}: {call}" for call in one[key] or ()]
    return lines

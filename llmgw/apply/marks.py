# SPDX-License-Identifier: Apache-2.0
"""Sets and takes away the marks of nodes by the playbook llmgw.fleet.marks, and what each node answered (R11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmgw.apply.events import Progress, unexplained
from llmgw.apply.inputs import Paths
from llmgw.apply.reasons import failure_reason, silence_reason
from llmgw.apply.runner import Run, run_playbook
from llmgw.apply.who import whoami

_MODULE = "llmgw.fleet.node_marks"
Wanted = Mapping[str, Any]
"""What is to become of one node's marks: `cordon`, `drain` (bool), `reason`, `clear` (UUIDs, or `all`)."""


@dataclass(slots=True)
class Answers:
    """What came of a run: by node the marks that it answered with, or why it failed or was not reached."""

    marks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unreached: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """What belongs to no node, in the words of Ansible."""
    status: int = 0
    """Ansible's exit status."""

    def feed(self, event: Mapping[str, Any]) -> None:
        """Takes in one event of ansible-runner."""
        data = event.get("event_data") or {}
        if (data.get("resolved_action") or data.get("task_action")) != _MODULE:
            return
        host, answer = str(data.get("host")), data.get("res") or {}
        match event.get("event"):
            case "runner_on_ok":
                self.marks[host] = list(answer.get("marks") or ())
            case "runner_on_failed":
                self.failed[host] = failure_reason(answer)
            case "runner_on_unreachable":
                self.unreached[host] = silence_reason(answer)
            case _:
                pass


def mark(paths: Paths, wanted: Mapping[str, Wanted], gather: tuple[str, ...] = ("state",)) -> Answers:
    """Does what is wanted of each node, by name, and reads these parts of the facts of these nodes anew."""
    answers, progress = Answers(), Progress()

    def heard(event: dict[str, Any]) -> None:
        answers.feed(event)
        progress.feed(event)

    marks = {name: dict(one) for name, one in wanted.items()}
    variables = {"llmgw_marks": marks, "llmgw_by": whoami(), "llmgw_gather": list(gather)}
    run = Run("llmgw.fleet.marks", paths, variables, limit=",".join(sorted(wanted)))
    answers.status = run_playbook(run, heard)
    if not answers.failed and not answers.unreached:
        answers.errors = [*progress.errors, *unexplained(progress, answers.status, changes=False)]
    return answers

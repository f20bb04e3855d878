# SPDX-License-Identifier: Apache-2.0
"""What the continuous mode reads and does on a real fleet: playbooks, files, the clock."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llmgw.apply import history
from llmgw.apply.events import Progress, exit_status, unexplained
from llmgw.apply.inputs import Inputs, Paths, read_inputs
from llmgw.apply.reconcile import Spending
from llmgw.apply.reconcile_loop import Applied, Sweep
from llmgw.apply.runner import Run, run_playbook
from llmgw.apply.saved import SavedOptions, saved_text
from llmgw.apply.who import whoami
from llmgw.model.plan import Plan

COMMAND = "reconcile"
"""What the history calls an apply of the continuous mode."""
_OK, _ERROR, _UNPLACED = 0, 1, 3
_RECORDS, _AT_WORK_AMONG = 200, 20
_STORE_FACTS, _RECORD, _PLAN = "llmgw.fleet.store_facts", "llmgw.fleet.record", "llmgw.fleet.plan"
SAVED_PLAN_CHANGED = "saved-plan-changed"


@dataclass(frozen=True, slots=True)
class FleetHands:
    """The fleet that `paths` describe. `stopped` tells whether the operator wants an end."""

    paths: Paths
    history_directory: Path
    stopped: Callable[[], bool]

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def stopping(self) -> bool:
        """Whether the operator wants an end."""
        return self.stopped()

    def sweep(self, gather: list[str]) -> Sweep:
        """Runs the playbook llmgw.fleet.discover."""
        progress, stored = Progress(), set[str]()

        def handle(event: dict[str, Any]) -> None:
            progress.feed(event)
            stored.update(_stored(event))

        run = Run("llmgw.fleet.discover", self.paths, {"llmgw_gather": gather})
        status = run_playbook(run, handle, self.stopped)
        words = (*progress.errors, *unexplained(progress, status, changes=False))
        return Sweep(status, frozenset(stored), words)

    def read(self, now: float) -> Inputs:
        """Catalog, inventory and facts as they lie on disk. Raises LlmgwError."""
        return read_inputs(self.paths, now)

    def history(self, now: float) -> tuple[Spending, ...]:
        """The actions of the continuous mode by the history of applies. Rewriting a unit counts; an apply that was cut
        off counts whole.
        """
        records = history.read(self.history_directory, now, _RECORDS).records
        return tuple(
            Spending(max(one.began, one.ended or one.began), len(one.actions) + one.actions_left_out)
            for one in records
            if one.command == COMMAND
        )

    def at_work(self, now: float) -> str | None:
        """Which apply is under way on this controller, by the history of applies."""
        for one in history.read(self.history_directory, now, _AT_WORK_AMONG).records:
            if one.outcome == history.RUNNING:
                since = datetime.fromtimestamp(one.began, UTC)
                return f"an apply by {one.by} (`{one.command}`, since {since:%H:%M:%S} UTC)"
        return None

    def apply(self, plan: Plan, say: Callable[[str], None]) -> Applied:
        """Runs the playbook llmgw.fleet.apply as `llmgw apply PLANFILE` does: it looks at every host again, and carries
        the plan out only if it would make the same one.
        """
        progress, refusals = Progress(), list[str]()

        def handle(event: dict[str, Any]) -> None:
            refusals.extend(_refusal(event))
            for line in (*_of_the_history(event), *progress.feed(event)):
                say(line)

        with tempfile.TemporaryDirectory(prefix="llmgw-reconcile-") as folder:
            saved = Path(folder) / "plan.json"
            saved.write_text(saved_text(plan, SavedOptions(), whoami(), self.now()), encoding="utf-8")
            variables = {
                "llmgw_command": COMMAND,
                "llmgw_history_dir": str(self.history_directory.resolve()),
                "llmgw_saved_plan": str(saved),
            }
            ansible = run_playbook(Run("llmgw.fleet.apply", self.paths, variables), handle, self.stopped)
        for warning in history.close(self.history_directory, self.now()):
            say(warning)
        status = exit_status(progress, ansible)
        errors = [*progress.errors, *unexplained(progress, ansible)]
        if status in (_OK, _UNPLACED) and not progress.answered:
            errors.append("No host answered, so nothing was looked at and nothing was done.")
            status = _ERROR
        return Applied(status, tuple(errors), SAVED_PLAN_CHANGED in refusals)


def _stored(event: dict[str, Any]) -> set[str]:
    """The hosts whose facts were kept, where an event tells of it."""
    return set(map(str, _answer(event, _STORE_FACTS).get("stored") or ()))


def _refusal(event: dict[str, Any]) -> list[str]:
    """The code of the error by which there is no plan, where an event tells of it. Sentences may hold the same words:
    they quote machines.
    """
    data = event.get("event_data") or {}
    planning = (data.get("resolved_action") or data.get("task_action")) == _PLAN
    if event.get("event") != "runner_on_failed" or not planning:
        return []
    return [str((data.get("res") or {}).get("llmgw_error"))]


def _of_the_history(event: dict[str, Any]) -> list[str]:
    """What could not be written into the history: that fails nothing, so that nothing else tells of it."""
    return list(map(str, _answer(event, _RECORD).get("problems") or ()))


def _answer(event: dict[str, Any], action: str) -> dict[str, Any]:
    """What an action answered, where an event tells of it."""
    data = event.get("event_data") or {}
    if event.get("event") != "runner_on_ok" or (data.get("resolved_action") or data.get("task_action")) != action:
        return {}
    answer: dict[str, Any] = data.get("res") or {}
    return answer

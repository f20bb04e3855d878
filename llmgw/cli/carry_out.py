# SPDX-License-Identifier: Apache-2.0
"""Runs the playbook llmgw.fleet.apply for the commands that change a fleet, and tells what happens (R3)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmgw.apply import history
from llmgw.apply.events import Progress, exit_status, unexplained
from llmgw.apply.inputs import Paths
from llmgw.apply.one_apply import the_only_apply
from llmgw.apply.runner import Run, run_playbook
from llmgw.cli import exits
from llmgw.cli.last_word import last_words
from llmgw.cli.limited import no_such_host
from llmgw.cli.style import coloured, printable

APPLY_FORMAT = 1
_RECORD = "llmgw.fleet.record"
_NOTHING_BEGUN = "llmgw: interrupted; nothing was changed"
_INTERRUPTED = (
    "llmgw: interrupted; gateways may hold routes of the middle of this rollout (a drained replica gets no requests):"
    " run `llmgw {command}` to finish it"
)


@dataclass(frozen=True, slots=True)
class Order:
    """One apply: the fleet's files, where its history is, the command that the history names, and the options."""

    paths: Paths
    history: Path
    command: str
    variables: Mapping[str, Any] = field(default_factory=dict)
    check: bool = False
    diff: bool = False
    limit: str | None = None
    as_json: bool = False
    told: Mapping[str, Any] = field(default_factory=dict)
    """What the JSON document says besides."""
    told_when_done: Mapping[str, Any] = field(default_factory=dict)
    """And this, where all went well."""
    opening: str | None = None
    """What is told once nothing is in the way of it."""


def carry_out(order: Order) -> int:
    """The exit status of the run; progress and errors are printed. Raises LlmgwError `apply-runs` while another apply
    of this controller is at work, unless nothing is to be changed.
    """
    with nullcontext() if order.check else the_only_apply(order.paths.facts, order.history):
        if order.opening is not None:
            print(printable(order.opening), file=sys.stderr)
        return _run(order)


def _run(order: Order) -> int:
    progress = Progress()

    def show(event: dict[str, Any]) -> None:
        for warning in _of_the_history(event):
            print(printable(warning), file=sys.stderr, flush=True)
        lines = progress.feed(event, diff=order.diff)
        if lines and not order.as_json:
            print("\n".join(coloured(lines, sys.stdout)), flush=True)

    variables = {
        "llmgw_history_dir": str(order.history.resolve()),
        "llmgw_command": order.command,
        **order.variables,
    }
    run = Run("llmgw.fleet.apply", order.paths, variables, check=order.check, diff=order.diff, limit=order.limit)
    ansible = run_playbook(run, show)
    if not order.check:
        for warning in history.close(order.history, time.time()):
            print(printable(warning), file=sys.stderr)
    status = exit_status(progress, ansible)
    progress.errors += no_such_host(order.limit, order.paths.inventory, progress) or unexplained(progress, ansible)
    if status in (exits.OK, exits.UNPLACED) and not progress.answered:
        progress.errors.append("No host answered, so nothing was looked at and nothing was done.")
        status = exits.ERROR
    _report(order, progress, status)
    return status


def _report(order: Order, progress: Progress, status: int) -> None:
    for error in progress.errors:
        print(printable(error), file=sys.stderr)
    if order.as_json:
        told = {**order.told, **(order.told_when_done if status == exits.OK else {})}
        document = {"format_version": APPLY_FORMAT, "status": status, **told, **progress.document()}
        print(json.dumps(document, indent=2))
    elif status == exits.INTERRUPTED:
        idle = order.check or progress.plan is None  # nothing is done before there is a plan
        print(_NOTHING_BEGUN if idle else _INTERRUPTED.format(command=order.command), file=sys.stderr)
    elif status in (exits.OK, exits.UNPLACED):
        print(printable(last_words(progress, check=order.check)))


def _of_the_history(event: Mapping[str, Any]) -> list[str]:
    """What the history has to complain of: it fails nothing, so that nothing else tells of it."""
    data = event.get("event_data") or {}
    if event.get("event") != "runner_on_ok" or (data.get("resolved_action") or data.get("task_action")) != _RECORD:
        return []
    return list(map(str, (data.get("res") or {}).get("problems") or ()))

# SPDX-License-Identifier: Apache-2.0
"""What happens in a playbook run, out of ansible-runner's events: progress lines, and what the run came to. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

from llmgw.apply.verdict import model_line

INTERRUPTED = 130
_OK = "runner_on_ok"
_ASYNC_FAILED = "runner_on_async_failed"
_FAILED = ("runner_on_failed", "runner_item_on_failed", _ASYNC_FAILED)
_UNREACHABLE = "runner_on_unreachable"
_PLAN = "llmgw.fleet.plan"
_UNITS = "llmgw.fleet.replica_units"
_BUNDLE = "llmgw.fleet.bundle"
_FETCH = "llmgw.fleet.weights_fetch"
_FACTS = "llmgw.fleet.node_facts"
_LOG_LINES_SHOWN = 15
_LAST_WORDS = 12
_FIX = "\n    fix: "
"""What stands between an error and what to do about it, which is a line of its own."""
_SAID = ("verbose", "warning", "error")


@dataclass(slots=True)
class Progress:
    """A run seen so far. Feed it events; each gives the lines to show."""

    plan: dict[str, Any] | None = None
    changed: set[tuple[str, str]] = field(default_factory=set)
    failed_steps: bool = False
    asked: set[str] = field(default_factory=set)
    """Hosts whose discovery was begun."""
    answered: set[str] = field(default_factory=set)
    """Those of them that answered."""
    errors: list[str] = field(default_factory=list)
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_WORDS))
    """The last lines that Ansible printed and that belong to no host: why it did not even begin."""

    def feed(self, event: Mapping[str, Any], *, diff: bool = False) -> list[str]:
        """The lines that one event is worth (with `diff` those of file differences too); most are worth none."""
        return [*(_diff_lines(event) if diff else ()), *self._lines(event)]

    def document(self) -> dict[str, Any]:
        """What the run came to, as JSON values."""
        changed = [{"host": host, "what": what} for host, what in sorted(self.changed)]
        return {"plan": self.plan, "changed": changed, "errors": self.errors}

    def _lines(self, event: Mapping[str, Any]) -> list[str]:
        data = event.get("event_data") or {}
        kind = event.get("event")
        action = data.get("resolved_action") or data.get("task_action")
        if action == _FACTS and data.get("host"):
            self.asked.add(str(data["host"]))
        if kind in _SAID:
            self.said.extend(line for line in str(event.get("stdout") or "").splitlines() if line.strip())
        if kind == _OK:
            return list(self._answered(str(data.get("host")), action, data.get("res") or {}))
        if kind == _ASYNC_FAILED and action == _FETCH:
            return []  # the same is told again as an ordinary failure
        if kind in _FAILED:
            return list(
                self._failed(
                    str(data.get("host")), action, data.get("res") or {}, ignored=bool(data.get("ignore_errors"))
                )
            )
        if kind == _UNREACHABLE:
            reason = first_line((data.get("res") or {}).get("msg"))
            self.failed_steps = self.failed_steps or action in (_UNITS, _BUNDLE, _FETCH)
            return [f"{data.get('host')}  does not answer: {reason}"]
        return []

    def _answered(self, host: str, action: str | None, answer: Mapping[str, Any]) -> Iterator[str]:
        if action == _PLAN and "summary" in answer:
            self.plan = {key: answer[key] for key in ("summary", "text", "unplaced", "changes", "problems")}
            for problem in answer["problems"]:
                said, fix, how = str(problem).partition(_FIX)
                yield from (said, f"{fix[1:]}{how}") if fix else (said,)
            yield from answer["text"]
        elif action == _UNITS:
            yield from self._units(host, answer)
        elif action == _FETCH:
            yield from self._models(host, answer)
        elif action == _FACTS:
            self.answered.add(host)
        elif action == _BUNDLE:
            self._note(host, "routes", answer)
            yield f"{host}  routes  generation {answer.get('generation')}{_drained(answer)}"

    def _failed(self, host: str, action: str | None, answer: Mapping[str, Any], *, ignored: bool) -> Iterator[str]:
        if action == _UNITS:
            self.failed_steps = True
            yield from self._units(host, answer)
            yield f"{host}  FAILED: {failure_reason(answer)}"
        elif action == _FETCH:
            self.failed_steps = True
            yield from self._models(host, answer)
            yield f"{host}  FAILED: {failure_reason(answer)}"
        elif action in (_BUNDLE, _FACTS):
            self.failed_steps = self.failed_steps or action == _BUNDLE
            yield f"{host}  FAILED: {failure_reason(answer)}"
        elif not ignored:
            self.errors.append(_message(answer.get("msg")))

    def _units(self, host: str, answer: Mapping[str, Any]) -> Iterator[str]:
        for unit in answer.get("units") or ():
            if unit["action"] != "kept":
                self.changed.add((host, unit["name"]))
                yield from _unit_lines(host, unit)

    def _models(self, host: str, answer: Mapping[str, Any]) -> Iterator[str]:
        for model in answer.get("models") or ():
            if model["action"] != "there":
                self.changed.add((host, f"weights of {model['hf_id']}"))
                yield model_line(host, model)

    def _note(self, host: str, what: str, answer: Mapping[str, Any]) -> None:
        if answer.get("changed"):
            self.changed.add((host, what))


def _unit_lines(host: str, unit: Mapping[str, Any]) -> Iterator[str]:
    name = str(unit["name"]).removeprefix("llmgw-").removesuffix(".service")
    seconds = f" in {unit['seconds']:.1f} s" if isinstance(unit.get("seconds"), (int, float)) else ""
    state = f", {unit['state']}{seconds}" if unit.get("state") else ""
    yield f"{host}  {name}  {unit['action']}{state}"
    tail = unit.get("log_tail") or ""
    lines = tail.splitlines() if isinstance(tail, str) else list(map(str, tail))
    yield from (f"    | {line}" for line in lines[-_LOG_LINES_SHOWN:])
    if unit.get("put_back"):
        yield f"{host}  {name}  put back to what served before"


def _diff_lines(event: Mapping[str, Any]) -> Iterator[str]:
    data = event.get("event_data") or {}
    answer = data.get("res") or {}
    if event.get("event") not in (_OK, *_FAILED) or (data.get("resolved_action") or data.get("task_action")) != _UNITS:
        return
    for one in answer.get("diff") or ():
        before, after = str(one.get("before") or ""), str(one.get("after") or "")
        names = (f"{data.get('host')}: {one.get('before_header')}", f"{data.get('host')}: {one.get('after_header')}")
        yield from unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")


def _drained(answer: Mapping[str, Any]) -> str:
    left = {name: count for name, count in (answer.get("in_flight") or {}).items() if count}
    return f", still in flight at the deadline: {left}" if left else ""


def _message(text: Any) -> str:
    return "\n".join(map(str, text)) if isinstance(text, list) else str(text)


def failure_reason(answer: Mapping[str, Any]) -> str:
    """Why a module failed. Where it did not even answer, Ansible tells of bad JSON, and the host's last words say why:
    most often there is no such Python.
    """
    message = str(answer.get("msg"))
    words = str(answer.get("module_stderr") or answer.get("module_stdout") or "").strip().splitlines()
    if not words:
        return message
    said = f"the module did not answer, and the host said: {words[-1].strip()}"
    if any(line.startswith("Traceback") for line in words):
        return said
    return f"{said} (if that is for want of a Python that works, name one by ansible_python_interpreter of the host)"


def first_line(text: Any) -> str:
    """The first line of what Ansible said, for a one-line report."""
    # ssh frames its warning of a changed host key in rows of @, which would be all there is to see.
    lines = re.sub(r"@{5,}\s*", "", str(text or "no reason given")).strip().splitlines()
    return lines[0] if lines else "no reason given"


def unexplained(progress: Progress, ansible_status: int, *, changes: bool = True) -> list[str]:
    """What to tell of a run that failed although no host and no step said why: Ansible's own last words.

    A run that `changes` nothing leaves nothing for an apply to see.
    """
    if ansible_status in (0, INTERRUPTED) or progress.errors or progress.failed_steps:
        return []
    end = f"Ansible ended with status {ansible_status} before it was through."
    return [*progress.said, f"{end} What was begun, the next apply sees." if changes else end]


def exit_status(progress: Progress, ansible_status: int) -> int:
    """The command's exit status: 1 before 4 before 3 (architecture: habits)."""
    if ansible_status == INTERRUPTED:
        return INTERRUPTED
    if progress.failed_steps:
        return 4
    if ansible_status != 0:
        return 1
    return 3 if progress.plan is not None and progress.plan["unplaced"] else 0

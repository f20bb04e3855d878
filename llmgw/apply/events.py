# SPDX-License-Identifier: Apache-2.0
"""What happens in a playbook run, out of ansible-runner's events: progress lines, and what the run came to. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import unified_diff
from typing import Any

from llmgw.apply.reasons import failure_reason, silence_reason
from llmgw.apply.verdict import model_line

INTERRUPTED = 130
_OK = "runner_on_ok"
_ASYNC_FAILED = "runner_on_async_failed"
_ASYNC_POLL = "runner_on_async_poll"
_FAILED = ("runner_on_failed", "runner_item_on_failed", _ASYNC_FAILED)
_UNREACHABLE = "runner_on_unreachable"
_PLAN = "llmgw.fleet.plan"
_UNITS = "llmgw.fleet.replica_units"
_BUNDLE = "llmgw.fleet.bundle"
_FETCH = "llmgw.fleet.weights_fetch"
_FACTS = "llmgw.fleet.node_facts"
_MARKS = "llmgw.fleet.node_marks"
_VERDICT = "llmgw.fleet.verdict"
_LOG_LINES_SHOWN = 15
_LAST_WORDS = 12
_TELL_EVERY_S = 60.0
"""How often is told that weights are still on their way."""
_FIX = "\n    fix: "
"""What stands between an error and what to do about it, which is a line of its own."""
_SAID = ("verbose", "warning", "error")


@dataclass(slots=True)
class Progress:
    """A run seen so far. Feed it events; each gives the lines to show."""

    plan: dict[str, Any] | None = None
    changed: set[tuple[str, str]] = field(default_factory=set)
    done: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """By host and unit what was done with it, in the words of its module; what was put back is not there."""
    failed_steps: bool = False
    put_back: set[tuple[str, str]] = field(default_factory=set)
    """What was put back after a step had failed: host, and a unit or the routes."""
    canaries: list[dict[str, Any]] = field(default_factory=list)
    """What canaries did: endpoint, good and bad answers, whether they passed."""
    asked: set[str] = field(default_factory=set)
    """Hosts whose discovery was begun."""
    answered: set[str] = field(default_factory=set)
    """Those of them that answered."""
    errors: list[str] = field(default_factory=list)
    said: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_WORDS))
    """The last lines that Ansible printed and that belong to no host: why it did not even begin."""
    _undoing: bool = False
    """Whether what comes now puts back what a failed step touched."""
    _fetching: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """By host when it was first asked how its weights come, and when that was last told."""

    def feed(self, event: Mapping[str, Any], *, diff: bool = False) -> list[str]:
        """The lines that one event is worth (with `diff` those of file differences too); most are worth none."""
        return [*(_diff_lines(event) if diff else ()), *self._lines(event)]

    def document(self) -> dict[str, Any]:
        """What the run came to, as JSON values."""
        return {
            "plan": self.plan,
            "changed": _told(self.changed),
            "put_back": _told(self.put_back),
            "canaries": self.canaries,
            "errors": self.errors,
        }

    def _lines(self, event: Mapping[str, Any]) -> list[str]:
        data = event.get("event_data") or {}
        kind = event.get("event")
        action = data.get("resolved_action") or data.get("task_action")
        host, answer = str(data.get("host")), data.get("res") or {}
        if action == _FACTS and data.get("host"):
            self.asked.add(host)
        if kind in _SAID:
            self.said.extend(line for line in str(event.get("stdout") or "").splitlines() if line.strip())
        if kind == _OK:
            return list(self._answered(host, action, answer))
        if kind == _ASYNC_POLL:  # of fetching weights: nothing else is waited for in the background
            return self._still_fetching(host, event.get("created"))
        if kind == _ASYNC_FAILED and action == _FETCH:
            return []  # the same is told again as an ordinary failure
        if kind in _FAILED:
            return list(self._failed(host, action, answer, ignored=bool(data.get("ignore_errors"))))
        if kind == _UNREACHABLE:
            self.failed_steps = self.failed_steps or action in (_UNITS, _BUNDLE, _FETCH)
            return [f"{data.get('host')}  does not answer: {silence_reason(answer)}"]
        return []

    def _answered(self, host: str, action: str | None, answer: Mapping[str, Any]) -> Iterator[str]:
        if action == _PLAN and "summary" in answer:
            self.plan = {key: answer[key] for key in ("summary", "text", "unplaced", "refused", "changes", "problems")}
            for problem in answer["problems"]:
                said, fix, how = str(problem).partition(_FIX)
                yield from (said, f"{fix[1:]}{how}") if fix else (said,)
            yield from answer["text"]
        elif action == _PLAN:
            self._undoing = False  # what serves now is published next
        elif action == _UNITS:
            yield from self._units(host, answer)
        elif action == _FETCH:
            yield from self._models(host, answer)
        elif action == _FACTS:
            self.answered.add(host)
        elif action == _MARKS:
            self._note(host, "marks", answer)
        elif action == _VERDICT:
            yield from self._judged(answer)
        elif action == _BUNDLE:
            self._note(host, "routes", answer)
            back = "put back, " if self._undoing else ""
            yield f"{host}  routes  {back}generation {answer.get('generation')}{_drained(answer)}"

    def _failed(self, host: str, action: str | None, answer: Mapping[str, Any], *, ignored: bool) -> Iterator[str]:
        if action in (_UNITS, _BUNDLE, _FETCH, _FACTS, _MARKS):
            self.failed_steps = self.failed_steps or action not in (_FACTS, _MARKS)
            yield from self._units(host, answer)
            yield from self._models(host, answer)
            yield f"{host}  {'NOT PUT BACK' if self._undoing else 'FAILED'}: {failure_reason(answer)}"
        elif not ignored and (message := _message(answer.get("msg"))) not in self.errors:
            self.errors.append(message)

    def _judged(self, verdict: Mapping[str, Any]) -> Iterator[str]:
        for one in verdict.get("canaries") or ():
            self.canaries.append(dict(one))
            passed = "good enough" if one.get("passed") else "NOT GOOD ENOUGH"
            yield f"canary {one.get('endpoint')}  {one.get('good')} good answers, {one.get('bad')} bad: {passed}"
        if verdict.get("failure"):
            self.failed_steps = True
            self._undoing = not verdict.get("overtaken")

    def _units(self, host: str, answer: Mapping[str, Any]) -> Iterator[str]:
        for unit in answer.get("units") or ():
            if unit["action"] != "kept":
                self._note(host, unit["name"], {"changed": True})
                if not self._undoing:
                    self.done.setdefault((host, str(unit["name"])), set()).add(str(unit["action"]))
                yield from _unit_lines(host, unit, "put back: " if self._undoing else "")

    def _note(self, host: str, what: str, answer: Mapping[str, Any]) -> None:
        if answer.get("changed"):
            (self.put_back if self._undoing else self.changed).add((host, what))

    def _models(self, host: str, answer: Mapping[str, Any]) -> Iterator[str]:
        self._fetching.pop(host, None)
        for model in answer.get("models") or ():
            if model["action"] != "there":
                self.changed.add((host, f"weights of {model['hf_id']}"))
                yield model_line(host, model)

    def _still_fetching(self, host: str, created: Any) -> list[str]:
        try:
            now = datetime.fromisoformat(str(created))
        except ValueError:
            return []
        first, told = self._fetching.setdefault(host, (now, now))
        if (now - told).total_seconds() < _TELL_EVERY_S:
            return []
        self._fetching[host] = (first, now)
        return [f"{host}  fetching weights for {(now - first).total_seconds() / 60:.0f} min"]


def _told(things: set[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"host": host, "what": what} for host, what in sorted(things)]


def _unit_lines(host: str, unit: Mapping[str, Any], verb: str) -> Iterator[str]:
    name = str(unit["name"]).removeprefix("llmgw-").removesuffix(".service")
    seconds = f" in {unit['seconds']:.1f} s" if isinstance(unit.get("seconds"), (int, float)) else ""
    state = f", {unit['state']}{seconds}" if unit.get("state") else ""
    yield f"{host}  {name}  {verb}{unit['action']}{state}"
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
    """What became of the endpoints that were to be idle; nothing where there were none."""
    asked = ((answer.get("invocation") or {}).get("module_args") or {}).get("drain") or ()
    left = {name: count for name, count in (answer.get("in_flight") or {}).items() if count}
    if left:
        return f", still in flight at the deadline: {left}"
    if not asked or not answer.get("drained"):
        return ""
    return f", drained in {float(answer.get('waited_s') or 0):.1f} s: {', '.join(map(str, asked))}"


def _message(text: Any) -> str:
    return "\n".join(map(str, text)) if isinstance(text, list) else str(text)


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
    plan = progress.plan
    return 3 if plan is not None and (plan["unplaced"] or plan.get("refused")) else 0

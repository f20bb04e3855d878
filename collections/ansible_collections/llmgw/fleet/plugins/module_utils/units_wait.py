# SPDX-License-Identifier: BSD-2-Clause
"""Waits for many units at once, each with its own deadlines: until they are ready, or until they are gone (R6).

Private to llmgw. Every wait here ends: by the units' deadlines, or because systemd stops answering.
"""

from __future__ import annotations

import time
from threading import Thread
from typing import TYPE_CHECKING, Callable, Iterable, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_key, observed, port_owner, readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import (
    Manager,
    Properties,
    SystemdError,
    parse_span,
    parse_timestamp,
)

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_FIRST_DELAY_S = 0.05
_LAST_DELAY_S = 1.0
_BACK_OFF = 1.4
_ASK_TIMEOUT_S = 5.0
_SILENCE_S = 20.0  # how long systemd may fail to answer before waiting makes no sense
_STOP_MARGIN_S = 10.0  # after its stop deadline systemd kills; this is for the kernel
_STOP_DEFAULT_S = 90.0
_STOPPED = ("inactive", "failed")
_EXITED = 1  # CLD_EXITED of waitid(2); 0: the main process runs, the rest are signals


class Awaited(NamedTuple):
    """One unit to wait for. `restarts` is how many automatic restarts are not ours to judge; `key_file` holds the key
    that clients of the engine must bring. `in_group`: its main process is a guard, and the engine that one's child.
    """

    name: str
    process_digest: str
    readiness: readiness.Readiness
    allowance_s: float = 0.0
    restarts: int = 0
    key_file: str | None = None
    in_group: bool = False


class Outcome(NamedTuple):
    """How a wait ended: READY or FAILED of `readiness`, a sentence, the seconds it took, and whether the program began
    to run.
    """

    state: str
    detail: str
    seconds: float
    began: bool = True


def until_ready(
    host: Host, manager: Manager, units: Iterable[Awaited], on_end: Callable[[str, Outcome], None]
) -> dict[str, Outcome]:
    """Outcome by unit. `on_end` is called as soon as one is known. Raises SystemdError when systemd stays silent."""
    pending = {unit.name: _Watch(host, unit) for unit in units}
    outcomes: dict[str, Outcome] = {}
    if not pending:
        return outcomes
    looker = _Looker(manager)
    for delay in _delays():
        shown = looker.look(pending)
        for name, said in shown.items():
            outcome = pending[name].outcome(said)
            if outcome is not None:
                del pending[name]
                outcomes[name] = outcome
                on_end(name, outcome)
        if not pending:
            break
        time.sleep(delay)
    return outcomes


def until_stopped(manager: Manager, names: Iterable[str]) -> dict[str, Outcome]:
    """Outcome by unit (READY: it is stopped); each has its own TimeoutStopSec, after which systemd has killed it."""
    began = time.monotonic()
    pending = set(names)
    outcomes: dict[str, Outcome] = {}
    looker = _Looker(manager)
    for delay in _delays():
        shown = looker.look(pending)
        waited = time.monotonic() - began
        for name, said in shown.items():
            limit = (parse_span(said.get("TimeoutStopUSec", "")) or _STOP_DEFAULT_S) + _STOP_MARGIN_S
            if said.get("ActiveState") in _STOPPED and not said.get("Job"):
                outcomes[name] = Outcome(readiness.READY, "stopped", waited)
            elif waited > limit:
                outcomes[name] = Outcome(readiness.FAILED, f"it did not stop within {limit:.0f} s", waited)
        pending -= set(outcomes)
        if not pending:
            break
        time.sleep(delay)
    return outcomes


class _Looker:
    """Asks systemd about many units, and bears with it for a while when it does not answer.

    What it leaves out comes back without properties, so that deadlines run on; nothing comes back while it is silent.
    """

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._silent_since: float | None = None

    def look(self, names: Iterable[str]) -> dict[str, Properties]:
        asked = sorted(names)
        try:
            shown = self._manager.show(asked)
        except SystemdError:
            now = time.monotonic()
            self._silent_since = self._silent_since or now
            if now - self._silent_since > _SILENCE_S:
                raise
            return {}
        self._silent_since = None
        return {name: shown.get(name, {}) for name in asked}


class _Question:
    """A question to an engine, put by a thread that nobody waits for: an answer that never comes keeps nobody."""

    def __init__(self, pid: str, put: Callable[[], readiness.Answer]) -> None:
        self.pid = pid
        self.answer: readiness.Answer | None = None
        self._put = put
        Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        try:
            self.answer = self._put()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look asks again, and deadlines run on
            self.answer = readiness.Answer(readiness.SILENT, f"it cannot be asked ({type(error).__name__}: {error})")


class _Watch:
    """What was seen of one unit so far."""

    def __init__(self, host: Host, unit: Awaited) -> None:
        self._host = host
        self._unit = unit
        self._asked_at = time.monotonic()
        self._begun_at: float | None = None
        self._process: tuple[str, float] | None = None
        self._exit: readiness.Exit | None = None
        self._wrong_model_at: float | None = None
        self._question: _Question | None = None
        self._answer: tuple[str, readiness.Answer] | None = None

    def outcome(self, said: Properties) -> Outcome | None:
        """How the wait for this unit ended, or None: it goes on."""
        now = time.monotonic()
        seen = self._seen(said)
        pid = said.get("MainPID", "0")
        if self._process is None or self._process[0] != pid:
            self._process = (pid, now)
        if self._begun_at is None and not seen.queued:
            self._begun_at = now
        answer = self._heard(said, now, waits=seen.waits)
        verdict = readiness.judge(self._unit.readiness, self._unit.process_digest, seen, answer, self._times(said, now))
        if verdict.state not in {readiness.READY, readiness.FAILED}:
            return None
        return Outcome(verdict.state, verdict.detail, now - self._asked_at, verdict.began)

    def _seen(self, said: Properties) -> readiness.Seen:
        code = _count(said.get("ExecMainCode"))
        if code and not said.get("Job"):
            self._exit = readiness.Exit(_count(said.get("ExecMainStatus")), by_signal=code != _EXITED)
        return readiness.Seen(
            load_state=said.get("LoadState", ""),
            active_state=said.get("ActiveState", ""),
            sub_state=said.get("SubState", ""),
            result=said.get("Result", ""),
            queued=bool(said.get("Job")),
            exit=self._exit,
            restarts=max(0, _count(said.get("NRestarts")) - self._unit.restarts),
            digest=observed.running_digest(self._host, said),
            waits=self._waits(said.get("MainPID", "0")),
        )

    def _times(self, said: Properties, now: float) -> readiness.Times:
        stamp = parse_timestamp(said.get("StateChangeTimestamp", ""))
        # The stamp is in whole seconds. It saves a unit that was active all along from being watched anew.
        active = 0.0 if stamp is None else self._host.clock() - stamp - 1.0
        return readiness.Times(
            waited=now - self._asked_at,
            begun=None if self._begun_at is None else now - self._begun_at,
            active=max(active, now - (self._process[1] if self._process else now)),
            wrong_model=now - (self._wrong_model_at or now),
            allowance=self._unit.allowance_s,
        )

    def _heard(self, said: Properties, now: float, *, waits: bool) -> readiness.Answer | None:
        """The last answer of the present main process; puts the next question, without waiting for it."""
        pid = said.get("MainPID", "0")
        if self._unit.readiness.kind == "unit" or said.get("ActiveState") != "active" or waits:
            self._question = self._answer = self._wrong_model_at = None  # what comes yet is of another leader
            return None
        if self._question is not None and self._question.answer is not None:
            answer = self._question.answer
            self._answer = (self._question.pid, answer)
            self._question = None
            self._wrong_model_at = (self._wrong_model_at or now) if answer.word == readiness.OTHER_MODEL else None
        if self._question is None:
            group, main_pid = said.get("ControlGroup", ""), int(pid)
            self._question = _Question(pid, lambda: self._ask(group, main_pid))
        return self._answer[1] if self._answer is not None and self._answer[0] == pid else None

    def _waits(self, pid: str) -> bool:
        """Whether a member's guard has not started its engine: a leader that answers now is of the group before.

        All guards start their engines at once, so a leader that answers from then on is of this member's group.
        """
        if not self._unit.in_group or pid == "0":
            return False
        return self._host.read(f"/proc/{pid}/task/{pid}/children") == b""  # None where the kernel does not tell

    def _ask(self, control_group: str, pid: int) -> readiness.Answer:
        wanted = self._unit.readiness
        answer = readiness.ask(self._host, wanted, _ASK_TIMEOUT_S, engine_key.read(self._host, self._unit.key_file))
        if answer.word == readiness.SERVING and wanted.port is not None and wanted.kind == "http":
            mine = port_owner.owns(self._host, control_group, pid, wanted.address, wanted.port)
            if mine is False:
                return readiness.Answer(readiness.FOREIGN, f"port {wanted.port} is answered by a process not its own")
        return answer


def _delays() -> Iterable[float]:
    delay = _FIRST_DELAY_S
    while True:
        yield delay
        delay = min(_LAST_DELAY_S, delay * _BACK_OFF)


def _count(value: str | None) -> int:
    return int(value) if value is not None and value.isascii() and value.isdigit() else 0

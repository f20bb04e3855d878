# SPDX-License-Identifier: BSD-2-Clause
"""Carries out the change of one host: write, stop and remove, reload once, start all, wait for all, put back (R4, R5).

Private to llmgw. Killed at any moment, it leaves a state that the next run sees for what it is: files are whole,
a unit's file goes last, and what a process was started with is read from the process itself. What cannot be written is
found out before anything is stopped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import (
    atomic,
    engine_key,
    guard_file,
    port_conflicts,
    start_failure,
    systemd,
    unit_files,
    unitchange,
    unitfile,
    units_wait,
    unwritten,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.memory import memory
from ansible_collections.llmgw.fleet.plugins.module_utils.put_back import Previous, previous_of
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import FAILED, READY
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record, StateFiles

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import EngineMemory
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import HostChange, Step, WantedUnit

_TAIL_LINES = 40
_STARTING = (unitchange.CREATED, unitchange.RESTARTED, unitchange.STARTED)
ABSENT = "absent"
_UNTOUCHED = "No unit was stopped, restarted or changed."


@dataclass(frozen=True)
class UnitResult:
    """What became of one unit. `put_back`: None when nothing was put back, else whether what was there is again;
    `obstacle`: why that could not even be written.
    """

    name: str
    action: str
    state: str
    detail: str
    seconds: float = 0.0
    log_tail: str | None = None
    put_back: bool | None = None
    obstacle: str | None = None

    @property
    def sentence(self) -> str:
        """What failed about it and what was done about that."""
        if self.put_back is None:
            return f"{self.name}: {self.detail}."
        if self.obstacle is not None:
            after = f"the previous version could not be put back: {self.obstacle}"
        elif self.action == unitchange.CREATED:
            after = "it was removed again" if self.put_back else "it could not be removed again"
        else:
            after = f"the previous version was put back and is {'ready' if self.put_back else 'not ready either'}"
        return f"{self.name}: {self.detail}; {after}."


class Apply:
    """One run on one host, under its lock."""

    def __init__(
        self,
        host: Host,
        manager: systemd.Manager,
        state: StateFiles,
        generation: int,
        *,
        plan_id: str | None = None,
        by: str | None = None,
    ) -> None:
        self._host = host
        self._manager = manager
        self._state = state
        self._generation = generation
        self._plan_id = plan_id
        self._by = by
        self._files = unit_files.UnitFiles(manager, state.directory)
        self._results: dict[str, UnitResult] = {}
        self.warnings: list[str] = []

    def carry_out(self, change: HostChange) -> tuple[UnitResult, ...]:
        """Does everything and returns how each unit ended, sorted by name.

        Raises UnwrittenError, with every unit as it was, when what is new cannot be written; SystemdError when the
        manager does not answer; OSError when a file cannot be deleted.
        """
        blocked = port_conflicts.conflicts(self._host, change)
        for name, why in blocked.items():
            self._results[name] = UnitResult(name, unitchange.KEPT, FAILED, why)
        placed = [step for step in change.steps if step.wanted is not None and step.name not in blocked]
        changing = [step for step in placed if step.action != unitchange.KEPT]
        self._write(placed, changing)
        try:
            self._remove([step for step in change.steps if step.wanted is None])
            if changing or any(step.action == unitchange.REMOVED for step in change.steps):
                self._manager.daemon_reload()
            self._forget_failures([step for step in change.steps if step.action == unitchange.REMOVED])
            self._bring_up(placed)
        finally:
            self._files.forget()
        return tuple(self._results[name] for name in sorted(self._results))

    def _write(self, placed: Sequence[Step], changing: Sequence[Step]) -> None:
        """Everything that takes space on a disk. Whose plan this is comes first: what follows is its doing."""
        try:
            self._state.note_applied(self._generation, self._plan_id, self._by)
            guard_file.place(self._host, self._state.directory, [step.wanted.text for step in placed if step.wanted])
            self._files.write(changing)
        except OSError as error:
            said = f"{unwritten.why(self._host, error)}. {_UNTOUCHED} {unwritten.remedy(error)}"
            raise unwritten.UnwrittenError(said) from None
        except systemd.SystemdError as error:
            raise unwritten.UnwrittenError(f"{error}. {_UNTOUCHED} Mend that on this host, then apply again.") from None

    def _remove(self, steps: Sequence[Step]) -> None:
        """Removes the units the plan does not want, and what is remembered of those that are gone already."""
        for step in steps:
            if step.action == unitchange.KEPT:
                self._state.forget(step.name, ())
                self._results[step.name] = UnitResult(step.name, step.action, ABSENT, "it was not there")
        going = [step for step in steps if step.action == unitchange.REMOVED]
        for name, end in self._dismantle(going).items():
            state = ABSENT if end.state == READY else FAILED
            self._results[name] = UnitResult(name, unitchange.REMOVED, state, end.detail, end.seconds)

    def _dismantle(self, steps: Sequence[Step]) -> dict[str, units_wait.Outcome]:
        """Stops units and deletes all that is theirs; one that does not stop stays, for it still runs."""
        if not steps:
            return {}
        names = [step.name for step in steps]
        self._manager.stop(names)
        stopped = units_wait.until_stopped(self._manager, names)
        gone = [step for step in steps if stopped[step.name].state == READY]
        if gone:
            self._manager.disable([step.name for step in gone])
        for step in gone:
            self._delete(step)
        return stopped

    def _delete(self, step: Step) -> None:
        """The unit's own file goes last: as long as it is there, the next run knows that something is left to do."""
        unit = f"{self._manager.unit_dir}/{step.name}"
        for one in step.files:
            if one.path != unit:
                unit_files.remove(one.path)
        self._state.forget(step.name, tuple(Path(one.path).name for one in step.files if one.path != unit))
        atomic.remove(unit)

    def _forget_failures(self, steps: Sequence[Step]) -> None:
        if steps:
            self._manager.reset_failed([step.name for step in steps])

    def _bring_up(self, placed: Sequence[Step]) -> None:
        """Starts what must start, waits for every unit, and puts back what was there for those that failed."""
        units = {step.name: step.wanted for step in placed if step.wanted is not None}
        starting = [step.name for step in placed if step.action in _STARTING]
        if starting:
            self._warn(self._manager.keep_after_logout())
        marks = {name: self._manager.log_mark(units[name].text) for name in starting}
        now = time.time()
        refused = self._start(starting) if starting else None
        steps = {step.name: step for step in placed}
        awaited = [_awaited(steps[name], unit, self._state.directory) for name, unit in units.items()]

        def end(name: str, outcome: units_wait.Outcome) -> None:
            step, unit = steps[name], units[name]
            since = now if name in marks else None  # of a process that went on, whatever it said last
            silent = outcome.state == READY and name not in marks  # what it said when it started is known or gone
            log = "" if silent else self._manager.log(name, unit.text, since, marks.get(name, 0))
            if not outcome.began:  # what else is there is of the process before
                log = systemd.own_words(name, log)
            detail, tail = outcome.detail, None
            if outcome.state == READY:
                try:
                    self._remember(step, unit, log)
                except OSError as error:  # what is remembered may be lost; what the other units need may not
                    self._warn(_unnoted(name, error))
            else:
                happened = f"{detail}; {refused}" if refused else detail
                engine = unitfile.parse(unit.text).engine
                detail = start_failure.why(engine, happened, log) if outcome.began else happened
                tail = systemd.tail_of(log, _TAIL_LINES)
            self._results[name] = UnitResult(name, step.action, outcome.state, detail, outcome.seconds, tail)

        units_wait.until_ready(self._host, self._manager, awaited, end)
        self._put_back([step for step in placed if self._results[step.name].state == FAILED])

    def _warn(self, text: str | None) -> None:
        if text is not None:
            self.warnings.append(text)

    def _start(self, names: Sequence[str]) -> str | None:
        """Queues the starts. They are no crash loop: what systemd has counted towards its start limit goes first."""
        self._manager.reset_failed(names)
        return self._manager.restart(names)

    def _remember(self, step: Step, unit: WantedUnit, log: str) -> None:
        """Notes a ready unit's text and how it was found ready; what a kept unit's record says of its origin stays."""
        for path, text in unit.environment_files.items():
            self._state.write_last_good(Path(path).name, text)
        self._state.write_last_good(step.name, unit.text)
        known = self._state.record(step.name)
        kept = step.action == unitchange.KEPT and known.process_digest == unit.process_digest
        generation = known.generation if kept and known.generation is not None else self._generation
        asked = unit.readiness
        same = known.process_digest == unit.process_digest
        goes_on = step.action not in _STARTING and same and _was_ready(step, known)
        record = Record(
            generation,
            unit.process_digest,
            asked.health_path,
            asked.models_path,
            asked.expect_model,
            ready_at=known.ready_at if goes_on else round(self._host.clock(), 1),
            memory=_reported(unit, log) or (known.memory if same else None),
            leader_address=asked.address if asked.kind == "leader" else None,
            leader_port=asked.port if asked.kind == "leader" else None,
        )
        self._state.write_record(step.name, record)

    def _put_back(self, failed: Sequence[Step]) -> None:
        """Brings back what was there before each failed unit: its previous version, or nothing where it was new."""
        new = [step for step in failed if step.action == unitchange.CREATED]
        old = [step for step in failed if step.action != unitchange.CREATED]
        previous = {step.name: previous_of(step, self._state) for step in old}
        back = {name: one for name, one in previous.items() if one is not None}
        for name, end in self._dismantle(new).items():
            self._noted(name, end)
        back = {name: one for name, one in back.items() if self._placed_again(name, one)}
        if new or back:
            self._manager.daemon_reload()
            self._forget_failures(new)
        if back:
            self._start(list(back))
        awaited = [_again(name, one, self._state.directory) for name, one in back.items()]
        units_wait.until_ready(self._host, self._manager, awaited, self._noted)

    def _placed_again(self, name: str, previous: Previous) -> bool:
        """Whether an earlier version's files are there again; where they cannot be, the other units go on."""
        try:
            for path, text in previous.environment_files.items():
                self._files.place(path, text)
            self._files.place(f"{self._manager.unit_dir}/{name}", previous.text)
        except OSError as error:
            why = unwritten.why(self._host, error)
            self._results[name] = replace(self._results[name], put_back=False, obstacle=why)
            return False
        return True

    def _noted(self, name: str, outcome: units_wait.Outcome) -> None:
        self._results[name] = replace(self._results[name], put_back=outcome.state == READY)


def _unnoted(name: str, error: OSError) -> str:
    return (
        f"{name} is ready, but that could not be noted, so that this version may not come back if a later one fails: "
        f"{error}. Free space or mend the file, then apply again"
    )


def _awaited(step: Step, unit: WantedUnit, state_dir: str) -> units_wait.Awaited:
    starts = step.action in _STARTING
    ran = step.observed is not None and step.observed.active_state not in {None, "inactive", "failed"}
    return units_wait.Awaited(
        unit.name,
        unit.process_digest,
        unit.readiness,
        allowance_s=unit.stop_timeout_s if starts and ran else 0.0,
        restarts=0 if starts or step.observed is None else step.observed.restarts or 0,
        key_file=engine_key.file_of(state_dir, unit.text),
        in_group=guard_file.is_in_group(unit.text),
    )


def _was_ready(step: Step, known: Record) -> bool:
    """Whether the process that runs was seen ready before: systemd may have started another since."""
    since = step.observed.since if step.observed else None
    return known.ready_at is not None and since is not None and known.ready_at >= since


def _reported(unit: WantedUnit, log: str) -> EngineMemory | None:
    """What the engine said of its memory; of a replica over several nodes the leader alone counts."""
    header = unitfile.parse(unit.text)
    return None if header.rank else memory(header.engine, log, header.engine_version)


def _again(name: str, previous: Previous, state_dir: str) -> units_wait.Awaited:
    return units_wait.Awaited(
        name,
        previous.process_digest,
        previous.readiness,
        allowance_s=previous.stop_timeout_s,
        key_file=engine_key.file_of(state_dir, previous.text),
        in_group=guard_file.is_in_group(previous.text),
    )

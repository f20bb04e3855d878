# SPDX-License-Identifier: BSD-2-Clause
"""The state of a unit, since when, until when, and why (R6): one pure function of what was seen.

Private to llmgw. A log is read only where it can tell something, so it comes as a function.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.complaints import complaint
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.group import waited_for
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.progress import progress
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import (
    FAILED,
    LOADING,
    READY,
    RESULT_WORDS,
    STARTING,
)

DRAINING = "draining"


class Look(NamedTuple):
    """What was seen of a unit. `since`: its last change of state; `ready_at`: when it was last seen ready.

    `serves`: whether its engine answers under the expected name; None: it was asked and did not say. `asked` is false
    for members that have no readiness of their own, which their unit alone tells (R7).
    """

    engine: Optional[str]
    active_state: Optional[str]
    sub_state: Optional[str]
    result: Optional[str]
    since: Optional[float]
    now: float
    asked: bool = True
    serves: Optional[bool] = None
    ready_at: Optional[float] = None
    start_timeout_s: Optional[float] = None
    ready_timeout_s: Optional[float] = None
    stop_timeout_s: Optional[float] = None


class UnitState(NamedTuple):
    """`state`: starting, loading, ready, draining, failed, or None: it does not run, or is unknown. Times are Unix
    seconds; `progress`: how much of the start is behind it (0 to 1), where the engine's log tells.
    """

    state: Optional[str] = None
    since: Optional[float] = None
    deadline: Optional[float] = None
    reason: Optional[str] = None
    progress: Optional[float] = None


def unit_state(look: Look, log: Callable[[], str]) -> UnitState:
    """The state of a unit. `log`: the end of what it printed; called at most once, and never for one that is ready."""
    if look.active_state == "failed":
        return UnitState(FAILED, look.since, None, _why(look, log(), _ended(look)))
    if look.active_state == "deactivating":
        return UnitState(DRAINING, look.since, _after(look, look.stop_timeout_s), _draining(look))
    if look.active_state == "activating":
        return _activating(look, log)
    if look.active_state in {"active", "reloading"}:
        return _active(look, log)
    return UnitState(None, look.since, None, "it does not run") if look.active_state == "inactive" else UnitState()


def _activating(look: Look, log: Callable[[], str]) -> UnitState:
    if look.sub_state == "auto-restart":
        return UnitState(STARTING, look.since, None, _why(look, log(), f"{_ended(look)}, and is started again"))
    return UnitState(STARTING, look.since, _after(look, look.start_timeout_s), "its process is being started")


def _active(look: Look, log: Callable[[], str]) -> UnitState:
    was_ready = look.since is not None and look.ready_at is not None and look.ready_at >= look.since
    if look.asked and look.serves:
        return UnitState(READY, look.ready_at if was_ready else None)
    if was_ready and look.asked:
        if look.serves is None:
            return UnitState(READY, look.ready_at, None, "it was ready, and did not answer in time now")
        return UnitState(FAILED, None, None, _why(look, log(), "it was ready, and does not serve any more"))
    said = log()
    waits = waited_for(said)
    if waits is not None:
        return _in_time(look, UnitState(STARTING, look.since, _after(look, look.ready_timeout_s), waits), said)
    if not look.asked:
        return UnitState(READY, look.since)
    came = progress(look.engine, said)
    words, fraction = (came.words, came.fraction) if came is not None else ("its engine does not serve yet", None)
    deadline = _after(look, look.ready_timeout_s)
    return _in_time(look, UnitState(LOADING, look.since, deadline, words, fraction), said)


def _in_time(look: Look, state: UnitState, said: str) -> UnitState:
    """The state, or that it failed: its deadline is over. It may come all the same, and is ready then."""
    if state.deadline is None or look.now <= state.deadline:
        return state
    late = f"not ready within {look.ready_timeout_s:g} s ({state.reason})"
    return UnitState(FAILED, state.deadline, None, _why(look, said, late), state.progress)


def _why(look: Look, said: str, otherwise: str) -> str:
    """The error that the log names, and what happened; the latter alone where it names none."""
    named = complaint(look.engine, said)
    if named is None:
        return otherwise
    return f"{named.says} ({otherwise}){'. ' + named.remedy.rstrip('.') if named.remedy else ''}"


def _ended(look: Look) -> str:
    return RESULT_WORDS.get(look.result or "", "it ended")


def _draining(look: Look) -> str:
    if "sigkill" in (look.sub_state or ""):
        return "its time to finish is over: it is being killed"
    return "it was asked to stop, and finishes what is in flight"


def _after(look: Look, seconds: Optional[float]) -> Optional[float]:
    return None if look.since is None or seconds is None else look.since + seconds

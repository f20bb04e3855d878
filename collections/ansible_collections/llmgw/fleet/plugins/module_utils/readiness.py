# SPDX-License-Identifier: BSD-2-Clause
"""Whether an engine that was started is starting, loading, ready or failed (R6, R7).

Private to llmgw. `ask` puts the two questions (is the process up, are the weights served under the expected name);
`judge` is a pure function of what systemd says, of the answer and of the time that passed.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Response

STARTING = "starting"
LOADING = "loading"
READY = "ready"
FAILED = "failed"

REFUSED = "refused"  # nobody listens: not started yet, or an engine that listens only once it has loaded
SILENT = "silent"  # no answer in time, or a broken one
BUSY = "busy"  # it answers, and says that it cannot serve yet
OTHER_MODEL = "other-model"
FOREIGN = "foreign"  # the answer came from a process of another unit
SERVING = "serving"

SETTLE_S = 2.0  # how long a unit without a readiness of its own must have been active
WRONG_MODEL_S = 10.0  # how long another model may be listed before that is a failure
MAX_RESTARTS = 2
_OK = 200
_NEEDS_KEY = (401, 403)
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the other way round: what to ask instead
# How systemd says that a unit ended (systemd.exec(5), $SERVICE_RESULT).
RESULT_WORDS = {
    "core-dump": "it crashed",
    "exec-condition": "a condition of its unit does not hold",
    "exit-code": "it ended with an error",
    "oom-kill": "the kernel killed it: it needed more memory than it may have",
    "protocol": "it did not start as its unit says",
    "resources": "systemd lacked what it needs to start it",
    "signal": "a signal ended it",
    "start-limit-hit": "it ended too often in a short time, and is not started again",
    "success": "it ended by itself",
    "timeout": "it took too long to start or to stop",
    "watchdog": "it did not report in time",
}
_UNLOADABLE = ("bad-setting", "error", "masked", "not-found")
# Exit statuses by which systemd tells what failed before the program ran (systemd.exec(5), "process exit codes").
_SETUP_FAILURES = range(200, 244)
_SETUP_WORDS = {
    200: "its working directory cannot be entered",
    203: "its command cannot be executed",
    209: "its log file cannot be opened",
    216: "its group does not exist",
    217: "its user does not exist",
    226: "its sandbox cannot be set up",
}


@dataclass(frozen=True)
class Readiness:
    """How to tell that a unit is ready (R7). `kind`: `http` asks the engine, `unit` trusts systemd alone: members of a
    replica that have no readiness of their own.

    `listens_while_loading`: the port opens before the weights are loaded, so that one still closed after
    `start_timeout_s` is a failure.
    """

    kind: str
    address: str | None = None
    port: int | None = None
    health_path: str = "/health"
    models_path: str = "/v1/models"
    expect_model: str | None = None
    start_timeout_s: float = 60
    ready_timeout_s: float = 600
    listens_while_loading: bool = False


class Answer(NamedTuple):
    """What an engine answered, as one of the words above, and a sentence about it."""

    word: str
    detail: str


class Exit(NamedTuple):
    """How a process ended: its exit status, or the signal that ended it."""

    number: int
    by_signal: bool = False

    def __str__(self) -> str:
        return f"{'signal' if self.by_signal else 'exit status'} {self.number}"


class Seen(NamedTuple):
    """One look at a unit through systemd. `exit`: how its last main process ended, None when none did so far.

    `digest`: what the main process was started with, None when unreadable.
    """

    load_state: str
    active_state: str
    sub_state: str
    result: str
    queued: bool
    exit: Exit | None
    restarts: int
    digest: str | None


class Times(NamedTuple):
    """Seconds since the start was asked for, since systemd's queue was done with it (None: it is not), since the
    present main process runs, and since another model than the expected one is listed.

    `allowance`: how long the old process may take to stop before the new one starts.
    """

    waited: float
    begun: float | None
    active: float
    wrong_model: float
    allowance: float


class Verdict(NamedTuple):
    """One of STARTING, LOADING, READY and FAILED, and a sentence that says why."""

    state: str
    detail: str


def ask(host: Host, readiness: Readiness, timeout_s: float, key: str | None = None) -> Answer:
    """What the engine answers now; takes at most twice `timeout_s`. `key`: what its clients must bring; without it the
    models of an engine that asks for one stay unknown.
    """
    base = _base(readiness)
    health = host.fetch(base + readiness.health_path, timeout_s, {})
    if health.status is None:
        return _unreached(health)
    if health.status != _OK:
        return Answer(BUSY, f"{readiness.health_path} answers {health.status}")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return _listed(readiness, host.fetch(base + readiness.models_path, timeout_s, headers))


def judge(readiness: Readiness, wanted_digest: str, seen: Seen, answer: Answer | None, times: Times) -> Verdict:
    """Where a unit is on its way; FAILED as soon as it cannot become ready any more or a deadline has passed."""
    failure = _failure(seen)
    if failure is not None:
        return Verdict(FAILED, failure)
    if times.begun is None:
        if times.waited > times.allowance + readiness.start_timeout_s:
            return Verdict(FAILED, f"the old process did not make room within {times.waited:.0f} s")
        return Verdict(STARTING, "systemd has not started it yet")
    verdict = _progress(readiness, wanted_digest, seen, answer, times)
    if verdict.state == STARTING and times.begun > readiness.start_timeout_s:
        return Verdict(FAILED, f"not started within {readiness.start_timeout_s:g} s: {verdict.detail}")
    if verdict.state == LOADING and times.begun > readiness.ready_timeout_s:
        return Verdict(FAILED, f"not ready within {readiness.ready_timeout_s:g} s: {verdict.detail}")
    return verdict


def _failure(seen: Seen) -> str | None:
    """Why a unit will not come up, as systemd tells it, or None."""
    how = f", {seen.exit}" if seen.exit else ""
    status = seen.exit.number if seen.exit and not seen.exit.by_signal else 0
    setup_failed = seen.sub_state == "auto-restart" and status in _SETUP_FAILURES
    reasons = (
        (seen.load_state in _UNLOADABLE, f"systemd cannot load the unit ({seen.load_state})"),
        (seen.queued, None),  # what else is said is about the process before
        (seen.active_state == "failed", f"{_result(seen)}{how}{_after_restarts(seen)}"),
        (seen.restarts >= MAX_RESTARTS, f"{_again(seen)} and was restarted {seen.restarts} times{how}"),
        (seen.active_state == "inactive", f"it ended{how}"),
        (setup_failed, f"{_SETUP_WORDS.get(status, 'systemd could not set it up')} ({seen.exit})"),
    )
    return next((sentence for holds, sentence in reasons if holds), None)


def _result(seen: Seen) -> str:
    return RESULT_WORDS.get(seen.result, f"it failed ({seen.result})")


def _after_restarts(seen: Seen) -> str:
    return f", after {seen.restarts} restart{'s' if seen.restarts > 1 else ''}" if seen.restarts else ""


def _again(seen: Seen) -> str:
    """How a unit ended that is started again; systemd keeps the result of the last end until the next."""
    return _result(seen) if seen.result == "oom-kill" else "it ended"


def _progress(readiness: Readiness, wanted: str, seen: Seen, answer: Answer | None, times: Times) -> Verdict:
    """The verdict on a unit that has not failed, deadlines aside."""
    if seen.active_state != "active":
        how = f"; the last one ended with {seen.exit}" if seen.exit else ""
        return Verdict(STARTING, f"its process is not up ({seen.active_state}/{seen.sub_state}{how})")
    if seen.digest is not None and seen.digest != wanted:
        return Verdict(STARTING, "its process was started by another version of the unit")
    if readiness.kind != "http":
        return Verdict(READY, "active") if times.active >= SETTLE_S else Verdict(STARTING, "active for a moment only")
    return Verdict(LOADING, "it was not asked yet") if answer is None else _answered(readiness, answer, times)


def _answered(readiness: Readiness, answer: Answer, times: Times) -> Verdict:
    """What an engine's answer means."""
    if answer.word == SERVING:
        return Verdict(READY, answer.detail)
    if answer.word == REFUSED and readiness.listens_while_loading:
        return Verdict(STARTING, answer.detail)
    if answer.word == OTHER_MODEL and times.wrong_model > WRONG_MODEL_S:
        return Verdict(FAILED, answer.detail)
    return Verdict(LOADING, answer.detail)


def _base(readiness: Readiness) -> str:
    address = readiness.address or "127.0.0.1"
    address = _WILDCARDS.get(address, address)
    return f"http://{f'[{address}]' if ':' in address else address}:{readiness.port}"


def _unreached(response: Response) -> Answer:
    error = response.error or "no answer"
    if f"[Errno {errno.ECONNREFUSED}]" in error:
        return Answer(REFUSED, "its port is closed")
    return Answer(SILENT, f"it does not answer ({error})")


def _listed(readiness: Readiness, response: Response) -> Answer:
    """The answer in a model list of OpenAI's form."""
    if response.status is None:
        return _unreached(response)
    if response.status in _NEEDS_KEY:
        return Answer(SERVING, f"{readiness.models_path} needs a key: the model's name was not checked")
    if response.status != _OK:
        return Answer(BUSY, f"{readiness.models_path} answers {response.status}")
    return _named(response.body, readiness.expect_model)


def _named(body: bytes, expected: str | None) -> Answer:
    try:
        names = [str(model["id"]) for model in json.loads(body.decode("utf-8"))["data"]]
    except (ValueError, TypeError, KeyError):
        return Answer(SILENT, "its model list cannot be read")
    if not names:
        return Answer(BUSY, "it lists no model yet")
    if expected is None or expected in names:
        return Answer(SERVING, "it serves " + (expected or ", ".join(names)))
    return Answer(OTHER_MODEL, f"it serves {', '.join(names)} instead of {expected}")

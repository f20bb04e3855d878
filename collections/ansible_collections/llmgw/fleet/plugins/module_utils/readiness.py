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
_LONGEST = 160  # characters of an engine's own words in a sentence
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
    243: (
        "a secret that it names is not on the node: name it in llmgw_secrets and run the playbook llmgw.fleet.prepare"
    ),
}
# Not 203: by that the guard, too, tells of an engine's command, and its log says which.
_NEVER_BEGAN = frozenset(_SETUP_WORDS) - {203}


@dataclass(frozen=True)
class Readiness:
    """How to tell that a unit is ready (R7). `kind`: `http` asks the engine; `leader` is for members of a replica that
    have no readiness of their own: their unit must be up, and address, port, paths and name are their leader's, which
    is asked as with `http`; `unit` trusts systemd alone.

    `listens_while_loading`: the port opens before the weights are loaded, so that one still closed after
    `start_timeout_s` is a failure. It says nothing of `leader`, whose engine waits for this one.
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

    `digest`: what the main process was started with, None when unreadable. `waits`: it is a guard, and its group is not
    together.
    """

    load_state: str
    active_state: str
    sub_state: str
    result: str
    queued: bool
    exit: Exit | None
    restarts: int
    digest: str | None
    waits: bool = False


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
    """One of STARTING, LOADING, READY and FAILED, and a sentence that says why.

    `began` is false where systemd failed before it could run the program, which then has said nothing.
    """

    state: str
    detail: str
    began: bool = True


def ask(host: Host, readiness: Readiness, timeout_s: float, key: str | None = None) -> Answer:
    """What the engine answers now; takes at most twice `timeout_s`. `key`: what its clients must bring; without it the
    models of an engine that asks for one stay unknown.
    """
    answer = _asked(host, readiness, timeout_s, key)
    if readiness.kind == "leader":
        return Answer(answer.word, f"of its leader at {_base(readiness)[len('http://') :]}: {answer.detail}")
    return answer


def _asked(host: Host, readiness: Readiness, timeout_s: float, key: str | None) -> Answer:
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
        return Verdict(FAILED, failure, began=_exit_status(seen) not in _NEVER_BEGAN)
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
    reasons = (
        (seen.load_state in _UNLOADABLE, f"systemd cannot load the unit ({seen.load_state})"),
        (seen.queued, None),  # what else is said is about the process before
        (_setup_failed(seen), f"{_setup_words(seen)} ({seen.exit}{_after_restarts(seen)})"),
        (seen.active_state == "failed", f"{_result(seen)}{how}{_after_restarts(seen)}"),
        (seen.restarts >= MAX_RESTARTS, f"{_again(seen)} and was restarted {seen.restarts} times{how}"),
        (seen.active_state == "inactive", f"it ended{how}"),
    )
    return next((sentence for holds, sentence in reasons if holds), None)


def _setup_failed(seen: Seen) -> bool:
    """Whether systemd failed before the program ran."""
    status = _exit_status(seen)
    waits = seen.sub_state == "auto-restart" and status in _SETUP_FAILURES
    return waits or (seen.active_state == "failed" and status in _SETUP_WORDS)


def _setup_words(seen: Seen) -> str:
    return _SETUP_WORDS.get(_exit_status(seen), "systemd could not set it up")


def _exit_status(seen: Seen) -> int:
    return seen.exit.number if seen.exit and not seen.exit.by_signal else 0


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
    if readiness.kind == "unit":
        return Verdict(READY, "active") if times.active >= SETTLE_S else Verdict(STARTING, "active for a moment only")
    if seen.waits and seen.restarts and times.active > readiness.start_timeout_s:
        # Its deadline may be far away, and another member that failed is about to be, or is, what it was before.
        again = f"it did not come together again within {readiness.start_timeout_s:g} s"
        return Verdict(FAILED, f"its group ended{_after_restarts(seen)}, and {again}")
    if answer is None:
        return Verdict(LOADING, "its group is not together yet" if seen.waits else "it was not asked yet")
    return _answered(readiness, answer, times)


def _answered(readiness: Readiness, answer: Answer, times: Times) -> Verdict:
    """What an engine's answer means."""
    if answer.word == SERVING:
        return Verdict(READY, answer.detail)
    if answer.word == REFUSED and readiness.listens_while_loading and readiness.kind == "http":
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
    return Answer(SILENT, f"it does not answer ({_short(error)})")


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
    except (ValueError, TypeError, KeyError, RecursionError):
        return Answer(SILENT, "its model list cannot be read")
    if not names:
        return Answer(BUSY, "it lists no model yet")
    if expected is None or expected in names:
        return Answer(SERVING, "it serves " + (expected or _short(", ".join(names))))
    return Answer(OTHER_MODEL, f"it serves {_short(', '.join(names))} instead of {expected}")


def _short(words: str) -> str:
    """What an engine said, as it may stand in a sentence: it may send megabytes."""
    text = "".join(filter(str.isprintable, words[: 2 * _LONGEST]))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

# SPDX-License-Identifier: Apache-2.0
"""States of an endpoint and what moves it: two questions asked of the engine, and failed requests (R6, R7, G3).

Pure: probes are values here, and time is an argument. The probing itself is prober.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

SILENT_LIMIT = 2
"""Probes in a row without an answer, and no byte of any request meanwhile, until a ready endpoint counts as failed."""
UNAVAILABLE = 503
KEY_REFUSED = (401, 403)
KEY_WANTED = (
    "the engine asks for a key, and this gateway has another or none: see LLMGW_SECRET_ in llmgw_gateway_secrets"
)


class State(StrEnum):
    """What clients, metrics and the API are told. `draining` comes from the route table, `ejected` from requests to an
    endpoint that probes find ready, all else from probes and transport errors.
    """

    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"
    EJECTED = "ejected"


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of one endpoint. `since`: Unix time at which `state` began; `detail`: why it is not ready. `gone`:
    its process was seen to be gone since it was ready last.
    """

    state: State
    since: float
    detail: str | None = None
    was_ready: bool = False
    silent: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing can be connected to: the port is closed, or the host does not answer at all. `closed`: the former, so
    that the engine's process is gone.
    """

    why: str
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """The connection is there, an answer is not. `bytes_flow`: a request got data from this engine meanwhile."""

    bytes_flow: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The health question's status, and the model names listed (None: that question was not answered with a list)."""

    status: int
    models: tuple[str, ...] | None
    models_status: int | None = None


Probe = Refused | Silent | Answered


def unknown(now: float) -> Health:
    """Before the first probe."""
    return Health(State.STARTING, now, "not probed yet")


def restarted(health: Health) -> Health:
    """The route table says that the replica is a new process: silence of it is a start, not a failure."""
    return replace(health, was_ready=False)


def after_probe(health: Health, probe: Probe, model: str, now: float) -> Health:
    """The endpoint's health after one probe; `model` is the name that it has to serve."""
    match probe:
        case Refused(why, closed):
            down = State.FAILED if health.was_ready else State.STARTING
            return replace(_moved(health, down, why, now), gone=closed or health.gone)
        case Silent(bytes_flow=True):
            return replace(health, silent=0)
        case Silent():
            silent = health.silent + 1
            if health.state is State.READY and silent < SILENT_LIMIT:
                return replace(health, silent=silent)
            down = State.FAILED if health.was_ready else State.LOADING
            return replace(_moved(health, down, "connected, but the health question got no answer", now), silent=silent)
        case Answered():
            return _after_answer(health, probe, model, now)


def after_failure(health: Health, reason: str, now: float) -> Health:
    """Out of rotation until the next good probe, because a request to it ended in a transport error."""
    if health.state is not State.READY:
        return health
    return _moved(health, State.FAILED, f"a request failed: {reason.replace('_', ' ')}", now)


def _after_answer(health: Health, answer: Answered, model: str, now: float) -> Health:
    if answer.status == UNAVAILABLE:
        return _moved(health, State.LOADING, "the health question is answered with 503", now)
    not_up = State.FAILED if health.was_ready else State.LOADING
    if answer.status >= 300:  # noqa: PLR2004
        return _moved(health, not_up, f"the health question is answered with {answer.status}", now)
    if answer.models_status in KEY_REFUSED:
        return _moved(health, not_up, f"{KEY_WANTED} ({answer.models_status})", now)
    if answer.models is None:
        return _moved(health, not_up, f"the models question is answered with {answer.models_status}", now)
    if model not in answer.models:
        served = ", ".join(sorted(answer.models)[:3]) or "nothing"
        return _moved(health, not_up, f"serves {served}, not {model}", now)
    return replace(_moved(health, State.READY, None, now), was_ready=True, gone=False)


def _moved(health: Health, state: State, detail: str | None, now: float) -> Health:
    since = health.since if state is health.state else now
    return Health(state, since, detail, health.was_ready, gone=health.gone)

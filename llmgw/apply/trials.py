# SPDX-License-Identifier: Apache-2.0
"""Whether canaries have done well: the answers of all gateways together, held against a step's trials (R4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Canary(NamedTuple):
    """One endpoint on trial, as all gateways together saw it. `objection`: why it has not passed, in a sentence."""

    endpoint: str
    good: int
    bad: int
    objection: str | None


def judged(trials: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]]) -> list[Canary]:
    """Every canary of a publish step, by trial and endpoint.

    `results` are what the module bundle answered on each gateway: `answers` {endpoint: {good, bad}}, None for what it
    cannot tell, and in words why it ended (`tried`).
    """
    told = list(results)
    return [_judge(endpoint, trial, told) for trial in trials for endpoint in sorted(trial["endpoints"])]


def canary_line(one: Canary) -> str:
    """What a canary did: `canary chat/0@n1  20 good answers, 0 bad`."""
    return f"canary {one.endpoint}  {_answers(one.good)}, {one.bad} bad"


def _judge(endpoint: str, trial: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> Canary:
    counts = [count for answer in told if (count := (answer.get("answers") or {}).get(endpoint)) is not None]
    good = sum(int(count.get("good") or 0) for count in counts)
    bad = sum(int(count.get("bad") or 0) for count in counts)
    why = _objection(endpoint, trial, good, bad) if counts else _unseen(told)
    cut = None if why is None or good + bad == 0 else _cut_short(trial, told)
    why = f"{why}. Counting ended early: {cut}" if cut else why
    return Canary(endpoint, good, bad, None if why is None else f"canary {endpoint}: {why}.")


def _objection(endpoint: str, trial: Mapping[str, Any], good: int, bad: int) -> str | None:
    wanted, allowed, time_s = trial["answers"], trial["max_errors"], trial["timeout_s"]
    service = endpoint.partition("/")[0]
    setting = f"services.{service}.rollout.canary"
    if bad > allowed:
        most = "none may be bad" if allowed == 0 else f"at most {allowed} may be bad"
        return f"{good} good and {bad} bad {_noun(bad)} of {wanted} wanted within {time_s} s; {most}"
    if good >= wanted:
        return None
    if good + bad == 0:
        return (
            f"no request came to it within {time_s} s, and {wanted} good {_noun(wanted)} were wanted. Send {service} "
            f"some requests while it rolls out, or give it more time by {setting}.timeout"
        )
    return (
        f"{good} good and {bad} bad {_noun(bad)} of {wanted} wanted within {time_s} s. Ask for fewer by "
        f"{setting}.answers, or give it more time by {setting}.timeout"
    )


def _cut_short(trial: Mapping[str, Any], told: Iterable[Mapping[str, Any]]) -> str | None:
    """Why every gateway stopped counting before the time was over, other than that it knew enough."""
    ended = [answer for answer in told if isinstance(answer.get("tried_s"), (int, float))]
    if not ended or any(answer["tried_s"] >= trial["timeout_s"] - 1 for answer in ended):
        return None
    said = sorted({str(answer.get("tried") or "") for answer in ended} - {"", "counted"})
    return "; ".join(said) or None


def _unseen(told: Sequence[Mapping[str, Any]]) -> str:
    said = sorted({str(answer["tried"]) for answer in told if answer.get("tried")})
    why = f" ({'; '.join(said)})" if said else ""
    return f"there is no gateway that tells how it does{why}. Bring one back, or roll out without a canary"


def _answers(number: int) -> str:
    return f"{number} good {_noun(number)}"


def _noun(number: int) -> str:
    return "answer" if number == 1 else "answers"

# SPDX-License-Identifier: Apache-2.0
"""What became of one step, over all its hosts, and of all steps so far (R4).

Kept apart from the other actions: a plugin asks for it after every step, in a process of its own, and this file
imports nothing that takes time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llmgw.apply import taken
from llmgw.apply.reasons import failure_reason, silence_reason
from llmgw.apply.trials import canary_line, judged

Json = dict[str, Any]
BEGIN: Json = {
    "failure": [],
    "failed_services": [],
    "wave": "0",
    "overtaken": False,
    "taken": {},
    "canaries": [],
    "lines": [],
}
"""What is known before the first step."""


def follow(before: Mapping[str, Any], step: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Json:
    """What is known after a step of the plan: `{"failure": [sentences], "failed_services", "wave", "overtaken",
    "taken", "canaries", "lines"}`.

    After the first failure nothing is carried out any more and nothing changes here. `wave`: the number of the one
    that failed, as text; `failed_services`: those of which it is to be put back; `overtaken`: another controller was
    quicker, and nothing is to be put back; `taken`: what was begun to be stopped or replaced, by all steps so far (see
    `llmgw.apply.taken`); `canaries` [{endpoint, good, bad, passed}] and `lines`: what this step did.
    """
    if before.get("failure"):
        return _known(before, [])
    told = judge(step, results) | {"taken": taken.after(before.get("taken") or {}, step, results)}
    return {key: told[key] for key in BEGIN}


def put_back(before: Mapping[str, Any], step: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Json:
    """What is known after a step that puts back: as before, and what of it did not work. Nothing stops these steps."""
    told = judge(step, results)
    more = [f"Not put back: {host}: {why}" for host, why in told["failed_hosts"].items()]
    more += [f"Not put back: {one}" for one in told["objections"]]
    overtaken = bool(before.get("overtaken")) or told["overtaken"]
    begun = taken.after(before.get("taken") or {}, step, results)
    known = _known(before, told["lines"]) | {"overtaken": overtaken, "taken": begun}
    return known | {"failure": [*before.get("failure", ()), *more]}


def _known(before: Mapping[str, Any], lines: list[str]) -> Json:
    """What is known already; a plugin hands on more than that."""
    return {key: before.get(key, empty) for key, empty in BEGIN.items()} | {"canaries": [], "lines": lines}


def judge(step: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Json:
    """What became of one step: what `follow` tells of it, and `failed_hosts` {host: why}, `objections` [sentences].

    A host without an answer has failed, and with it every unit that it was to change. A step whose canaries did not
    pass has failed although every gateway did what it was asked to.
    """
    failed: dict[str, str] = {}
    lines: list[str] = []
    for host in sorted(step["hosts"]):
        answer = results.get(host) or {}
        if not answer or answer.get("unreachable") or answer.get("failed"):
            failed[host] = _reason(answer)
        lines += [_unit_line(host, unit) for unit in answer.get("units") or ()]
        lines += [model_line(host, model) for model in answer.get("models") or ()]
    canaries = judged(step.get("trials") or (), results.values())
    lines += map(canary_line, canaries)
    # Where a gateway failed nobody waited for all answers: what is missing says nothing of a canary.
    objections = [one.objection for one in canaries if one.objection is not None and not failed]
    suspects = {one.endpoint for one in canaries if one.objection is not None}
    return {
        "failed_hosts": failed,
        "objections": objections,
        "failure": _failure(step, failed, objections),
        "failed_services": sorted(set(_services(step, failed, suspects, results))),
        "wave": str(step["wave"]),
        "canaries": [
            {"endpoint": one.endpoint, "good": one.good, "bad": one.bad, "passed": one.objection is None}
            for one in canaries
        ],
        "lines": lines,
        "overtaken": any(answer.get("overtaken") is True for answer in results.values()),
    }


def _reason(answer: Mapping[str, Any]) -> str:
    if not answer.get("msg"):
        return "no answer"
    return f"does not answer: {silence_reason(answer)}" if answer.get("unreachable") else failure_reason(answer)


def _services(
    step: Mapping[str, Any],
    failed: Mapping[str, str],
    suspects: Iterable[str],
    results: Mapping[str, Mapping[str, Any]],
) -> Iterator[str]:
    """The services of which a step has failed. A step that fetches or marks has touched none."""
    if step["kind"] == "units":
        for host in failed:
            told = (results.get(host) or {}).get("units")
            names = step["hosts"][host]["units"]
            if told:
                names = [unit["name"] for unit in told if unit.get("state") == "failed"] or names
            yield from map(_service_of_unit, names)
    elif step["kind"] == "publish":
        for host in failed:
            yield from map(_service_of_endpoint, _unseen(step, results.get(host) or {}))
        if not failed:
            yield from map(_service_of_endpoint, suspects)


def _unseen(step: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """The endpoints that a gateway did not see ready; all that it was to see where it does not say."""
    said = answer.get("unready")
    on_trial = [endpoint for trial in step.get("trials") or () for endpoint in trial["endpoints"]]
    return list(said) if said else [*(step.get("ready") or ()), *on_trial]


def _service_of_unit(name: str) -> str:
    """`llmgw-chat.0.0.service` -> `chat`; names of services have no dots."""
    return name.removeprefix("llmgw-").partition(".")[0]


def _service_of_endpoint(endpoint: str) -> str:
    """`chat/0@n1` -> `chat`."""
    return endpoint.partition("/")[0]


def _failure(step: Mapping[str, Any], failed: Mapping[str, str], objections: Iterable[str]) -> list[str]:
    said = [*(f"{host}: {reason}" for host, reason in failed.items()), *objections]
    if not said:
        return []
    wave = f"Wave {step['wave']} of {step['waves']} failed: {step['title']}."
    return [f"{wave} Later waves were not begun; what serves goes on serving.", *said]


def model_line(host: str, model: Mapping[str, Any]) -> str:
    """What became of the weights of one model: `n1  Qwen/Qwen3-32B  fetched, 65.5 GB in 812 s`."""
    came, seconds = model.get("fetched_bytes"), model.get("seconds")
    how = f", {came / 10**9:.1f} GB in {seconds:.0f} s" if came and seconds else ""
    return f"{host}  {model['hf_id']}  {model['action']}{how}"


def _unit_line(host: str, unit: Mapping[str, Any]) -> str:
    state = f", {unit['state']}" if unit.get("state") else ""
    back = " (the one before was put back)" if unit.get("put_back") else ""
    return f"{host}  {unit['name']}  {unit['action']}{state}{back}"

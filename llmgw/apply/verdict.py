# SPDX-License-Identifier: Apache-2.0
"""What became of one step, over all its hosts (R4).

Kept apart from the other actions: a plugin asks for it after every step, in a process of its own, and this file
imports nothing that takes time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def judge(step: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What became of a step: `{"failed_hosts": {host: why}, "failure": [sentences], "lines": [one a unit or model]}`.

    A host without an answer has failed. `overtaken` tells whether a gateway goes by what another controller published.
    """
    failed: dict[str, str] = {}
    lines: list[str] = []
    for host in sorted(step["hosts"]):
        answer = results.get(host)
        if answer is None or answer.get("unreachable") or answer.get("failed"):
            failed[host] = str((answer or {}).get("msg") or "no answer")
        lines += [_unit_line(host, unit) for unit in (answer or {}).get("units") or ()]
        lines += [model_line(host, model) for model in (answer or {}).get("models") or ()]
    overtaken = any(answer.get("overtaken") is True for answer in results.values())
    return {"failed_hosts": failed, "failure": _failure(step, failed), "lines": lines, "overtaken": overtaken}


def _failure(step: Mapping[str, Any], failed: Mapping[str, str]) -> list[str]:
    if not failed:
        return []
    wave = f"Wave {step['wave']} of {step['waves']} failed: {step['title']}."
    rest = "Later waves were not begun; what serves goes on serving."
    return [f"{wave} {rest}", *(f"{host}: {reason}" for host, reason in failed.items())]


def model_line(host: str, model: Mapping[str, Any]) -> str:
    """What became of the weights of one model: `n1  Qwen/Qwen3-32B  fetched, 65.5 GB in 812 s`."""
    came, seconds = model.get("fetched_bytes"), model.get("seconds")
    how = f", {came / 10**9:.1f} GB in {seconds:.0f} s" if came and seconds else ""
    return f"{host}  {model['hf_id']}  {model['action']}{how}"


def _unit_line(host: str, unit: Mapping[str, Any]) -> str:
    state = f", {unit['state']}" if unit.get("state") else ""
    back = " (the one before was put back)" if unit.get("put_back") else ""
    return f"{host}  {unit['name']}  {unit['action']}{state}{back}"

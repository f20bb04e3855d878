# SPDX-License-Identifier: Apache-2.0
"""What a run has taken out of the routes and begun to stop or to replace, as its steps tell, one after another.

Part of the verdict, which a plugin asks for after every step: this file imports nothing that takes time. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmgw.apply.reasons import timed_out

Json = dict[str, Any]


def after(taken: Mapping[str, Any], step: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> Json:
    """By endpoint `{"hosts", "silent", "process"}` (see `llmgw.routes.withheld.Taken`) once this step was carried out,
    from what it was before.

    A step that publishes gives back what has come in anew. A host that answers a step has ended all that earlier ones
    had begun there: it does one after another.
    """
    if step["kind"] == "publish":
        given = set(step.get("ready") or ())
        return {name: one for name, one in taken.items() if name not in given}
    answered = {host for host in step["hosts"] if not _is_silent(results.get(host) or {})}
    found: Json = dict(taken)
    for name, one in (step.get("takes") or {}).items():
        known = taken.get(name) or {"hosts": (), "silent": ()}
        silent = {*known["silent"], *(host for host in one["hosts"] if host in step["hosts"])} - answered
        hosts = sorted({*known["hosts"], *one["hosts"]})
        found[name] = {"hosts": hosts, "silent": sorted(silent), "process": one["process"]}
    return found


def _is_silent(answer: Mapping[str, Any]) -> bool:
    """Whether a host never said how a step ended: what was begun there may go on."""
    return not answer or bool(answer.get("unreachable")) or timed_out(answer)

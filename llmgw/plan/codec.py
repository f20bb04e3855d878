# SPDX-License-Identifier: Apache-2.0
"""The plan as JSON, and the digests of its inputs (Q6, R9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from llmgw.fleet.hosts import Host, Stored
from llmgw.model.ids import Digest
from llmgw.model.plan import FetchWeights, Plan, PlanInputs
from llmgw.nodekit import unitfile
from llmgw.plan.steady import parts

_SUMMARY = (
    "format_version",
    "generation",
    "actions",
    "unplaced",
    "untouched",
    "frozen",
    "moves",
    "moves_lower_bound",
    "notes",
    "advice",
    "free",
    "rollouts",
    "drift",
)


@cache
def _plans() -> TypeAdapter[Plan]:
    return TypeAdapter(Plan)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The whole plan, unit texts included, as JSON values."""
    document: dict[str, Any] = _plans().dump_python(plan, mode="json")
    return document


def load_plan(data: bytes) -> Plan:
    """The plan in a JSON document. Raises pydantic's ValidationError for anything else."""
    return _plans().validate_json(data)


def plan_summary(plan: Plan) -> dict[str, Any]:
    """What a reader wants of a plan: actions, what cannot be placed and why, what is left alone, what is fetched; no
    unit texts.
    """
    summary: dict[str, Any] = _plans().dump_python(plan, mode="json", include=set(_SUMMARY))
    fetches = [
        asdict(one)
        for wave in plan.waves
        for step in wave.steps
        if isinstance(step, FetchWeights)
        for one in step.fetches
    ]
    waves = [wave.title for wave in plan.waves]
    return {key: summary[key] for key in _SUMMARY} | {"fetches": fetches, "waves": waves}


def plan_inputs(catalog_digest: str, hosts: tuple[Host, ...], stored: Mapping[str, Stored]) -> PlanInputs:
    """The digests by which a saved plan is known to be still true. Facts count by what decisions read of them and what
    stays from look to look, not by their age.
    """
    facts = {
        name: {part: Digest(unitfile.digest(value)) for part, value in sorted(parts(one).items())}
        for name, one in sorted(stored.items())
    }
    inventory = [[host.name, host.node, host.gateway, host.variables] for host in hosts]
    return PlanInputs(Digest(catalog_digest), Digest(unitfile.digest(inventory)), facts)

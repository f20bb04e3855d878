# SPDX-License-Identifier: Apache-2.0
"""The plan as JSON, and the digests of its inputs (Q6, R9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from llmgw.fleet.devices import devices_of
from llmgw.fleet.hosts import Host, Stored
from llmgw.model.ids import Digest
from llmgw.model.plan import Plan, PlanInputs
from llmgw.nodekit import unitfile

_PLAN = TypeAdapter(Plan)


def plan_document(plan: Plan) -> dict[str, Any]:
    """The whole plan, unit texts included, as JSON values."""
    document: dict[str, Any] = _PLAN.dump_python(plan, mode="json")
    return document


def load_plan(data: bytes) -> Plan:
    """The plan in a JSON document. Raises pydantic's ValidationError for anything else."""
    return _PLAN.validate_json(data)


def plan_summary(plan: Plan) -> dict[str, Any]:
    """What a reader wants of a plan: actions, what cannot be placed and why, what is left alone; no unit texts."""
    whole = plan_document(plan)
    keys = ("format_version", "generation", "actions", "unplaced", "untouched", "frozen", "moves", "moves_lower_bound")
    return {key: whole[key] for key in keys} | {"waves": [wave.title for wave in plan.waves]}


def plan_inputs(catalog_digest: str, hosts: tuple[Host, ...], stored: Mapping[str, Stored]) -> PlanInputs:
    """The digests by which a saved plan is known to be still true. Facts count by what placement reads of them, not by
    their age.
    """
    facts = {name: Digest(unitfile.digest(_steady(one))) for name, one in sorted(stored.items())}
    inventory = [[host.name, host.node, host.gateway, host.variables] for host in hosts]
    return PlanInputs(Digest(catalog_digest), Digest(unitfile.digest(inventory)), facts)


def _steady(stored: Stored) -> Any:
    """What is known of a host without what changes from one look to the next."""
    if stored.facts is None:
        return {"answers": stored.unreachable_since is None}
    facts = asdict(stored.facts)
    units = facts.get("units") or ()
    return {
        "answers": stored.unreachable_since is None,
        "devices": [[device.uuid, device.device_class] for device in devices_of(stored.facts) or ()],
        "memory": (facts.get("memory") or {}).get("total_bytes"),
        "kept_away": [facts.get("cordoned"), facts.get("drained")],
        "engines": facts.get("engines"),
        "units": [
            [unit["name"], unit["actual_text_digest"], unit["running_digest"], unit["active_state"]] for unit in units
        ],
        "boot_id": (facts.get("system") or {}).get("boot_id"),
        "blocked": [finding["subject"] for finding in facts["findings"] if finding["severity"] == "block"],
    }

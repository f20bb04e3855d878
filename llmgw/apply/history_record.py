# SPDX-License-Identifier: Apache-2.0
"""What the history keeps of an apply that is about to begin: what it is going to do, and what it leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmgw.apply.saved import planned_digest
from llmgw.model.plan import Action, ActionKind, Plan, Publish
from llmgw.plan.rollouts_text import withheld
from llmgw.plan.text import summary_line

if TYPE_CHECKING:
    from llmgw.decide import Decision

_ACTIONS_LISTED = 4000
_TITLES_LISTED = 400


def record_of(decision: Decision, catalog: Path, by: str) -> dict[str, Any]:
    """What the history keeps of an apply that is about to begin, as JSON values, for `begin`.

    `catalog` is the path that the catalog was read from, `by` says who applies it (`user@host`).
    """
    plan = decision.plan
    out = withheld(plan)
    changing = [action for action in plan.actions if action.kind is not ActionKind.KEEP]
    done = [action for action in changing if action.replica not in out]
    not_done = [action for action in changing if action.replica in out]
    return {
        "generation": plan.generation,
        "last_generation": _last_generation(plan),
        "planned": planned_digest(plan),
        "by": by,
        "summary": summary_line(plan),
        "actions": [_listed(action) for action in done[:_ACTIONS_LISTED]],
        "actions_left_out": max(0, len(done) - _ACTIONS_LISTED),
        "withheld": [_listed(action) for action in not_done[:_ACTIONS_LISTED]],
        "withheld_left_out": max(0, len(not_done) - _ACTIONS_LISTED),
        "partly": any(one.refused for one in plan.rollouts),
        "waves": [wave.title for wave in plan.waves[:_TITLES_LISTED]],
        "catalog": {"digest": plan.inputs.catalog if plan.inputs else "", "path": str(catalog.absolute())},
    }


def _listed(action: Action) -> dict[str, Any]:
    return {
        "kind": action.kind.value,
        "replica": action.replica,
        "nodes": list(action.nodes),
        "from_nodes": list(action.from_nodes),
    }


def _last_generation(plan: Plan) -> int:
    """Every bundle has its own generation, those that put something back after a failure too."""
    steps = (step for wave in plan.waves for part in (wave.steps, *wave.undo.values()) for step in part)
    return plan.generation + sum(isinstance(step, Publish) for step in steps)

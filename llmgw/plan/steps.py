# SPDX-License-Identifier: Apache-2.0
"""What the steps of a plan have in them, over all its waves."""

from __future__ import annotations

from llmgw.model.plan import Fetch, FetchWeights, MarkDevices, Plan, Quarantine


def fetches_of(plan: Plan) -> tuple[Fetch, ...]:
    """All weights that are fetched, in order."""
    steps = (step for wave in plan.waves for step in wave.steps)
    return tuple(one for step in steps if isinstance(step, FetchWeights) for one in step.fetches)


def marks_of(plan: Plan) -> tuple[Quarantine, ...]:
    """All devices that are quarantined, in order."""
    steps = (step for wave in plan.waves for step in wave.steps)
    return tuple(one for step in steps if isinstance(step, MarkDevices) for one in step.devices)

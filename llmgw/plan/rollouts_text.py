# SPDX-License-Identifier: Apache-2.0
"""How services are rolled out, and why one cannot be, for people (R4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmgw.model.ids import ReplicaId
from llmgw.model.plan import Action, ActionKind, Plan, Publish, Rollout, StartMembers, Strategy, Trial
from llmgw.plan.wording import number, some

_DONE_BY_STARTING = frozenset(
    {ActionKind.CREATE, ActionKind.MOVE, ActionKind.UPDATE, ActionKind.START, ActionKind.REWRITE}
)


def refused_lines(plan: Plan) -> Iterator[str]:
    """The services of which nothing is rolled out, each with why and what to do."""
    for one in plan.rollouts:
        if one.refused:
            yield f"! {one.service} cannot be rolled out: {one.reason or 'nothing of it may be away'}"
            if one.fix is not None:
                yield f"    fix: {one.fix}"


def rollout_lines(plan: Plan) -> Iterator[str]:
    """A sentence for each service that is rolled out: how many replicas, how many at a time, and who serves
    meanwhile.
    """
    for one in plan.rollouts:
        if not one.refused:
            yield f"* {one.service}: {rollout_sentence(one, plan)}"


def rollout_sentence(rollout: Rollout, plan: Plan) -> str:
    """`3 replicas are replaced, 1 at a time, while chat/3 stands in on n4`."""
    are = "replica is" if rollout.replaced == 1 else "replicas are"
    place = " in place" if rollout.strategy is Strategy.IN_PLACE else ""
    at_once = f", {rollout.at_once} at a time" if rollout.replaced > 1 else ""
    told = f"{rollout.replaced} {are} replaced{place}{at_once}"
    if rollout.stand_ins:
        told += f", while {_standing_in(rollout.stand_ins, plan)}"
    if rollout.reason is not None:
        told += f" ({rollout.reason})"
    return f"{told}{_canary(rollout.canary, plan)}"


def withheld(plan: Plan) -> frozenset[ReplicaId]:
    """Replicas whose changes the plan shows and does not make, since a rollout is refused: its own, and those that wait
    for their devices.
    """
    if not any(one.refused for one in plan.rollouts):
        return frozenset()
    started = {
        unit.replica
        for wave in plan.waves
        for step in wave.steps
        if isinstance(step, StartMembers)
        for unit in step.units
    }
    return frozenset(
        one.replica for one in plan.actions if one.kind in _DONE_BY_STARTING and one.replica not in started
    )


def why_withheld(action: Action, plan: Plan) -> str:
    """Why an action that is withheld is not carried out."""
    if any(one.refused and one.service == action.service for one in plan.rollouts):
        return f"not done now: {action.service} cannot be rolled out"
    return "not done now: it waits for a device of what cannot be rolled out"


def _standing_in(names: Sequence[ReplicaId], plan: Plan) -> str:
    """`chat/3 stands in on n4`, `chat/3 (n4), chat/4 (n5) stand in`. A surplus replica is where it is."""
    nodes = {one.replica: ", ".join(one.nodes) for one in plan.actions}
    if len(names) == 1:
        return f"{names[0]} stands in{f' on {nodes[names[0]]}' if nodes.get(names[0]) else ''}"
    return f"{some([f'{name} ({nodes[name]})' if nodes.get(name) else name for name in names])} stand in"


def _canary(canary: ReplicaId | None, plan: Plan) -> str:
    if canary is None:
        return ""
    trial = _trial_of(canary, plan)
    if trial is None:
        return f"; {canary} goes first, as canary"
    errors = "no error" if trial.max_errors == 0 else f"at most {number(trial.max_errors, 'error')}"
    return (
        f"; {canary} goes first, as canary: the others follow after {number(trial.answers, 'good answer')} of it"
        f" within {trial.timeout_s} s and {errors}"
    )


def _trial_of(canary: ReplicaId, plan: Plan) -> Trial | None:
    trials = (trial for wave in plan.waves for step in wave.steps if isinstance(step, Publish) for trial in step.trials)
    return next((one for one in trials if any(name.startswith(f"{canary}@") for name in one.endpoints)), None)

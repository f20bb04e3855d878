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

_REPLACING = frozenset({ActionKind.UPDATE, ActionKind.START})


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
    replaced = _replaced(rollout, plan)
    are = "replica is" if replaced == 1 else "replicas are"
    place = " in place" if rollout.strategy is Strategy.IN_PLACE else ""
    at_once = f", {min(rollout.at_once, replaced)} at a time" if replaced > 1 else ""
    told = f"{replaced} {are} replaced{place}{at_once}"
    if rollout.stand_ins:
        told += f", while {_standing_in(rollout.stand_ins, plan)}"
    if rollout.reason is not None:
        told += f" ({rollout.reason})"
    return f"{told}{_canary(rollout, plan)}"


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


def _replaced(rollout: Rollout, plan: Plan) -> int:
    """How many replicas the plan does replace: some may wait for a device of what is not rolled out."""
    out = withheld(plan)
    done = [one for one in plan.actions if one.service == rollout.service and one.kind in _REPLACING]
    waiting = sum(one.replica in out for one in done)
    return min(rollout.replaced, len(done) - waiting) if waiting else rollout.replaced


def _canary(rollout: Rollout, plan: Plan) -> str:
    """What the canary must do: the one that is tried in the waves, which need not be the first of the rollout."""
    if rollout.canary is None:
        return ""
    trial = _trial_of(rollout, plan)
    if trial is None:
        return "" if rollout.canary in withheld(plan) else f"; {rollout.canary} goes first, as canary"
    tried = [name.partition("@")[0] for name in trial.endpoints if _is_of(name, rollout)]
    canary = rollout.canary if rollout.canary in tried else tried[0]
    errors = "no error" if trial.max_errors == 0 else f"at most {number(trial.max_errors, 'error')}"
    return (
        f"; {canary} goes first, as canary: the others follow after {number(trial.answers, 'good answer')} of it"
        f" within {trial.timeout_s} s and {errors}"
    )


def _trial_of(rollout: Rollout, plan: Plan) -> Trial | None:
    trials = (trial for wave in plan.waves for step in wave.steps if isinstance(step, Publish) for trial in step.trials)
    return next((one for one in trials if any(_is_of(name, rollout) for name in one.endpoints)), None)


def _is_of(endpoint: str, rollout: Rollout) -> bool:
    return endpoint.startswith(f"{rollout.service}/")

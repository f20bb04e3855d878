# SPDX-License-Identifier: Apache-2.0
"""What has drifted, for people: in short beside a plan, and with what to do beside a diff (R2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmgw.model.plan import Drift, Plan
from llmgw.plan import drift
from llmgw.plan.rollouts_text import withheld
from llmgw.plan.wording import number

_SHOWN = 12
_REMEDIES = {
    drift.EXTRA: "llmgw leaves it alone: stop and disable it, remove its file, then `systemctl daemon-reload` and"
    " `systemctl reset-failed`",
    drift.FOREIGN_DEVICE: "end those processes, or keep the device out of the fleet",
    drift.FOREIGN_ENGINE: "end it, or leave its devices to it: llmgw kills nothing that it did not start",
    drift.WEIGHTS_GONE: "bring the weights back to where they were, or let llmgw fetch them (`fetch` of the model)",
}


def short_drift_lines(plan: Plan) -> Iterator[str]:
    """What the plan does not put right, in so many lines at most; nodes that are left alone have theirs in a diff."""
    left = [one for one in plan.drift if not one.mended and one.node not in plan.untouched]
    for one in left[:_SHOWN]:
        yield f"! {one.node} has drifted: {one.message}"
    if len(left) > _SHOWN:
        yield f"! {number(len(left) - _SHOWN, 'more thing')} drifted, which no apply puts right: `llmgw diff` has them"


def drift_lines(found: Iterable[Drift], plan: Plan) -> Iterator[str]:
    """A line each, `~` for what an apply puts right and `!` for what it does not, with what to do then."""
    found = tuple(found)
    nodes = max((len(one.node) for one in found), default=0)
    kinds = max((len(one.kind) for one in found), default=0)
    for one in found:
        yield f"{'~' if one.mended else '!'} {one.node:<{nodes}}  {one.kind:<{kinds}}  {one.message}"
        if not one.mended:
            yield f"    {remedy(one, plan)}"


def remedy(one: Drift, plan: Plan) -> str:
    """What to do about drift that this plan does not put right."""
    if one.kind in _REMEDIES:
        return _REMEDIES[one.kind]
    return f"an apply puts it right once {_condition(one, plan)}"


def _condition(one: Drift, plan: Plan) -> str:
    if one.node in plan.untouched:
        return f"it may touch {one.node}, which {plan.untouched[one.node]}"
    if one.replica in withheld(plan):
        return f"{one.replica} can be rolled out"
    if any(lacking.replica == one.replica for lacking in plan.unplaced):
        return f"{one.replica} has a place again"
    return "all members of its replica are seen"

# SPDX-License-Identifier: Apache-2.0
"""Drift as people read it, beside a plan and beside a diff."""

from __future__ import annotations

from llmgw.model.ids import NodeName, ReplicaId, ServiceName
from llmgw.model.placement import Unplaced
from llmgw.model.plan import PLAN_FORMAT, Action, ActionKind, Drift, Plan, Rollout, Strategy
from llmgw.plan.drift import KINDS
from llmgw.plan.drift_text import drift_lines, remedy, short_drift_lines


def one(kind: str = "stopped", node: str = "n1", *, mended: bool = False, replica: str | None = "chat/0") -> Drift:
    return Drift(
        kind,
        NodeName(node),
        "llmgw-chat.0.0.service",
        "it is so",
        mended=mended,
        replica=None if replica is None else ReplicaId(replica),
    )


def plan(*drift: Drift, **more: object) -> Plan:
    return Plan(PLAN_FORMAT, 1, (), (), drift=drift, **more)  # type: ignore[arg-type]


def test_beside_a_plan_stands_only_what_it_does_not_put_right() -> None:
    drifted = plan(
        one("edited", mended=True), one("foreign-device"), one(node="n2"), untouched={NodeName("n2"): "is lost"}
    )
    assert list(short_drift_lines(drifted)) == ["! n1 has drifted: it is so"]


def test_of_very_much_drift_the_rest_is_counted() -> None:
    many = plan(*(one("foreign-device", f"n{number:02}") for number in range(14)))
    lines = list(short_drift_lines(many))
    assert len(lines) == 13
    assert lines[-1] == "! 2 more things drifted, which no apply puts right: `llmgw diff` has them"


def test_beside_a_diff_stands_all_of_it_with_what_to_do() -> None:
    found = (one("edited", mended=True), one("foreign-engine", "n10", replica=None))
    assert list(drift_lines(found, plan(*found))) == [
        "~ n1   edited          it is so",
        "! n10  foreign-engine  it is so",
        "    end it, or leave its devices to it: llmgw kills nothing that it did not start",
    ]


def test_every_kind_that_is_not_put_right_has_something_to_do() -> None:
    assert all(remedy(one(kind), plan()) for kind in KINDS)


def test_what_waits_for_something_says_for_what() -> None:
    left_alone = plan(untouched={NodeName("n1"): "does not answer"})
    assert remedy(one(), left_alone) == "an apply puts it right once it may touch n1, which does not answer"
    update = Action(ActionKind.UPDATE, ReplicaId("chat/0"), ServiceName("chat"), (NodeName("n1"),))
    refused = Plan(
        PLAN_FORMAT, 1, (update,), (), rollouts=(Rollout(ServiceName("chat"), Strategy.IN_PLACE, 1, at_once=0),)
    )
    assert remedy(one(), refused) == "an apply puts it right once chat/0 can be rolled out"
    homeless = plan(unplaced=(Unplaced(ReplicaId("chat/0"), ServiceName("chat"), ()),))
    assert remedy(one(), homeless) == "an apply puts it right once chat/0 has a place again"
    assert remedy(one(), plan()) == "an apply puts it right once all members of its replica are seen"

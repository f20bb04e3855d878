# SPDX-License-Identifier: Apache-2.0
"""Rollouts as people read them, within whole plans."""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import decide
from llmgw.model.ids import Digest, EndpointId, NodeName, ReplicaId, ServiceName, UnitName
from llmgw.model.plan import (
    PLAN_FORMAT,
    Action,
    ActionKind,
    Plan,
    Publish,
    Rollout,
    StartMembers,
    Strategy,
    Trial,
    Wave,
)
from llmgw.model.replica import CanarySpec, Catalog, ProfileSpec, RolloutSpec
from llmgw.model.route import RouteTable
from llmgw.model.unit import Readiness, UnitFile
from llmgw.plan.rollouts_text import withheld
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World


def on_cards(*args: str) -> ProfileSpec:
    return profile("gpu", classes=("h200-141g",), gpus=1, args=args)


def chat(replicas: int, *args: str, **rollout: object) -> Catalog:
    return catalog(service(replicas=replicas, profiles=(on_cards(*args),), rollout=RolloutSpec(**rollout)))  # type: ignore[arg-type]


def changed(cards: int, replicas: int, **rollout: object) -> Plan:
    """The plan for a changed argument, on a node with so many cards."""
    world = World(fleet(node("n1", gpus=cards)))
    world.apply(chat(replicas))
    return decide(chat(replicas, "--x", **rollout), world.fleet).plan


def told(plan: Plan, sign: str) -> list[str]:
    return [line for line in plan_lines(plan) if line.startswith(sign)]


def test_a_rollout_in_place_says_how_many_and_how_many_at_a_time() -> None:
    assert told(changed(3, 3, max_unavailable=2), "*") == ["* chat: 3 replicas are replaced in place, 2 at a time"]


def test_one_replica_is_one() -> None:
    assert told(changed(1, 1), "*") == ["* chat: 1 replica is replaced in place (no place is free for a stand-in)"]


def test_a_stand_in_is_named_with_its_place() -> None:
    plan = changed(4, 3, max_surge=1, max_unavailable=0)
    assert told(plan, "&") == ["& chat/3  stand-in n1 on 3 (h200-141g) by gpu"]
    assert told(plan, "*") == ["* chat: 3 replicas are replaced, 1 at a time, while chat/3 stands in on n1"]
    assert plan_lines(plan)[-1] == "Plan: 3 to update (restart), 1 to stand in meanwhile."


def test_several_stand_ins_are_named_each_with_its_place() -> None:
    assert told(changed(5, 3, max_surge=2, max_unavailable=0), "*") == [
        "* chat: 3 replicas are replaced, 2 at a time, while chat/3 (n1), chat/4 (n1) stand in"
    ]


def test_a_canary_says_what_it_must_do_before_the_others_follow() -> None:
    plan = changed(3, 3, max_surge=0, canary=CanarySpec(answers=1, max_errors=2, timeout_s=30))
    assert told(plan, "*") == [
        (
            "* chat: 3 replicas are replaced in place, 1 at a time; chat/0 goes first, as canary: the others follow"
            " after 1 good answer of it within 30 s and at most 2 errors"
        ),
    ]


def test_a_refused_rollout_comes_first_with_its_reason_and_what_to_do() -> None:
    plan = changed(2, 2, max_unavailable=0)
    assert plan_lines(plan) == [
        (
            "! chat cannot be rolled out: no more than 0 may be away (max_unavailable), and no place is free for a"
            " stand-in"
        ),
        "    fix: make room for one more replica, or raise max_unavailable of chat",
        "~ chat/0  update  n1 on 0 (h200-141g) by gpu",
        "~ chat/1  update  n1 on 1 (h200-141g) by gpu",
        "    each: what it is started with: --x added",
        "    each: not done now: chat cannot be rolled out",
        "",
        "Plan: 2 cannot be rolled out.",
    ]


def test_a_plan_that_changes_nothing_running_tells_of_no_rollout() -> None:
    world = World(fleet(node("n1", gpus=2)))
    assert told(decide(chat(2), world.fleet).plan, "*") == []


def test_what_waits_for_a_device_of_a_refused_rollout_says_so() -> None:
    held_up = Plan(
        PLAN_FORMAT,
        1,
        (
            Action(ActionKind.UPDATE, ReplicaId("chat/0"), ServiceName("chat"), (NodeName("n1"),)),
            Action(ActionKind.CREATE, ReplicaId("other/0"), ServiceName("other"), (NodeName("n1"),)),
            Action(ActionKind.STOP, ReplicaId("old/0"), ServiceName("old"), (NodeName("n1"),)),
            Action(ActionKind.KEEP, ReplicaId("kept/0"), ServiceName("kept"), (NodeName("n1"),)),
        ),
        (),
        rollouts=(Rollout(ServiceName("chat"), Strategy.IN_PLACE, 1, at_once=0),),
    )
    assert withheld(held_up) == {"chat/0", "other/0"}
    assert plan_lines(held_up) == [
        "! chat cannot be rolled out: nothing of it may be away",
        "~ chat/0   update  n1",
        "    not done now: chat cannot be rolled out",
        "+ other/0  create  n1",
        "    not done now: it waits for a device of what cannot be rolled out",
        "- old/0    stop    n1",
        "",
        "Plan: 1 to stop, 1 unchanged, 2 cannot be rolled out.",
    ]


def partly(canary: str | None, *started: str) -> Plan:
    """A rollout of three replicas of which only some are started in the waves: the others wait."""
    names = ("chat/0", "chat/1", "chat/2")
    actions = [Action(ActionKind.UPDATE, ReplicaId(name), ServiceName("chat"), (NodeName("n1"),)) for name in names]
    return Plan(
        PLAN_FORMAT,
        1,
        tuple(actions),
        (Wave("update", (StartMembers(tuple(unit(name) for name in started)),)),),
        rollouts=(
            Rollout(ServiceName("chat"), Strategy.IN_PLACE, 3, 3, canary=ReplicaId(canary) if canary else None),
            Rollout(ServiceName("code"), Strategy.IN_PLACE, 1, at_once=0),
        ),
    )


def unit(replica: str) -> UnitFile:
    name = UnitName(f"llmgw-{replica.replace('/', '.')}.0.service")
    ready = Readiness("exec")
    return UnitFile(name, NodeName("n1"), ReplicaId(replica), 0, "", Digest(""), Digest(""), ready, 60)


def test_a_rollout_of_which_a_part_waits_tells_of_what_is_replaced_now() -> None:
    assert told(partly(None, "chat/0", "chat/2"), "*") == ["* chat: 2 replicas are replaced in place, 2 at a time"]
    assert told(partly(None, "chat/2"), "*") == ["* chat: 1 replica is replaced in place"]


def test_a_canary_that_waits_is_none_and_the_one_that_is_tried_is_named() -> None:
    waits = partly("chat/0", "chat/1", "chat/2")
    assert told(waits, "*") == ["* chat: 2 replicas are replaced in place, 2 at a time"]
    trial = Trial((EndpointId("chat/1@n1"),), 20, 0, 600)
    tried = replace(waits, waves=(*waits.waves, Wave("canary", (Publish(RouteTable(()), trials=(trial,)),))))
    (line,) = told(tried, "*")
    assert line.endswith(
        "; chat/1 goes first, as canary: the others follow after 20 good answers of it within 600 s and no error"
    )

# SPDX-License-Identifier: Apache-2.0
"""The last sentence of a plan where nodes are left alone, and what several replicas have in common."""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import Options, decide
from llmgw.model.ids import NodeName, ReplicaId, ServiceName, UnitName
from llmgw.model.node import NodeState
from llmgw.model.placement import Unplaced
from llmgw.model.plan import PLAN_FORMAT, Action, ActionKind, Plan, StopMembers, Wave
from llmgw.plan.text import plan_lines, summary_line
from tests.support.fleets import catalog, fleet, node, service
from tests.support.world import World


def action(kind: ActionKind, number: int = 0, **more: object) -> Action:
    return Action(kind, ReplicaId(f"chat/{number}"), ServiceName("chat"), (NodeName("n1"),), **more)  # type: ignore[arg-type]


def plan(*actions: Action, **more: object) -> Plan:
    return Plan(PLAN_FORMAT, 7, actions, (), **more)  # type: ignore[arg-type]


def test_of_what_nodes_do_not_tell_now_a_plan_does_not_say_that_it_is_as_wanted() -> None:
    keep = [replace(action(ActionKind.KEEP, number), nodes=(NodeName(f"n{number}"),)) for number in range(4)]
    silent = {NodeName("n2"): "does not answer; what runs there counts as running"}
    assert summary_line(plan(*keep, untouched=silent)) == (
        "Nothing to do: 3 replicas are as the catalog wants them; of 1 on n2 nothing is known now."
    )
    assert summary_line(plan(keep[2], untouched=silent)) == "Nothing to do: of 1 replica on n2 nothing is known now."
    homeless = Unplaced(ReplicaId("chat/9"), ServiceName("chat"), ())
    two = silent | {NodeName("n3"): "is left alone in this run"}
    assert summary_line(plan(*keep, untouched=two)) == (
        "Nothing to do: 2 replicas are as the catalog wants them; of 1 on n2 nothing is known now; 1 on n3 is left"
        " alone."
    )
    assert summary_line(plan(*keep, untouched=two, unplaced=(homeless,))) == (
        "Plan: 2 unchanged, 2 left alone (n2, n3), 1 cannot be placed."
    )


def test_a_stop_that_its_node_does_not_allow_now_waits() -> None:
    silent = {NodeName("n1"): "does not answer; what runs there counts as running"}
    keep = replace(action(ActionKind.KEEP), nodes=(NodeName("n2"),))
    waits = plan(keep, action(ActionKind.STOP, 1), action(ActionKind.STOP, 2), untouched=silent)
    assert summary_line(waits) == "Nothing to do: 1 replica is as the catalog wants it; 2 stops wait for n1."
    half = replace(action(ActionKind.STOP, 1), nodes=(NodeName("n1"), NodeName("n2")))
    waves = (Wave("x", (StopMembers(((NodeName("n2"), UnitName("u")),)),)),)
    both = Plan(PLAN_FORMAT, 7, (half, action(ActionKind.STOP, 2)), waves, untouched=silent)
    assert summary_line(both) == "Plan: 1 to stop, 1 stop waits for n1."


def test_a_node_that_does_not_answer_is_not_taken_for_one_that_is_as_it_should_be() -> None:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(catalog(service(replicas=2)))
    nodes = world.fleet.nodes
    nodes = tuple(replace(one, state=NodeState.UNREACHABLE) if one.name == "n2" else one for one in nodes)
    silent = decide(catalog(service(replicas=2)), replace(world.fleet, nodes=nodes)).plan
    assert plan_lines(silent)[-1] == (
        "Nothing to do: 1 replica is as the catalog wants it; of 1 on n2 nothing is known now."
    )
    limited = decide(catalog(service(replicas=2)), world.fleet, Options(limit=frozenset({NodeName("n1")}))).plan
    assert summary_line(limited).endswith("; 1 on n2 is left alone.")


def test_what_is_the_same_of_several_replicas_of_a_service_is_told_once() -> None:
    first, second = (action(ActionKind.UPDATE, number, reasons=("--a 1 -> 2", "again")) for number in range(2))
    third = action(ActionKind.UPDATE, 2, reasons=("--b added",))
    assert plan_lines(plan(first, second, third))[:-2] == [
        "~ chat/0  update  n1",
        "~ chat/1  update  n1",
        "    each: --a 1 -> 2",
        "    each: again",
        "~ chat/2  update  n1",
        "    --b added",
    ]


def test_a_stop_on_a_node_of_which_only_the_engines_are_unknown_is_made() -> None:
    unread = {NodeName("n1"): "could not tell its engines"}
    waves = (Wave("x", (StopMembers(((NodeName("n1"), UnitName("u")),)),)),)
    stops = Plan(PLAN_FORMAT, 7, (action(ActionKind.STOP, 1),), waves, untouched=unread)
    assert summary_line(stops) == "Plan: 1 to stop."

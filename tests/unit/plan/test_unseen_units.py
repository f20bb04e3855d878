# SPDX-License-Identifier: Apache-2.0
"""What a plan does and says while a node cannot tell its units."""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import decide
from llmgw.model.plan import ActionKind, Publish
from llmgw.nodekit import contract
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, profile, service
from tests.support.unseen_units import DETAIL, WANTED, blind, gateway, gateways, never_seen, serving

CHANGED = catalog(service("chat", 2, (profile(args=("--new",)),)))
MORE = catalog(*WANTED.services, service("more", 1))


def text(world_fleet: object, wanted: object = WANTED) -> str:
    return "\n".join(plan_lines(decide(wanted, world_fleet).plan))  # type: ignore[arg-type]


def test_the_cause_and_what_mends_it_are_said() -> None:
    said = text(blind(serving()).fleet)
    assert f"chat/0 is held back: it may run on n1, whose units cannot be seen: {DETAIL};" in said
    assert "mend that there (`llmgw nodes n1` tells more) and apply again" in said
    assert "facts refresh" not in said, "that is what has just run"
    assert "gateways go on routing to chat/0 on n1 as they do now" in said


def test_of_several_nodes_each_cause_is_told() -> None:
    said = text(blind(blind(serving()), name="n2").fleet)
    assert f"it may run on n1, n2, whose units cannot be seen: n1: {DETAIL}; n2: {DETAIL}; mend" in said
    assert "if a node is gone" in said


def test_a_node_that_a_new_controller_never_saw_may_run_what_gateways_serve_there() -> None:
    decision = decide(WANTED, blind(serving(), never_seen).fleet)
    assert [one.replica for one in decision.plan.unplaced] == ["chat/0"]
    assert not any(one.kind is ActionKind.CREATE for one in decision.plan.actions)


def test_what_else_changes_goes_on_and_every_step_names_what_is_there() -> None:
    plan = decide(CHANGED, blind(serving()).fleet).plan
    steps = [step for wave in plan.waves for step in wave.steps if isinstance(step, Publish)]
    assert steps
    for step in steps:
        named = {str(one.id): one.draining for route in step.routes.routes for one in route.endpoints}
        assert named["chat/0@n1"] is False


def test_where_routes_are_not_told_nothing_is_done_and_one_sentence_says_why() -> None:
    world = gateways(blind(serving()), gateway("gw", contract.PublishedBundle("/b")))
    for wanted in (WANTED, CHANGED, MORE):
        decision = decide(wanted, world.fleet)
        assert decision.plan.waves == ()
        assert {one.kind for one in decision.plan.actions} == {ActionKind.KEEP}
        (note,) = [one for one in decision.plan.notes if "no routes are published" in one]
        assert "the units of n1 cannot be seen" in note
        assert "mend what `llmgw nodes n1` names and apply again" in note


def test_once_the_units_are_read_again_nothing_is_left_to_do() -> None:
    world = serving()
    whole = world.fleet.nodes
    world.apply(WANTED)
    blind(world).apply(WANTED)
    world.fleet = replace(world.fleet, nodes=whole)
    assert not decide(WANTED, world.fleet).plan.changes


def test_a_new_gateway_gets_the_routes_that_the_others_have() -> None:
    world = serving()
    before = world.routes
    gateways(blind(world), *world.fleet.gateways, gateway("gw2", None))
    (wave,) = decide(WANTED, world.fleet).plan.waves
    assert wave.title == "publish routes to gw, gw2", "they share limits now"
    (step,) = wave.steps
    assert isinstance(step, Publish)
    assert before is not None
    assert step.routes.routes == before.routes

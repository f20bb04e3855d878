# SPDX-License-Identifier: Apache-2.0
"""How running replicas are replaced: stand-ins, what may be away, canaries, refusals, and what puts them back (R4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import ActionKind, Floor, Plan, Publish, Rollout, StartMembers, StopMembers, Strategy, Trial
from llmgw.model.replica import CanarySpec, Catalog, RolloutSpec
from llmgw.nodekit import contract
from llmgw.plan.rollouts import Rolling, carried_out
from llmgw.routes.now import routes_now
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World

CANARY = CanarySpec(answers=5, max_errors=1, timeout_s=60)


def wanted(
    count: int, *, changed: bool = False, cards: int = 1, spread: str | None = None, **rollout: object
) -> Catalog:
    ways = (profile("p", classes=("h200-141g",), gpus=cards, args=("--new",) if changed else ()),)
    return catalog(service("chat", count, ways, spread=spread, rollout=RolloutSpec(**rollout)))  # type: ignore[arg-type]


def serving(count: int, *machines: int, **more: object) -> World:
    """A world whose machines have so many cards, and that serves `count` replicas of one card."""
    world = World(fleet(*(node(f"n{number}", gpus=cards) for number, cards in enumerate(machines, 1))))
    world.apply(wanted(count, **more))  # type: ignore[arg-type]
    return world


def rollout(plan: Plan) -> Rollout:
    (one,) = plan.rollouts
    return one


def fewest_routed(world: World, then: Catalog) -> int:
    """The fewest replicas that took requests at any moment of the apply."""
    seen: list[int] = []
    watched = World(world.fleet, lambda now: seen.append(len(now.routed("chat"))))
    watched.routes = world.routes
    watched.apply(then)
    world.fleet, world.routes = watched.fleet, watched.routes
    return min(seen)


def titles(plan: Plan) -> list[str]:
    return [wave.title for wave in plan.waves]


def test_the_only_replica_is_replaced_while_a_stand_in_serves_where_there_is_room() -> None:
    world = serving(1, 2)
    then = wanted(1, changed=True)
    plan = decide(then, world.fleet).plan
    assert titles(plan) == ["start stand-ins chat/1", "update chat/0", "stop stand-ins chat/1"]
    assert (rollout(plan).strategy, rollout(plan).at_once) == (Strategy.SURGE, 1)
    assert fewest_routed(world, then) == 1
    assert world.running("chat") == ["chat/0@n1"]
    assert decide(then, world.fleet).plan.waves == ()


def test_without_room_it_is_replaced_in_place_and_the_reason_is_told() -> None:
    plan = decide(wanted(1, changed=True), serving(1, 1).fleet).plan
    assert titles(plan) == ["update chat/0"]
    assert rollout(plan).strategy is Strategy.IN_PLACE
    assert rollout(plan).reason == "no place is free for a stand-in"


def test_several_replicas_are_replaced_in_place_although_there_is_room() -> None:
    plan = decide(wanted(3, changed=True), serving(3, 4).fleet).plan
    assert titles(plan) == ["update chat/0", "update chat/1", "update chat/2"]
    assert rollout(plan).reason is None


def test_a_surge_lets_one_more_be_replaced_at_a_time_and_leaves_as_many_serving() -> None:
    world = serving(4, 5)
    then = wanted(4, changed=True, max_surge=1)
    plan = decide(then, world.fleet).plan
    assert titles(plan)[1:3] == ["update chat/0, chat/1", "update chat/2, chat/3"]
    assert fewest_routed(world, then) == 3


@pytest.mark.parametrize("machines", [(3,), (1, 1, 1)])
def test_nothing_may_be_away_and_nothing_is_with_a_stand_in(machines: tuple[int, ...]) -> None:
    world = serving(2, *machines)
    assert fewest_routed(world, wanted(2, changed=True, max_unavailable=0)) == 2


def test_a_rollout_that_could_not_keep_its_promise_is_refused_and_nothing_is_touched() -> None:
    world = serving(2, 2)
    then = wanted(2, changed=True, max_unavailable=0)
    plan = decide(then, world.fleet).plan
    assert plan.waves == ()
    assert rollout(plan).refused
    assert rollout(plan).reason == ("no more than 0 may be away (max_unavailable), and no place is free for a stand-in")
    assert rollout(plan).fix == "make room for one more replica, or raise max_unavailable of chat"


def test_what_has_no_place_counts_as_away() -> None:
    world = serving(2, 2)
    plan = decide(wanted(3, changed=True), world.fleet).plan
    assert rollout(plan).refused
    assert (rollout(plan).reason or "").startswith("only 2 of 3 replicas serve, and no more than 1 may be away")
    assert not decide(wanted(3, changed=True, max_unavailable=2), world.fleet).plan.rollouts[0].refused


def test_a_stand_in_is_in_nobodys_share_of_a_spread() -> None:
    world = serving(2, 2, 1, spread="node")
    plan = decide(wanted(2, changed=True, spread="node", max_unavailable=0), world.fleet).plan
    assert rollout(plan).stand_ins == ("chat/2",)


def test_surplus_replicas_stand_in_before_they_go() -> None:
    world = serving(3, 3)
    then = wanted(2, changed=True, max_surge=1, max_unavailable=0)
    plan = decide(then, world.fleet).plan
    assert titles(plan) == ["update chat/0", "update chat/1", "stop stand-ins chat/2"]
    assert fewest_routed(world, then) == 2
    assert world.running("chat") == ["chat/0@n1", "chat/1@n1"]


def test_a_rollout_that_was_cut_off_goes_on_with_the_stand_in_that_it_started() -> None:
    world = serving(2, 3)
    then = wanted(2, changed=True, max_unavailable=0)
    world.apply(then, steps=3)
    assert world.running("chat") == ["chat/0@n1", "chat/1@n1", "chat/2@n1"]
    assert titles(decide(then, world.fleet).plan) == ["update chat/0", "update chat/1", "stop stand-ins chat/2"]
    world.apply(then)
    assert world.running("chat") == ["chat/0@n1", "chat/1@n1"]


def test_the_canary_is_replaced_alone_and_tried_before_the_others() -> None:
    plan = decide(wanted(3, changed=True, canary=CANARY), serving(3, 3).fleet).plan
    assert titles(plan) == ["canary chat/0", "update chat/1", "update chat/2"]
    (first,) = [step for step in plan.waves[0].steps if isinstance(step, Publish) and step.ready]
    assert first.trials == (Trial(("chat/0@n1",), 5, 1, 60),)  # type: ignore[arg-type]
    assert not [step for wave in plan.waves[1:] for step in wave.steps if isinstance(step, Publish) and step.trials]


def test_a_stand_in_is_the_canary_where_there_is_one_and_its_undo_takes_it_away() -> None:
    plan = decide(wanted(2, changed=True, max_surge=1, canary=CANARY), serving(2, 3).fleet).plan
    assert titles(plan) == ["canary chat/2 stands in", "update chat/0, chat/1", "stop stand-ins chat/2"]
    drain, stop = plan.waves[0].undo["chat"]  # type: ignore[index]
    assert isinstance(drain, Publish)
    assert drain.drain == ("chat/2@n1",)
    assert isinstance(stop, StopMembers)
    assert stop.units == (("n1", "llmgw-chat.2.0.service"),)


def test_a_canary_that_no_gateway_could_judge_is_refused() -> None:
    world = serving(2, 2)
    world.fleet = replace(world.fleet, gateways=())
    plan = decide(wanted(2, changed=True, canary=CANARY), world.fleet).plan
    assert rollout(plan).refused
    assert rollout(plan).reason == "no gateway answers that could count the answers of its canary"


def test_undo_of_a_wave_makes_every_unit_what_it_was() -> None:
    world = serving(3, 3)
    before = {one.name: one.text for one in world.units("n1")}
    decision = world.apply(wanted(3, changed=True, max_unavailable=2), steps=3)
    assert {one.name: one.text for one in world.units("n1")} != before
    world.take_steps(decision.plan.waves[0].undo["chat"], decision.plan.generation)  # type: ignore[index]
    assert {one.name: one.text for one in world.units("n1")} == before
    assert decide(wanted(3), world.fleet).plan.actions == decide(wanted(3), serving(3, 3).fleet).plan.actions


def test_a_unit_that_was_edited_is_nothing_to_go_back_to() -> None:
    world = serving(1, 1)
    world.change("llmgw-chat.0.0.service", lambda unit: replace(unit, edited=True, actual_text_digest="sha256:x"))
    (wave,) = decide(wanted(1, changed=True), world.fleet).plan.waves
    assert wave.undo == {}


def test_what_does_not_run_is_started_before_what_runs_is_touched_and_needs_no_leave() -> None:
    world = serving(2, 2)
    world.change("llmgw-chat.1.0.service", lambda unit: replace(unit, active_state="failed", main_pid=None))
    plan = decide(wanted(2, changed=True), world.fleet).plan
    assert titles(plan) == ["update chat/1", "update chat/0"]
    assert rollout(plan).replaced == 1


def test_what_needs_a_device_of_a_refused_rollout_is_withheld_with_it() -> None:
    world = World(fleet(node("n1", gpus=3)))
    one, two = profile("one", classes=("h200-141g",), gpus=1), profile("two", classes=("h200-141g",), gpus=2)
    first = catalog(service("big", 1, (two,)), service("small", 1, (one,)))
    world.apply(first)
    shrunk = service("big", 1, (one,), rollout=RolloutSpec(max_surge=0, max_unavailable=0))
    decision = decide(catalog(shrunk, service("small", 2, (one,))), world.fleet)
    assert [one.refused for one in decision.plan.rollouts] == [True]
    assert not [step for wave in decision.plan.waves for step in wave.steps if isinstance(step, StartMembers)]


def test_nothing_is_withheld_where_nothing_is_refused() -> None:
    world = serving(2, 2)
    decision = decide(wanted(2, changed=True), world.fleet)
    rolled = tuple(one for one in decision.changes if one.action.kind is ActionKind.UPDATE)
    assert decision.plan.rollouts
    rolling = [Rolling(rolled[0].assignment.service, decision.plan.rollouts[0], rolled)]  # type: ignore[union-attr]
    assert carried_out(rolling, decision.changes)[1] == list(decision.changes)


def test_a_copy_that_a_node_brings_back_is_fenced() -> None:
    world = serving(1, 1, 1)
    (home,) = world.running("chat")
    old = next(one for one in world.fleet.nodes if one.name == home.partition("@")[2])
    other = next(one for one in world.fleet.nodes if one is not old)
    unit = world.units(old.name)[0]
    newer = replace(unit, generation=9, devices=(other.devices[0].uuid,), address=other.address)  # type: ignore[index]
    nodes = tuple(
        replace(one, facts=replace(one.facts, units=(newer,))) if one.name == other.name else one  # type: ignore[type-var]
        for one in world.fleet.nodes
    )
    both = FleetSnapshot(nodes, world.fleet.gateways, world.fleet.taken_at)
    decision = decide(wanted(1), both)
    assert decision.fenced == {home}
    assert [one.id for one in routes_now(wanted(1), both, decision.fenced).routes[0].endpoints] == [
        f"chat/0@{other.name}"
    ]


def test_undo_of_an_exchange_of_places_stops_the_successors_and_brings_back_who_was_there() -> None:
    world = World(fleet(node("n1", gpus=1), node("n2", gpus=1, device_class="l40s-45g")))
    ways = [profile(name, classes=(name,), gpus=1) for name in ("h200-141g", "l40s-45g")]
    world.apply(catalog(service("a", 1, (ways[0],)), service("b", 1, (ways[1],))))
    before = {one.name: one.text for name in ("n1", "n2") for one in world.units(name)}
    decision = world.apply(catalog(service("a", 1, (ways[1],)), service("b", 1, (ways[0],))))
    assert world.running("a") == ["a/0@n2"]
    (wave,) = decision.plan.waves
    for steps in wave.undo.values():
        world.take_steps(steps, decision.plan.generation)
    assert {one.name: one.text for name in ("n1", "n2") for one in world.units(name)} == before
    assert world.running("a") == ["a/0@n1"]


def test_each_exchange_of_places_is_a_wave_of_its_own() -> None:
    classes = ["a100-80g", "h100-80g", "h200-141g", "l40s-45g"]
    nodes = [node(f"n{number}", gpus=1, device_class=name) for number, name in enumerate(classes)]
    ways = [profile(name, classes=(name,), gpus=1) for name in classes]
    world = World(fleet(*nodes))
    world.apply(catalog(*(service(name, 1, (way,)) for name, way in zip("abcd", ways, strict=True))))
    swapped = [ways[1], ways[0], ways[3], ways[2]]
    then = catalog(*(service(name, 1, (way,)) for name, way in zip("abcd", swapped, strict=True)))
    assert titles(decide(then, world.fleet).plan) == ["move a/0, b/0", "move c/0, d/0"]


def test_a_drain_says_what_must_go_on_serving() -> None:
    plan = decide(wanted(3, changed=True), serving(3, 3).fleet).plan
    first = plan.waves[0].steps[0]
    assert isinstance(first, Publish)
    assert first.floors == (Floor("chat", ("chat/1@n1", "chat/2@n1"), ("chat/0@n1",), 2),)  # type: ignore[arg-type]


def test_a_service_that_may_be_away_whole_asks_for_nobody() -> None:
    (wave,) = decide(wanted(1, changed=True), serving(1, 1).fleet).plan.waves
    assert all(step.floors == () for step in wave.steps if isinstance(step, Publish))


def test_an_exchange_of_places_asks_for_nobody_since_it_has_no_better_way() -> None:
    world = World(fleet(node("n1", gpus=1), node("n2", gpus=1, device_class="l40s-45g")))
    ways = [profile(name, classes=(name,), gpus=1) for name in ("h200-141g", "l40s-45g")]
    world.apply(catalog(service("a", 1, (ways[0],)), service("b", 1, (ways[1],))))
    strict = RolloutSpec(max_unavailable=0)
    then = catalog(service("a", 1, (ways[1],), rollout=strict), service("b", 1, (ways[0],), rollout=strict))
    (wave,) = decide(then, world.fleet).plan.waves
    assert all(step.floors == () for step in wave.steps if isinstance(step, Publish))


def test_what_has_no_place_and_goes_on_serving_is_not_away() -> None:
    ways = (profile("p"),)
    world = World(fleet(node("n1", gpus=1)))
    world.apply(catalog(service("chat", 2, ways)))
    by_card = (profile("p", classes=("h200-141g",), gpus=1),)
    plan = decide(catalog(service("chat", 2, by_card)), world.fleet).plan
    assert plan.unplaced[0].runs_on == ("n1",)
    assert not rollout(plan).refused


def seen_failing(world: World, endpoint: str) -> None:
    """The gateway finds this endpoint failed, whatever its node says."""
    states = [contract.EndpointHealth(one, "failed" if one == endpoint else "ready") for one in world.routed("chat")]
    facts = contract.GatewayFacts(reachable=True, endpoints=tuple(states))
    world.fleet = replace(world.fleet, gateways=tuple(replace(one, facts=facts) for one in world.fleet.gateways))


def test_a_replica_that_gateways_find_failed_on_a_node_that_does_not_answer_is_away() -> None:
    world = serving(2, 2, 1)
    seen_failing(world, "chat/1@n2" if "chat/1@n2" in world.routed("chat") else "chat/0@n2")
    world.state("n2", NodeState.UNREACHABLE)
    plan = decide(wanted(2, changed=True), world.fleet).plan
    assert rollout(plan).strategy is Strategy.SURGE
    assert fewest_routed(world, wanted(2, changed=True)) == 2


def test_a_replica_that_gateways_find_failed_is_replaced_first_and_needs_no_leave() -> None:
    world = serving(3, 3)
    seen_failing(world, "chat/2@n1")
    plan = decide(wanted(3, changed=True), world.fleet).plan
    assert titles(plan) == ["update chat/2", "update chat/0", "update chat/1"]
    assert not rollout(plan).refused

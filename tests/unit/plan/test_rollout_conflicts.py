# SPDX-License-Identifier: Apache-2.0
"""Rollouts beside surplus, dead, homeless and swapped replicas: nobody gets what another still has (R4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgw.decide import Decision, decide
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.plan import Publish
from llmgw.model.replica import CanarySpec, Catalog, RolloutSpec, ServiceSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, fleet, gpu, node, profile, service, with_facts
from tests.support.world import World

H200, L40S = "h200-141g", "l40s-45g"
IN_PLACE = RolloutSpec(max_surge=0)
NEVER_AWAY = RolloutSpec(max_surge=0, max_unavailable=0)


def of_cards(
    name: str,
    replicas: int,
    cards: int,
    *args: str,
    kind: str = H200,
    rollout: RolloutSpec | None = None,
    memory: int = 0,
) -> ServiceSpec:
    needs: dict[str, Any] = {"min_memory_bytes": memory * GB} if memory else {}
    way = profile(f"p-{name}", classes=(kind,) if cards else (), gpus=cards, args=args, **needs)
    return service(name, replicas, (way,), rollout=rollout or RolloutSpec())


def mixed(name: str, *kinds: str) -> Node:
    one = node(name)
    assert one.facts is not None
    return with_facts(one, replace(one.facts, gpus=tuple(gpu(index, name, kind) for index, kind in enumerate(kinds))))


def one_holder(world: World) -> None:
    for one in world.fleet.nodes:
        held = Counter(device for unit in world.units(one.name) for device in unit.devices)
        assert not [device for device, holders in held.items() if holders > 1]


def running(snapshot: FleetSnapshot, first: Catalog) -> World:
    world = World(snapshot)
    world.apply(first)
    return world


def then(world: World, wanted: Catalog, watch: Callable[[World], None] = one_holder) -> tuple[Decision, World]:
    """What is decided, and the world after it, watched at every step."""
    watched = World(world.fleet, watch)
    watched.routes = world.routes
    return watched.apply(wanted), watched


def break_card(world: World, uuid: str) -> None:
    finding = contract.Finding("ecc", "block", "broken", subject=uuid)
    nodes = []
    for one in world.fleet.nodes:
        assert one.facts is not None
        nodes.append(with_facts(one, replace(one.facts, findings=(finding,))) if f"-{one.name}-" in uuid else one)
    world.fleet = replace(world.fleet, nodes=tuple(nodes))


def kill(world: World, unit: str) -> None:
    world.change(unit, lambda one: replace(one, active_state="failed", sub_state="failed", running_digest=None))


def test_a_stand_in_gets_no_card_of_a_surplus_replica_that_goes_on_serving() -> None:
    world = running(fleet(node("n1", gpus=3)), catalog(of_cards("chat", 3, 1)))
    then(world, catalog(of_cards("chat", 2, 1, "--new", rollout=RolloutSpec(max_surge=2))))


def test_nor_does_a_stand_in_of_another_service() -> None:
    world = running(fleet(node("n1", gpus=4)), catalog(of_cards("a", 3, 1), of_cards("b", 1, 1)))
    surging = of_cards("a", 2, 1, "--new", rollout=RolloutSpec(max_surge=1))
    then(world, catalog(surging, of_cards("b", 1, 1, "--new")))


def test_a_stand_in_gets_no_card_of_what_must_leave_and_has_no_other_place() -> None:
    world = running(fleet(node("n1", gpus=1), node("n2", gpus=2)), catalog(of_cards("a", 1, 1), of_cards("b", 1, 2)))
    break_card(world, "GPU-n2-1")
    then(world, catalog(of_cards("a", 1, 1, "--new"), of_cards("b", 1, 2)))


def test_the_memory_of_a_surplus_replica_that_goes_on_serving_is_nobodys() -> None:
    world = running(fleet(node("n1", memory_gb=64)), catalog(of_cards("a", 2, 0, memory=30)))

    def fits(now: World) -> None:
        assert sum(unit.memory_min_bytes or 0 for unit in now.units("n1")) <= 64 * GB

    surging = of_cards("a", 1, 0, "--new", rollout=RolloutSpec(max_surge=1, max_unavailable=0), memory=30)
    then(world, catalog(surging, of_cards("b", 1, 0, memory=30)), fits)


def test_nothing_is_stopped_to_make_room_for_what_is_refused() -> None:
    world = running(fleet(node("n1", gpus=2)), catalog(of_cards("a", 2, 1, rollout=NEVER_AWAY)))
    decision, after = then(world, catalog(of_cards("a", 2, 2, rollout=NEVER_AWAY)))
    assert decision.plan.rollouts[0].refused
    assert after.running("a") == ["a/0@n1", "a/1@n1"]


def test_a_canary_that_must_exchange_cards_with_another_does_so_with_it_and_is_alone_tried() -> None:
    trial = RolloutSpec(max_surge=0, canary=CanarySpec())
    world = running(fleet(mixed("n1", H200, L40S)), catalog(of_cards("a", 1, 1), of_cards("b", 1, 1, kind=L40S)))
    swapped = catalog(of_cards("a", 1, 1, kind=L40S, rollout=trial), of_cards("b", 1, 1, rollout=trial))
    decision, _ = then(world, swapped)
    steps = [step for wave in decision.plan.waves for step in wave.steps if isinstance(step, Publish)]
    assert [trial.endpoints for step in steps for trial in step.trials] == [("a/0@n1",)]


def test_a_ring_of_more_than_may_be_away_at_a_time_still_changes_together() -> None:
    nodes = fleet(mixed("n1", H200, H200, L40S, L40S))
    world = running(nodes, catalog(of_cards("a", 2, 1), of_cards("b", 1, 2, kind=L40S)))
    then(world, catalog(of_cards("a", 2, 1, kind=L40S, rollout=IN_PLACE), of_cards("b", 1, 2, rollout=IN_PLACE)))


@pytest.mark.parametrize(
    "nodes",
    [(mixed("n1", H200, L40S),), (node("n1", gpus=1), node("n2", gpus=1, device_class=L40S))],
    ids=["on one node", "on two"],
)
def test_undo_of_one_of_two_that_exchanged_cards_brings_both_back(nodes: tuple[Node, ...]) -> None:
    world = running(fleet(*nodes), catalog(of_cards("a", 1, 1), of_cards("b", 1, 1, kind=L40S)))
    swapped = catalog(of_cards("a", 1, 1, kind=L40S, rollout=IN_PLACE), of_cards("b", 1, 1, rollout=IN_PLACE))
    (wave,) = decide(swapped, world.fleet).plan.waves
    world.take_steps(wave.steps, 2)
    world.take_steps(wave.undo[swapped.services[1].name], 2)
    one_holder(world)


def at_least_one_serves(now: World) -> None:
    assert set(now.running("b")) & set(now.routed("b"))


def test_a_dead_replica_that_is_withheld_counts_as_away() -> None:
    first = catalog(of_cards("a", 1, 2, rollout=NEVER_AWAY), of_cards("b", 2, 1, rollout=IN_PLACE))
    world = running(fleet(node("n1", gpus=4)), first)
    kill(world, "llmgw-b.1.0.service")
    break_card(world, "GPU-n1-3")
    shrunk = of_cards("a", 1, 1, "--new", rollout=NEVER_AWAY)
    then(world, catalog(shrunk, of_cards("b", 2, 1, "--new", rollout=IN_PLACE)), at_least_one_serves)


def test_a_dead_replica_that_moves_late_counts_as_away_until_then() -> None:
    first = catalog(of_cards("a", 1, 2, rollout=IN_PLACE), of_cards("b", 2, 1, rollout=IN_PLACE))
    world = running(fleet(node("n1", gpus=2), node("n2", gpus=1), node("n3", gpus=1)), first)
    kill(world, "llmgw-b.1.0.service")
    break_card(world, "GPU-n3-0")
    wanted = catalog(of_cards("a", 1, 1, "--new", rollout=IN_PLACE), of_cards("b", 2, 1, "--new", rollout=IN_PLACE))
    then(world, wanted, at_least_one_serves)


def test_a_dead_replica_is_started_on_a_card_only_after_a_rollout_has_given_it_up() -> None:
    first = catalog(of_cards("a", 1, 2, rollout=IN_PLACE), of_cards("b", 2, 1, rollout=IN_PLACE))
    world = running(fleet(node("n1", gpus=4)), first)
    kill(world, "llmgw-b.1.0.service")
    break_card(world, "GPU-n1-3")
    then(world, catalog(of_cards("a", 1, 1, "--new", rollout=IN_PLACE), of_cards("b", 2, 1, rollout=IN_PLACE)))


def test_no_service_has_a_second_stand_in_before_each_has_one_that_needs_one() -> None:
    world = running(fleet(node("n1", gpus=5)), catalog(of_cards("a", 2, 1), of_cards("c", 1, 1)))
    both = RolloutSpec(max_surge=2, max_unavailable=0)
    one = RolloutSpec(max_surge=1, max_unavailable=0)
    wanted = catalog(of_cards("a", 2, 1, "--new", rollout=both), of_cards("c", 1, 1, "--new", rollout=one))
    decision, after = then(world, wanted)
    assert [len(rollout.stand_ins) for rollout in decision.plan.rollouts] == [1, 1]
    assert decide(wanted, after.fleet).plan.waves == ()


def test_a_stand_in_goes_only_where_the_weights_are_if_anybody_knows_where() -> None:

    here = contract.Weights(
        "/srv/models/smol.gguf", "/srv/models/smol.gguf", layout="gguf", size_bytes=1, complete=True
    )
    world = running(fleet(node("n1", gpus=1), node("n2", gpus=1)), catalog(of_cards("a", 1, 1)))
    (home,) = {name.partition("@")[2] for name in world.running("a")}
    wanted = catalog(of_cards("a", 1, 1, "--new"))

    def stand_ins(*holders: str) -> tuple[str, ...]:
        nodes = []
        for one in world.fleet.nodes:
            assert one.facts is not None
            nodes.append(with_facts(one, replace(one.facts, weights=(here,) if one.name in holders else ())))
        (rollout,) = decide(wanted, replace(world.fleet, nodes=tuple(nodes))).plan.rollouts
        return rollout.stand_ins

    assert stand_ins() == ("a/1",)
    assert stand_ins("n1", "n2") == ("a/1",)
    assert stand_ins(home) == ()

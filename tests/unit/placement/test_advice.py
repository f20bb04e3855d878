# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from llmgw.placement.bound import unavoidable_moves
from llmgw.placement.notes import notes
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, fleet, node, profile, service, with_facts
from tests.support.world import World

CLASS = "h200-141g"
ONE = profile("one", classes=(CLASS,), gpus=1)
TWO = profile("two", classes=(CLASS,), gpus=2, tensor_parallel=2)


def broken_up() -> World:
    """Two nodes of two cards, each with one card in use."""
    world = World(fleet(node("n1", gpus=2), node("n2", gpus=2)))
    world.apply(catalog(service("small", 2, (ONE,), spread="node")))
    assert sorted(world.running("small")) == ["small/0@n1", "small/1@n2"]
    return world


def test_what_fits_only_after_a_move_is_told_with_the_move_and_its_price() -> None:
    world = broken_up()
    plan = decide(catalog(service("big", 1, (TWO,)), service("small", 2, (ONE,))), world.fleet).plan
    (advice,) = plan.advice
    assert (advice.replica, advice.nodes) == ("big/0", ("n1",))
    (move,) = advice.moves
    assert (move.replica, move.from_nodes, move.to_nodes, move.devices) == ("small/0", ("n1",), ("n2",), 1)
    assert "* big/0 would fit on n1 after one move, which this plan does not make:" in plan_lines(plan)
    assert plan.moves == 0, "what runs and fits stays"


def test_the_advised_move_makes_room_when_it_is_made() -> None:
    world = broken_up()
    wanted = catalog(service("big", 1, (TWO,)), service("small", 2, (ONE,)))
    nodes = tuple(replace(one, drained=one.name == "n1") for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=nodes)
    world.apply(wanted)
    world.fleet = replace(world.fleet, nodes=tuple(replace(one, drained=False) for one in world.fleet.nodes))
    decision = world.apply(wanted)
    assert not decision.plan.unplaced
    assert world.running("big") == ["big/0@n1"]


def test_no_advice_where_no_number_of_moves_helps() -> None:
    world = World(fleet(node("n1", gpus=2), node("n2", gpus=1)))
    world.apply(catalog(service("small", 2, (ONE,))))
    plan = decide(catalog(service("big", 1, (TWO,)), service("small", 2, (ONE,))), world.fleet).plan
    assert [one.replica for one in plan.unplaced] == ["big/0"]
    assert plan.advice == ()


def test_free_devices_tell_the_largest_block() -> None:
    plan = decide(catalog(service("small", 2, (ONE,))), broken_up().fleet).plan
    (free,) = plan.free
    assert (free.device_class, free.free, free.nodes, free.most) == (CLASS, 2, 2, 1)


def lost(there: FleetSnapshot, name: str) -> FleetSnapshot:
    nodes = tuple(replace(one, state=NodeState.LOST) if one.name == name else one for one in there.nodes)
    return replace(there, nodes=nodes)


def test_moves_off_a_lost_node_are_unavoidable() -> None:
    world = World(fleet(node("n1", gpus=1), node("n2", gpus=1), node("n3", gpus=1)))
    wanted = catalog(service("small", 2, (ONE,), spread="node"))
    world.apply(wanted)
    after = lost(world.fleet, "n1")
    assert unavoidable_moves(place(wanted, after)) == 1
    plan = decide(wanted, after).plan
    assert (plan.moves, plan.moves_lower_bound) == (1, 1)
    assert plan_lines(plan)[-1].startswith("Plan: 1 to move (the fewest possible)")


def test_a_move_for_a_higher_priority_is_above_the_bound() -> None:
    world = World(fleet(node("n1", gpus=2, labels={"zone": "a"}), node("n2", gpus=2)))
    world.apply(catalog(service("low", 1, (ONE,))))
    assert world.running("low") == ["low/0@n1"]
    high = profile("high", classes=(CLASS,), gpus=2, tensor_parallel=2, node_selector={"zone": "a"})
    plan = decide(catalog(service("low", 1, (ONE,)), service("high", 1, (high,), priority=1)), world.fleet).plan
    assert (plan.moves, plan.moves_lower_bound) == (1, 0)
    assert "1 to move (at least 0)" in plan_lines(plan)[-1]


def test_a_spread_that_what_runs_does_not_meet_is_told_and_moves_nothing() -> None:
    world = World(fleet(node("n1", gpus=2)))
    world.apply(catalog(service("chat", 2, (ONE,))))
    there = replace(world.fleet, nodes=(*world.fleet.nodes, node("n2", gpus=2)))
    wanted = catalog(service("chat", 2, (ONE,), spread="node"))
    assert notes(place(wanted, there)) == (
        "chat is spread by node with at most 1 in one, and n1 has 2: what runs stays where it is",
    )
    assert decide(wanted, there).plan.moves == 0


def test_cards_that_were_chosen_blindly_are_told() -> None:
    wanted = catalog(service("big", 1, (TWO,)))
    assert notes(place(wanted, fleet(node("n1", gpus=4)))) == (
        "big/0: how the cards of n1 are joined is unknown, they were chosen by index",
    )
    assert notes(place(wanted, fleet(node("n1", gpus=2)))) == (), "there was no choice"


def test_cards_whose_sockets_are_known_were_not_chosen_blindly() -> None:
    one = node("n1", gpus=4)
    assert one.facts is not None
    gpus = tuple(replace(gpu, numa_node=gpu.index // 2) for gpu in one.facts.gpus or ())
    known: contract.NodeFacts = replace(one.facts, gpus=gpus)
    assert notes(place(catalog(service("big", 1, (TWO,))), fleet(with_facts(one, known)))) == ()

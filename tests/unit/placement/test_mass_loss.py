# SPDX-License-Identifier: Apache-2.0
"""Many nodes lost at once are more likely one network than many machines: what runs is left as it is (P9)."""

from __future__ import annotations

import pytest

from llmgw.decide import Options
from llmgw.model.node import NodeState
from llmgw.model.plan import ActionKind
from tests.support.fleets import catalog, fleet, node, service
from tests.support.placement_fleets import changed, done
from tests.support.world import World


def fleet_with(nodes: int, lost: int) -> World:
    """A replica on every node; then some of the nodes are lost."""
    world = World(fleet(*(node(f"n{at:02}") for at in range(nodes))))
    world.apply(catalog(service(replicas=nodes, spread="node")))
    for at in range(lost):
        world.state(f"n{at:02}", NodeState.LOST)
    return world


@pytest.mark.parametrize(
    ("nodes", "lost", "freezes"),
    [
        (2, 1, False),
        (5, 1, False),
        (5, 2, True),
        (10, 1, False),
        (10, 2, True),
        (20, 2, False),
        (20, 3, True),
        (29, 2, False),
        (29, 3, True),
        (30, 3, False),
        (30, 4, True),
    ],
)
def test_losing_more_than_a_tenth_of_the_nodes_and_more_than_one_freezes(nodes: int, lost: int, freezes: bool) -> None:
    world = fleet_with(nodes, lost)
    decision = world.apply(catalog(service(replicas=nodes)))
    assert (decision.plan.frozen is not None) == freezes
    assert len(changed(decision)) == (0 if freezes else lost)
    assert decision.plan.moves == (0 if freezes else lost)


def test_the_plan_says_how_many_nodes_are_lost_and_which() -> None:
    world = fleet_with(10, 3)
    frozen = world.apply(catalog(service(replicas=10))).plan.frozen
    assert frozen == "3 of 10 nodes are lost at once (n00, n01, n02): what runs stays as it is"


def test_the_flag_lets_what_was_there_move() -> None:
    world = fleet_with(10, 3)
    decision = world.apply(catalog(service(replicas=10)), Options(allow_mass_loss=True))
    assert decision.plan.frozen is None
    assert changed(decision) == [("move", f"chat/{at}") for at in range(3)]
    assert done(decision, "chat/0").reasons[0] == "n00 is lost"


def test_nothing_is_stopped_while_mass_loss_freezes() -> None:
    world = fleet_with(10, 3)
    decision = world.apply(catalog(service(replicas=10)))
    assert {action.kind for action in decision.plan.actions} == {ActionKind.KEEP}
    assert len(world.running("chat")) == 10


def test_new_replicas_still_start_on_nodes_that_answer() -> None:
    world = fleet_with(10, 3)
    decision = world.apply(catalog(service(replicas=12)))
    assert changed(decision) == [("create", "chat/10"), ("create", "chat/11")]
    assert all(done(decision, f"chat/{at}").nodes[0] > "n02" for at in (10, 11))


def test_a_node_that_does_not_answer_is_not_lost_and_keeps_what_it_runs() -> None:
    world = fleet_with(3, 0)
    for name in ("n00", "n01", "n02"):
        world.state(name, NodeState.UNREACHABLE)
    decision = world.apply(catalog(service(replicas=3)))
    assert decision.plan.frozen is None
    assert changed(decision) == []

# SPDX-License-Identifier: Apache-2.0
"""A replica of several nodes that goes on with fewer moves once, whatever it left on a lost node (P7)."""

from __future__ import annotations

from llmgw.model.node import NodeState
from llmgw.model.plan import ActionKind
from tests.support.fleets import catalog, service
from tests.support.joined_machines import Machine
from tests.support.placement_fleets import A100, Site, cards_for, changed, done, removed, where

BOTH, ALONE = cards_for(2, A100, name="both", nodes=2), cards_for(2, A100, name="alone")
CHAT = catalog(service("chat", 1, (BOTH, ALONE)))


def on_one_of_two() -> Site:
    """The replica ran on n0 and n1; n1 was lost, and it runs on n0 alone."""
    site = Site(Machine("n0", (A100,) * 2, fabric="ib-a"), Machine("n1", (A100,) * 2, fabric="ib-a"))
    site.apply(CHAT)
    assert site.world.running("chat") == ["chat/0@n0", "chat/0@n1"]
    site.world.state("n1", NodeState.LOST)
    decision = site.apply(CHAT)
    assert where(decision.placement) == {"chat/0": ("n0",)}
    assert done(decision, "chat/0").kind is ActionKind.MOVE
    return site


def test_a_replica_that_went_on_with_one_node_stays_there_in_every_later_plan() -> None:
    site = on_one_of_two()
    for _round in range(3):
        decision = site.apply(CHAT)
        assert decision.plan.waves == ()
        assert where(decision.placement) == {"chat/0": ("n0",)}
        assert site.world.restarted == []


def test_what_it_left_on_the_lost_node_is_told_and_not_touched() -> None:
    decision = on_one_of_two().plan(CHAT)
    assert changed(decision) == [("stop", "chat/0")]
    (left,) = [one for one in decision.plan.actions if one.kind is ActionKind.STOP]
    assert left.nodes == ("n1",)
    assert left.reasons == ("n1 is lost; chat/0 runs on n0", "its unit on n1 stays until the node can be reached")
    assert removed(decision) == []


def test_when_the_node_returns_only_what_was_left_there_is_stopped() -> None:
    site = on_one_of_two()
    site.world.state("n1", NodeState.OK)
    decision = site.apply(CHAT)
    assert removed(decision) == [("n1", "llmgw-chat.0.1.service")]
    assert site.world.restarted == []
    assert site.world.running("chat") == ["chat/0@n0"]
    assert site.apply(CHAT).plan.waves == ()

# SPDX-License-Identifier: Apache-2.0
"""Runs that may touch some nodes alone: what they cannot do now they do not begin, and a second one changes nothing."""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import Options
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, fleet, node, service
from tests.support.placement_fleets import changed
from tests.support.world import World

CHAT = catalog(service("chat", 2), service("code", 1))
N0 = Options(limit=frozenset({"n0", "gw"}))


def drained_outside() -> World:
    """n0 and n1 run what is wanted; n1, which is then drained, is outside the limit."""
    world = World(fleet(node("n0"), node("n1")))
    world.apply(CHAT)
    assert world.running("chat") == ["chat/0@n0", "chat/1@n1"]
    nodes = tuple(replace(one, drained=one.name == "n1") for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=nodes)
    return world


def test_a_drained_node_outside_the_limit_moves_nothing() -> None:
    world = drained_outside()
    decision = world.apply(CHAT, N0)
    assert changed(decision) == []
    assert world.running("chat") == ["chat/0@n0", "chat/1@n1"]
    assert "! n1 is left alone in this run" in plan_lines(decision.plan)


def test_a_second_limited_run_has_nothing_to_do() -> None:
    world = drained_outside()
    wanted = catalog(service("chat", 3), service("code", 1))
    world.apply(wanted, N0)
    again = world.apply(wanted, N0)
    assert changed(again) == []
    assert again.plan.waves == ()


def test_the_run_without_a_limit_moves_it_then() -> None:
    world = drained_outside()
    world.apply(CHAT, N0)
    assert changed(world.apply(CHAT)) == [("move", "chat/1")]
    assert world.running("chat") == ["chat/0@n0", "chat/1@n0"]

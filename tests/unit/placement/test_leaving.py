# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot
from llmgw.model.plan import ActionKind
from llmgw.model.replica import Catalog, ProfileSpec
from llmgw.plan.text import plan_lines
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World

CLASS = "h200-141g"


def cards(name: str, count: int) -> ProfileSpec:
    return profile(name, classes=(CLASS,), gpus=count, tensor_parallel=count)


def running() -> World:
    """n1 has two cards and a replica of `old` on both; n2, which comes later by name, is empty."""
    world = World(fleet(node("n1", gpus=2)))
    world.apply(catalog(service("old", 1, (cards("old", 2),))))
    return world


def with_n2(world: World) -> FleetSnapshot:
    return replace(world.fleet, nodes=(*world.fleet.nodes, node("n2", gpus=2)))


def impossible_beside(name: str = "new") -> Catalog:
    """`old` now wants more cards than any node has."""
    return catalog(service("old", 1, (cards("old", 3),)), service(name, 1, (cards(name, 2),)))


def test_devices_of_what_must_leave_are_the_last_that_others_get() -> None:
    plan = decide(impossible_beside("a-new-one"), with_n2(running())).plan
    assert [(one.kind, one.replica, one.nodes) for one in plan.actions] == [
        (ActionKind.CREATE, "a-new-one/0", ("n2",)),
    ]
    (still,) = plan.unplaced
    assert (still.replica, still.runs_on) == ("old/0", ("n1",))
    assert "    old/0 goes on running on n1, though no profile of the catalog fits its place any more" in plan_lines(
        plan
    )


def test_what_must_leave_is_stopped_when_others_need_its_devices_and_it_says_for_whom() -> None:
    plan = decide(impossible_beside(), running().fleet).plan
    stop = next(one for one in plan.actions if one.kind is ActionKind.STOP)
    assert stop.replica == "old/0"
    assert stop.reasons == ("no profile of the catalog fits its place any more, and new/0 gets its devices",)
    assert plan.unplaced[0].runs_on == ()


def test_devices_of_what_has_found_another_place_are_as_good_as_any() -> None:
    world = running()
    moved = decide(catalog(service("old", 1, (replace(cards("old", 2), node_selector={"x": "y"}),))), world.fleet).plan
    assert [one.kind for one in moved.actions] == [ActionKind.KEEP], "a label keeps new replicas away and moves nothing"
    nodes = tuple(replace(one, drained=True) for one in world.fleet.nodes)
    there = replace(world.fleet, nodes=(*nodes, node("n2", gpus=2), node("n3", gpus=2)))
    plan = decide(catalog(service("old", 1, (cards("old", 2),))), there).plan
    assert [(one.kind, one.nodes) for one in plan.actions] == [(ActionKind.MOVE, ("n2",))]


def test_what_does_not_run_does_not_go_on_running() -> None:
    world = running()
    world.change("llmgw-old.0.0.service", lambda unit: replace(unit, active_state="failed", main_pid=None))
    plan = decide(impossible_beside("a-new-one"), with_n2(world)).plan
    assert plan.unplaced[0].runs_on == ()

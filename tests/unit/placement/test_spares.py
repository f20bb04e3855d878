# SPDX-License-Identifier: Apache-2.0
"""What is too many of a service stays where another replica of it has lost its place (P8)."""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import Options
from llmgw.model.ids import DeviceClass
from llmgw.model.replica import Catalog
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.placement_fleets import changed, done, where
from tests.support.world import World

CLASS = ("h200-141g",)
CHAT, MORE = profile("p", classes=CLASS, gpus=1), profile("q", classes=CLASS, gpus=1)
WITHOUT_N2 = Options(limit=frozenset({"n1", "gw"}))


def wanted(chats: int, *, others: int = 0) -> Catalog:
    """`others`: replicas of a service that goes first."""
    return catalog(service("chat", chats, (CHAT,)), service("first", others, (MORE,), priority=5))


def running(cordoned: str | None = None) -> World:
    """One replica of chat on each of two nodes, which are full by it."""
    world = World(fleet(node("n1", gpus=1), node("n2", gpus=1)))
    world.apply(wanted(2))
    assert world.running("chat") == ["chat/0@n1", "chat/1@n2"]
    nodes = tuple(replace(one, cordoned=one.name == cordoned) for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=nodes)
    return world


def test_what_cannot_be_stopped_now_serves_in_the_place_of_what_gave_way() -> None:
    world = running()
    decision = world.apply(wanted(1, others=1), WITHOUT_N2)
    assert changed(decision) == [("create", "first/0"), ("stop", "chat/0")]
    assert where(decision.placement) == {"chat/1": ("n2",), "first/0": ("n1",)}
    assert decision.plan.unplaced == ()
    assert world.routed("chat") == ["chat/1@n2"]
    assert not world.apply(wanted(1, others=1), WITHOUT_N2).plan.waves


def test_what_is_too_many_where_nothing_new_comes_serves_in_the_place_of_what_gave_way() -> None:
    world = running(cordoned="n2")
    world.apply(wanted(1, others=1))
    assert world.running("chat") == ["chat/1@n2"]


def test_what_fits_nowhere_any_more_is_stopped_for_what_stays_instead() -> None:
    either = replace(CHAT, devices=(DeviceClass("h100-80g"), *CHAT.devices))
    world = World(fleet(node("n1", gpus=1, device_class="h100-80g"), node("n2", gpus=1)))
    world.apply(catalog(service("chat", 2, (either,))))
    nodes = tuple(replace(one, cordoned=one.name == "n2") for one in world.fleet.nodes)
    world.fleet = replace(world.fleet, nodes=nodes)
    decision = world.apply(wanted(1))
    assert world.running("chat") == ["chat/1@n2"]
    assert decision.plan.unplaced == ()
    assert done(decision, "chat/0").reasons == (
        "no profile of the catalog fits its place any more, and chat/1 stays instead",
    )


def test_what_is_too_many_gives_up_what_others_have_got() -> None:
    world = running()
    decision = world.apply(wanted(1, others=2))
    assert world.running("chat") == []
    assert [one.replica for one in decision.plan.unplaced] == ["chat/0"]


def test_what_is_too_many_gives_up_memory_that_others_have_got() -> None:
    def hungry(name: str) -> Catalog:
        takes = profile(name, min_memory_bytes=40 * GB)
        return catalog(service("chat", 1, (takes,)), service("first", 2, (takes,), priority=5))

    world = World(fleet(node("n1"), node("n2")))
    world.apply(catalog(service("chat", 2, (profile("p", min_memory_bytes=40 * GB),))))
    world.apply(hungry("p"))
    assert (world.running("chat"), len(world.running("first"))) == ([], 2)

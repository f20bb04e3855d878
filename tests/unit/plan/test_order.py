# SPDX-License-Identifier: Apache-2.0
"""Orders of moves: no replica is started on a device while another has it, and none loses requests by it (R4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from llmgw.model.plan import Plan, Publish, StartMembers, Step, StopMembers
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.routes.now import serving_now
from tests.support.fleets import catalog, service
from tests.support.joined_machines import Machine, busy, fleet_of
from tests.support.placement_fleets import A100, GB200, cards_for, changed, of
from tests.support.world import World


def unit(
    replica: str, node: str, *cards: int, rank: int = 0, members: int = 1, **more: object
) -> contract.ObservedUnit:
    """The unit of a member that runs on these cards."""
    name, _, number = replica.partition("/")
    values = {"port": 18000, "profile": name} | more
    found = replace(busy(name, int(number), node, *cards), rank=rank, members=members, **values)  # type: ignore[arg-type]
    return replace(found, name=f"llmgw-{name}.{number}.{rank}.service")


def nobody_shares(world: World) -> None:
    for node in world.fleet.nodes:
        held = Counter(device for one in world.units(node.name) for device in one.devices)
        assert set(held.values()) <= {1}, f"{node.name}: {held}"


def positions(plan: Plan, replica: str) -> tuple[int, int, int]:
    """Where in the row of steps a replica that moves is drained, stopped where it was, and started where it goes."""
    steps: list[Step] = [step for wave in plan.waves for step in wave.steps]
    prefix = f"llmgw-{replica.replace('/', '.')}."
    drained = stopped = started = -1
    for at, step in enumerate(steps):
        if isinstance(step, Publish) and any(name.startswith(f"{replica}@") for name in step.drain):
            drained = at
        elif isinstance(step, StopMembers) and any(name.startswith(prefix) for _, name in step.units):
            stopped = at
        elif isinstance(step, StartMembers) and any(one.name.startswith(prefix) for one in step.units):
            started = at
    return drained, stopped, started


def crossed() -> World:
    """`high` has lost its member on n0 and goes where `low` is; `low` goes where the other member of `high` is."""
    machines = (
        Machine("n0", (GB200,) * 4, fabric="ib-a", sick=(2, 3), units=(unit("low/0", "n0", 0, 1),)),
        Machine("n1", (GB200,) * 4, fabric="ib-a", units=(unit("high/0", "n1", 2, 3, rank=1, members=2, port=18002),)),
    )
    return World(fleet_of(*machines), nobody_shares)


LOW = of("low", cards_for(2, GB200))
HIGH = of("high", cards_for(2, GB200, nodes=2), priority=2, spread="node")


def test_replicas_that_wait_for_one_another_are_all_stopped_before_one_starts() -> None:
    world = crossed()
    decision = world.apply(catalog(LOW, HIGH))
    assert changed(decision) == [("move", "high/0"), ("move", "low/0")]
    drained, stopped, started = positions(decision.plan, "low/0")
    assert 0 <= drained < stopped < started
    # The unit of the member that stays on n1 is written anew: nothing of it is removed.
    assert positions(decision.plan, "high/0")[1:] == (-1, started)


def test_after_an_exchange_of_devices_the_next_plan_is_empty() -> None:
    world = crossed()
    world.apply(catalog(LOW, HIGH))
    assert changed(world.apply(catalog(LOW, HIGH))) == []


def chained() -> tuple[World, tuple[ServiceSpec, ...]]:
    """top/0 gives up cards of n4 in place, low/0 gets one of them, and top/1 needs the card of low/0."""
    machines = (
        Machine("n1", (A100,), variables={"llmgw_drained": True}, units=(unit("top/1", "n1", 0, profile="one"),)),
        Machine("n4", (A100,) * 4, sick=(3,), units=(unit("top/0", "n4", 0, 1, 2, 3, profile="four"),)),
        Machine("n5", (A100,), units=(unit("low/0", "n5", 0),)),
    )
    ways: tuple[ProfileSpec, ...] = (cards_for(4, A100, name="four"), cards_for(1, A100, name="one"))
    top = service("top", 2, ways, priority=1, spread="node")
    return World(fleet_of(*machines), nobody_shares), (top, of("low", cards_for(1, A100)))


def test_what_needs_the_device_of_a_late_move_waits_for_it() -> None:
    world, services = chained()
    decision = world.apply(catalog(*services))
    assert changed(decision) == [("move", "low/0"), ("update", "top/0"), ("move", "top/1")]
    assert [wave.title for wave in decision.plan.waves] == ["update top/0", "start low/0", "start top/1"]


def test_a_move_that_waits_is_stopped_before_its_device_is_used_again() -> None:
    world, services = chained()
    plan = world.apply(catalog(*services)).plan
    drained, stopped, _ = positions(plan, "low/0")
    assert drained < stopped < positions(plan, "top/1")[2]
    assert changed(world.apply(catalog(*services))) == []


@pytest.mark.parametrize("cards", [1, 2])
def test_a_member_that_its_leader_has_left_is_stopped_and_its_successor_stays_in_the_routes(cards: int) -> None:
    """The successor is led from the node of the member that was left, under another unit's name."""
    machines = (
        Machine("n0", (GB200,), fabric="ib-a", variables={"llmgw_drained": True}),
        Machine("n1", (GB200,) * cards, fabric="ib-a", units=(unit("chat/0", "n1", 0, rank=1, members=2),)),
    )
    world = World(fleet_of(*machines), nobody_shares)
    wanted = catalog(of("chat", cards_for(1, GB200)))
    world.apply(wanted)
    assert [one.name for one in world.units("n1")] == ["llmgw-chat.0.0.service"]
    assert world.routed("chat") == ["chat/0@n1"]
    assert world.apply(wanted).plan.waves == ()


def test_a_member_without_its_leader_is_in_no_routes() -> None:
    machine = Machine("n1", (GB200,), units=(unit("chat/0", "n1", 0, rank=1, members=2),))
    assert list(serving_now(fleet_of(machine))) == []

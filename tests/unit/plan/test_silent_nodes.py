# SPDX-License-Identifier: Apache-2.0
"""What a plan does about replicas that an earlier run left drained on nodes that have not answered since, and how what
puts back a wave keeps its hands off those whose own step may have failed.
"""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import decide
from llmgw.model.node import NodeState
from llmgw.model.plan import Plan, Publish, Wave
from llmgw.model.replica import Catalog, RolloutSpec
from llmgw.nodekit import contract
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World


def wanted(*, changed: bool = False, surge: int | None = 0, replicas: int = 3) -> Catalog:
    ways = (profile(args=("--new",) if changed else ()),)
    return catalog(service("chat", replicas, ways, rollout=RolloutSpec(max_surge=surge)))


def left_drained(count: int = 3) -> World:
    """A world whose first node is silent, and whose gateway drains the replica there."""
    world = World(fleet(*(node(f"n{number + 1}") for number in range(count))))
    world.apply(wanted(replicas=count))
    states = {name: "draining" if name == "chat/0@n1" else "ready" for name in world.routed("chat")}
    endpoints = tuple(contract.EndpointHealth(name, state) for name, state in states.items())
    told = contract.GatewayFacts(reachable=True, endpoints=endpoints)
    world.fleet = replace(world.fleet, gateways=tuple(replace(one, facts=told) for one in world.fleet.gateways))
    world.state("n1", NodeState.UNREACHABLE)
    return world


def publishes(plan: Plan) -> list[Publish]:
    return [step for wave in plan.waves for step in wave.steps if isinstance(step, Publish)]


def open_in(step: Publish) -> list[str]:
    return [one.id for route in step.routes.routes for one in route.endpoints if not one.draining]


def test_what_is_drained_on_a_silent_node_stays_so_in_every_step() -> None:
    plan = decide(wanted(replicas=4), left_drained().fleet).plan
    assert publishes(plan)
    assert all("chat/0@n1" not in open_in(step) for step in publishes(plan))
    assert {"chat/1@n2", "chat/2@n3", "chat/3@n2"} <= {*open_in(publishes(plan)[-1])}


def test_it_counts_as_away() -> None:
    world = left_drained()
    plan = decide(wanted(changed=True), world.fleet).plan
    (rollout,) = plan.rollouts
    assert rollout.refused
    assert "only 2 of 3 replicas serve" in (rollout.reason or "")
    assert not decide(wanted(changed=True, surge=1), world.fleet).plan.rollouts[0].refused


def test_no_gateway_waits_for_it_to_be_ready() -> None:
    plan = decide(wanted(changed=True, surge=1), left_drained().fleet).plan
    floors = [floor for step in publishes(plan) for floor in step.floors]
    assert floors
    assert all("chat/0@n1" not in floor.stay for floor in floors)


def test_once_its_node_answers_it_is_routed_to_and_all_is_as_it_was() -> None:
    world = left_drained()
    world.state("n1", NodeState.OK)
    world.apply(wanted())
    assert world.routed("chat") == ["chat/0@n1", "chat/1@n2", "chat/2@n3"]


def two_services(*, changed: bool = False) -> Catalog:
    ways = (profile(args=("--new",) if changed else ()),)
    return catalog(service("chat", 2, ways), service("code", 2, ways))


def test_what_puts_back_a_service_sends_nothing_to_the_others_that_its_wave_has_drained() -> None:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(two_services())
    waves = decide(two_services(changed=True), world.fleet).plan.waves
    found = [(wave, step) for wave in waves for steps in wave.undo.values() for step in steps if _publishes(step)]
    assert {len(wave.undo) for wave, _step in found} == {2}, "both services are replaced in each wave"
    for wave, step in found:
        assert isinstance(step, Publish)
        assert not {*_drained(wave)} & {*open_in(step)}
        assert len(step.drain) == 1, "and it waits for its own alone"


def _publishes(step: object) -> bool:
    return isinstance(step, Publish)


def _drained(wave: Wave) -> list[str]:
    return [name for step in wave.steps if isinstance(step, Publish) for name in step.drain]

# SPDX-License-Identifier: Apache-2.0
"""What must hold of every decision. Each property has a seeded defect that makes it fail, tried by the last test."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from llmgw.decide import decide
from llmgw.fleet.published import Published
from llmgw.model.node import FleetSnapshot, Node, NodeState
from llmgw.model.plan import ActionKind
from llmgw.nodekit import contract
from llmgw.placement import assign, board, feasibility, instances, ledger, select
from llmgw.plan import diff, order, rollouts
from llmgw.routes import now
from tests.properties.cases import Case, cases
from tests.support.fleets import with_facts
from tests.support.world import World


def no_device_serves_two_replicas(case: Case) -> None:
    decision = decide(case.first, case.fleet)
    used = Counter(
        device for one in decision.placement.assignments for member in one.members for device in member.devices
    )
    assert all(count == 1 for count in used.values())


def promises_fit_the_nodes(case: Case) -> None:
    decision = decide(case.first, case.fleet)
    for node in case.fleet.nodes:
        here = [one for one in decision.placement.assignments if one.leader.node == node.name]
        memory = node.facts.memory.total_bytes if node.facts and node.facts.memory else None
        if memory is not None:
            assert sum(one.profile.min_memory_bytes or 0 for one in here) <= memory
        ports = [one.leader.port for one in here]
        assert len(ports) == len(set(ports))
        assert all(18000 <= port <= 18999 for port in ports)


def the_order_of_input_does_not_matter(case: Case) -> None:
    turned = FleetSnapshot(case.fleet.nodes[::-1], case.fleet.gateways[::-1], case.fleet.taken_at)
    world, other = World(case.fleet), World(turned)
    for wanted in (case.first, case.second):
        first, second = world.apply(wanted), other.apply(wanted)
        assert first.plan.actions == second.plan.actions
        assert first.units == second.units


def applying_a_plan_leaves_an_empty_plan(case: Case) -> None:
    world = World(case.fleet)
    for wanted in (case.first, case.second):
        world.apply(wanted)
        again = decide(wanted, world.fleet)
        assert again.plan.waves == ()
        refused = any(one.refused for one in again.plan.rollouts)
        assert refused or {action.kind for action in again.plan.actions} <= {ActionKind.KEEP}


def the_catalog_gets_what_it_asks_for_or_a_reason_on_every_node(case: Case) -> None:
    decision = decide(case.first, case.fleet)
    for service in case.first.services:
        placed = sum(one.service.name == service.name for one in decision.placement.assignments)
        missing = [one for one in decision.placement.unplaced if one.service == service.name]
        assert placed + len(missing) == service.replicas
        reasons = {one.replica: one.rejections for one in missing}
        for one in missing:
            told = {(rejection.node, rejection.profile) for rejection in reasons[one.like or one.replica]}
            assert told == set(
                itertools.product(
                    (node.name for node in case.fleet.nodes), (profile.name for profile in service.profiles)
                )
            )


def losing_a_node_moves_only_its_replicas(case: Case) -> None:
    """One that had no place may get one: the share of each remaining spread domain grows. Lower priorities give way."""
    world = World(case.fleet)
    waited = {one.replica for one in world.apply(case.first).plan.unplaced}
    victim = case.fleet.nodes[0].name
    world.state(victim, NodeState.LOST)
    decision = world.apply(case.first)
    gave_way = {replica for one in decision.placement.assignments for replica in one.preempts}
    for action in decision.plan.actions:
        if action.replica in gave_way:
            continue
        if action.kind is ActionKind.MOVE:
            assert action.from_nodes == (victim,)
        elif action.kind is ActionKind.CREATE:
            assert action.replica in waited
        else:
            assert action.kind in (ActionKind.KEEP, ActionKind.STOP)
            assert action.kind is ActionKind.KEEP or action.nodes == (victim,)


def a_node_that_returns_moves_nothing_back(case: Case) -> None:
    world = World(case.fleet)
    world.apply(case.first)
    victim = case.fleet.nodes[0].name
    world.state(victim, NodeState.LOST)
    world.apply(case.first)
    before = {one for service in case.first.services for one in world.routed(service.name)}
    world.state(victim, NodeState.OK)
    world.apply(case.first)
    after = {one for service in case.first.services for one in world.routed(service.name)}
    assert before <= after


def rollouts_keep_all_but_max_unavailable(case: Case) -> None:
    """From the first publish on: routed replicas of a service that both catalogs want stay above the lower count less
    max_unavailable.
    """
    world = World(case.fleet)
    world.apply(case.first)
    started = {service.name: len(world.routed(service.name)) for service in case.first.services}
    kept = {service.name: service for service in case.second.services if service.name in started}
    in_place = decide(case.second, world.fleet)
    gone = Counter(action.service for action in in_place.plan.actions if action.kind is ActionKind.MOVE)
    lacking = Counter(one.service for one in in_place.plan.unplaced)

    def watch(now: World) -> None:
        for name, service in kept.items():
            floor = min(started[name], service.replicas) - service.rollout.max_unavailable - gone[name] - lacking[name]
            assert len(now.routed(name)) >= floor

    World.apply(_watched(world, watch), case.second)


def routes_name_only_what_runs(case: Case) -> None:
    def watch(now: World) -> None:
        for name in ("a", "b", "c"):
            assert set(now.routed(name)) <= set(now.running(name))

    world = _watched(World(case.fleet), watch)
    world.apply(case.first)
    world.apply(case.second)


def what_cannot_be_read_takes_nothing_out_of_the_routes(case: Case) -> None:
    """Nor does it start anything a second time, whether the units or all facts of a node are unknown."""
    victim = case.fleet.nodes[0]
    for wanted in (case.first, case.second):
        for forget in (_without_units, _without_facts):
            world = World(case.fleet)
            world.apply(case.first)
            names = [str(service.name) for service in case.first.services if service in wanted.services]
            before = {name: set(world.routed(name)) for name in names}
            nodes = tuple(forget(one) if one.name == victim.name else one for one in world.fleet.nodes)
            world.fleet = dataclasses.replace(world.fleet, nodes=nodes)

            def watch(world: World, before: dict[str, set[str]] = before, *, same: bool = wanted == case.first) -> None:
                for name, endpoints in before.items():
                    there = {one for one in endpoints if same or one.endswith(f"@{victim.name}")}
                    assert there <= set(world.routed(name))

            blind = _watched(world, watch)
            watch(blind)
            decision = blind.apply(wanted)
            started = {str(one.replica) for one in decision.plan.actions if one.kind is ActionKind.CREATE}
            assert not started & {one.partition("@")[0] for endpoints in before.values() for one in endpoints}
            assert {one for endpoints in before.values() for one in endpoints if one.endswith(f"@{victim.name}")} <= {
                str(endpoint.id) for route in decision.routes.routes for endpoint in route.endpoints
            }


def _without_units(node: Node) -> Node:
    assert node.facts is not None
    return dataclasses.replace(node, facts=dataclasses.replace(node.facts, units=None))


def _without_facts(node: Node) -> Node:
    return dataclasses.replace(node, state=NodeState.UNSEEN, facts=None, devices=None)


def no_device_is_started_on_while_another_has_it(case: Case) -> None:
    """At every step of a plan: what must leave a device has left before another starts there."""

    def watch(now: World) -> None:
        for node in now.fleet.nodes:
            held = [uuid for unit in now.units(node.name) for uuid in unit.devices]
            assert len(held) == len(set(held))

    world = _watched(World(case.fleet), watch)
    for wanted in (case.first, case.second):
        world.apply(wanted)
    blocked = tuple(_with_a_bad_card(node) for node in world.fleet.nodes)
    world.fleet = dataclasses.replace(world.fleet, nodes=blocked)
    world.apply(case.second)


def _with_a_bad_card(node: Node) -> Node:
    """The node with its first device out of order: what runs there must leave it."""
    assert node.facts is not None
    if not node.devices:
        return node
    finding = contract.Finding("ecc", "block", "it is broken", subject=node.devices[0].uuid)
    return with_facts(node, dataclasses.replace(node.facts, findings=(finding,)))


def _watched(world: World, watch: Callable[[World], None]) -> World:
    watched = World(world.fleet, watch)
    watched.routes = world.routes
    return watched


PROPERTIES = [
    no_device_serves_two_replicas,
    promises_fit_the_nodes,
    the_order_of_input_does_not_matter,
    applying_a_plan_leaves_an_empty_plan,
    the_catalog_gets_what_it_asks_for_or_a_reason_on_every_node,
    losing_a_node_moves_only_its_replicas,
    a_node_that_returns_moves_nothing_back,
    rollouts_keep_all_but_max_unavailable,
    routes_name_only_what_runs,
    no_device_is_started_on_while_another_has_it,
    what_cannot_be_read_takes_nothing_out_of_the_routes,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
@given(case=cases())
def test_every_decision(holds: Callable[[Case], None], case: Case) -> None:
    holds(case)


def _forget_devices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ledger.Ledger, "_is_free", lambda _self, _device: True)


def _ignore_memory(patch: pytest.MonkeyPatch) -> None:
    whole = feasibility.asked
    patch.setattr(
        board, "asked", lambda *wanted: tuple(one for one in whole(*wanted) if one is not feasibility.memory_fits)
    )


def _first_node_wins(patch: pytest.MonkeyPatch) -> None:
    count = itertools.count()
    patch.setattr(board, "total", lambda _terms: -float(next(count)))
    patch.setattr(board, "sorted", lambda nodes, **_key: list(nodes), raising=False)


def _always_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "_kind", lambda *_unit: ActionKind.UPDATE)


def _explain_the_first_node_only(patch: pytest.MonkeyPatch) -> None:
    whole = assign._Placing._rejections
    patch.setattr(assign._Placing, "_rejections", lambda self, service: itertools.islice(whole(self, service), 1))


def _everything_moves(patch: pytest.MonkeyPatch) -> None:
    def evict(instance: instances.Instance, *, hidden: bool) -> str | None:
        whim = instance.node.state is NodeState.OK and instance.number == 0
        return "a whim" if whim else instances.eviction(instance, hidden=hidden)

    patch.setattr(select, "eviction", evict)


def _returned_ones_win(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(select, "preference", lambda instance: instance.unit.generation or 0)


def _all_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rollouts, "_at_once", lambda replaced, _may_go: replaced)


def _stop_before_publishing(patch: pytest.MonkeyPatch) -> None:
    original = order.Order.stop

    def stop(self: order.Order, changes: Any) -> None:
        original(self, changes)
        self.waves[:] = [dataclasses.replace(wave, steps=wave.steps[::-1]) for wave in self.waves]

    patch.setattr(order.Order, "stop", stop)


def _start_all_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order, "devices_held", lambda _change: frozenset())
    patch.setattr(rollouts, "devices_held", lambda _change: frozenset())


def _unread_is_empty(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(now, "published", lambda _fleet: Published())


DEFECTS: dict[Callable[[Case], None], Callable[[pytest.MonkeyPatch], None]] = dict(
    zip(
        PROPERTIES,
        [
            _forget_devices,
            _ignore_memory,
            _first_node_wins,
            _always_restart,
            _explain_the_first_node_only,
            _everything_moves,
            _returned_ones_win,
            _all_at_once,
            _stop_before_publishing,
            _start_all_at_once,
            _unread_is_empty,
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=cases())
    def defective(case: Case) -> None:
        holds(case)

    with pytest.raises(AssertionError):
        defective()

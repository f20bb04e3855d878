# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.ids import EndpointId
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.nodekit import contract
from llmgw.routes.build import Routes, Serving
from llmgw.routes.now import routes_now, serving_now
from llmgw.routes.withheld import Taken, still_drained, withheld
from tests.support.fleets import catalog, fleet, node, service
from tests.support.world import World

WANTED = catalog(service("chat", 2))
FIRST, SECOND = EndpointId("chat/0@n1"), EndpointId("chat/1@n2")


def serving() -> World:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(WANTED)
    return world


def runs_as(world: World) -> str:
    return world.units("n2")[0].running_digest or ""


def taken(silent: tuple[str, ...] = (), process: str | None = None, hosts: tuple[str, ...] = ("n2",)) -> Taken:
    return Taken(SECOND, frozenset(hosts), frozenset(silent), process)


def test_what_was_begun_on_a_host_that_has_not_answered_since_gets_nothing_new() -> None:
    world = serving()
    assert withheld([taken()], world.fleet, {"n1"}) == {SECOND}
    assert withheld([taken(process=runs_as(world))], world.fleet, {"n1"}) == {SECOND}, "so its facts are old"


def test_what_runs_on_a_host_that_ended_its_step_and_answers_is_routed_to() -> None:
    assert withheld([taken()], serving().fleet, {"n1", "n2"}) == frozenset()


def test_a_host_that_was_silent_in_the_step_may_be_about_to_stop_what_still_runs() -> None:
    world = serving()
    everybody = {"n1", "n2"}
    assert withheld([taken(silent=("n2",))], world.fleet, everybody) == {SECOND}
    assert withheld([taken(silent=("n2",), process="sha256:next")], world.fleet, everybody) == {SECOND}
    assert withheld([taken(silent=("n2",), process=runs_as(world))], world.fleet, everybody) == frozenset()


def test_a_process_that_cannot_be_told_is_not_the_one_that_was_to_come() -> None:
    world = serving()
    world.change("llmgw-chat.1.0.service", lambda unit: replace(unit, running_digest=None))
    for process in (None, "sha256:next", world.units("n2")[0].process_digest):
        assert withheld([taken(silent=("n2",), process=process)], world.fleet, {"n1", "n2"}) == {SECOND}


def test_a_replica_over_several_hosts_serves_on_only_where_all_of_them_answer() -> None:
    world = serving()
    assert withheld([taken(hosts=("n2", "n9"))], world.fleet, {"n1", "n2"}) == {SECOND}
    assert withheld([taken(hosts=("n2", "n9"))], world.fleet, {"n2", "n9"}) == frozenset()


def test_what_is_withheld_is_named_and_drains_and_all_else_is_as_it_was() -> None:
    world = serving()
    before = routes_now(WANTED, world.fleet).routes[0].endpoints
    (route,) = routes_now(WANTED, world.fleet, draining=frozenset({SECOND})).routes
    assert [(one.id, one.draining) for one in route.endpoints] == [(FIRST, False), (SECOND, True)]
    assert tuple(replace(one, draining=False) for one in route.endpoints) == before


def seen(world: World, states: dict[str, str], of_gateway: NodeState = NodeState.OK) -> FleetSnapshot:
    endpoints = tuple(contract.EndpointHealth(name, state) for name, state in states.items())
    facts = contract.GatewayFacts(reachable=True, endpoints=endpoints)
    gateways = tuple(replace(one, facts=facts, state=of_gateway) for one in world.fleet.gateways)
    return replace(world.fleet, gateways=gateways)


@pytest.mark.parametrize(
    ("state", "since", "last", "drained"),
    [
        (NodeState.UNREACHABLE, 1000.0, 1000.0, True),
        (NodeState.UNREACHABLE, 1000.0, 1299.0, True),
        (NodeState.UNREACHABLE, 1000.0, 1300.0, False),
        (NodeState.UNREACHABLE, None, None, True),
        (NodeState.OK, None, None, False),
        (NodeState.LOST, 1000.0, 1300.0, False),
        (NodeState.FROZEN, None, None, False),
    ],
)
def test_what_is_drained_stays_so_while_its_node_is_silent_and_may_not_be_lost_yet(
    state: NodeState, since: float | None, last: float | None, drained: bool
) -> None:
    world = serving()
    away = [
        replace(one, state=state, unreachable_since=since, unreachable_last=last) if one.name == "n2" else one
        for one in world.fleet.nodes
    ]
    world.fleet = replace(world.fleet, nodes=tuple(away))
    told = seen(world, {FIRST: "draining", SECOND: "draining"})
    assert still_drained(told, 300.0) == ({SECOND} if drained else frozenset())


def test_only_gateways_that_answer_tell_what_is_drained() -> None:
    world = serving()
    world.state("n2", NodeState.UNREACHABLE)
    assert still_drained(world.fleet, 300.0) == frozenset()
    assert still_drained(seen(world, {SECOND: "ready"}), 300.0) == frozenset()
    assert still_drained(seen(world, {SECOND: "draining"}, NodeState.UNREACHABLE), 300.0) == frozenset()
    assert still_drained(seen(world, {SECOND: "draining"}), 300.0) == {SECOND}


def test_what_stays_drained_is_so_in_every_table_and_counts_among_nobody_who_serves() -> None:
    world = serving()
    found: list[Serving] = list(serving_now(world.fleet))
    routes = Routes(WANTED, found, frozenset({SECOND}))
    assert routes.of_service("chat") == (FIRST,)
    for also in (frozenset[EndpointId](), frozenset({FIRST})):
        drained = {one.id for one in routes.table(also).routes[0].endpoints if one.draining}
        assert drained == {SECOND, *also}

# SPDX-License-Identifier: Apache-2.0
"""Routes to nodes whose units cannot be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gateway_facts
from llmgw.decide import decide
from llmgw.fleet.published import published
from llmgw.model.ids import NodeName
from llmgw.model.node import GatewayHost, Node, NodeState
from llmgw.model.route import BUNDLE_FORMAT, Bundle, RouteTable
from llmgw.nodekit import contract
from llmgw.routes.build import Routes
from llmgw.routes.codec import dump_bundle, routes_digest
from llmgw.routes.now import routes_now, serving_now
from llmgw.routes.withheld import still_drained
from tests.support.fleets import catalog, service
from tests.support.unseen_units import (
    WANTED,
    away_and_never_seen,
    blind,
    bundle_of,
    gateway,
    gateways,
    lost,
    never_seen,
    serving,
    without_units,
)

BLIND = pytest.mark.parametrize("forget", [without_units, never_seen, away_and_never_seen])


def ids(routes: RouteTable) -> list[str]:
    return [str(one.id) for route in routes.routes for one in route.endpoints]


@BLIND
def test_the_routes_are_the_very_ones_that_are_published(forget: Callable[[Node], Node]) -> None:
    world = serving()
    before = world.routes
    fleet_now = blind(world, forget).fleet
    assert before is not None
    assert {one.api_key_env for route in before.routes for one in route.endpoints} == {"LLMGW_SECRET_ENGINE_KEY"}
    assert routes_now(WANTED, fleet_now) == before
    decision = decide(WANTED, fleet_now)
    assert decision.routes == before
    assert routes_digest(decision.routes) == bundle_of(world).routes_digest
    assert not decision.plan.changes


def test_the_bundle_as_gateways_hold_it_tells_all_that_its_routes_need() -> None:
    world = serving()
    assert world.routes is not None
    text = dump_bundle(Bundle(BUNDLE_FORMAT, 7, routes_digest(world.routes), world.routes)).encode()
    gateways(blind(blind(world), name="n2"), gateway("gw", gateway_facts.bundle("/bundle.json", text)))
    assert routes_now(WANTED, world.fleet) == world.routes


def test_what_was_on_a_lost_node_is_named_no_more() -> None:
    assert ids(routes_now(WANTED, blind(serving(), lost).fleet)) == ["chat/1@n2"]


def test_a_service_that_the_catalog_no_longer_has_is_routed_nowhere() -> None:
    assert ids(routes_now(catalog(service("other")), blind(serving()).fleet)) == []


def test_what_a_failed_run_left_drained_there_stays_drained() -> None:
    world = serving()
    bundle = bundle_of(world)
    endpoints = tuple(replace(one, draining=True) for one in bundle.endpoints or ())
    gateways(blind(world), gateway("gw", replace(bundle, endpoints=endpoints)))
    assert still_drained(world.fleet, 300.0) == {"chat/0@n1"}, "of n2 it is known what runs"


def test_the_newest_bundle_of_all_gateways_counts_also_of_one_that_does_not_answer() -> None:
    world = serving()
    bundle = bundle_of(world)
    moved = tuple(replace(one, id=one.id.replace("n1", "n3")) for one in bundle.endpoints or ())
    newer = replace(bundle, generation=(bundle.generation or 0) + 1, endpoints=moved)
    away = replace(gateway("gw2", newer), state=NodeState.UNREACHABLE)
    blind(blind(world), name="n3")
    for hosts in ((gateway("gw1", bundle), away), (away, gateway("gw1", bundle))):
        assert ids(routes_now(WANTED, gateways(world, *hosts).fleet)) == ["chat/0@n3", "chat/1@n2"]


def test_a_replica_that_came_up_elsewhere_after_the_bundle_is_not_named_where_it_was() -> None:
    world = serving()
    unit = replace(world.units("n1")[0], generation=9)
    blind(world)
    world._set("n3", (unit,))
    assert "chat/0@n1" not in ids(routes_now(WANTED, world.fleet))
    assert "chat/0@n3" in ids(routes_now(WANTED, world.fleet))


def test_an_old_copy_that_a_node_brings_back_is_not_named_again() -> None:
    world = serving()
    unit = replace(world.units("n1")[0], generation=0)
    blind(world)
    world._set("n3", (unit,))
    assert ids(routes_now(WANTED, world.fleet)) == ["chat/0@n1", "chat/1@n2"]


def test_while_it_moves_both_ends_stay_named() -> None:
    world = serving()
    bundle = bundle_of(world)
    both = (*(bundle.endpoints or ()), *(replace(one, id="chat/0@n3") for one in (bundle.endpoints or ())[:1]))
    unit = world.units("n1")[0]
    gateways(blind(world), gateway("gw", replace(bundle, endpoints=both)))
    world._set("n3", (unit,))
    assert ids(routes_now(WANTED, world.fleet)) == ["chat/0@n1", "chat/0@n3", "chat/1@n2"]


def test_what_comes_up_elsewhere_takes_its_place_at_once() -> None:
    world = blind(serving())
    routes = Routes(WANTED, serving_now(world.fleet))
    kept = next(one for one in serving_now(world.fleet) if one.unseen)
    routes.add(replace(kept, node=NodeName("n3"), unseen=False))
    assert ids(routes.table()) == ["chat/0@n3", "chat/1@n2"]


def test_what_is_known_of_every_unit_needs_no_bundle() -> None:
    assert published(serving().fleet).endpoints == ()


def test_a_gateway_that_names_nothing_there_leaves_nothing_untold() -> None:
    world = serving()
    known = contract.EndpointHealth("chat/1@n2", "ready")
    for host in (
        gateway("gw", contract.PublishedBundle("/b", 3, "sha256:x"), generation=3, endpoints=(known,)),
        gateway("gw", None),
        GatewayHost(NodeName("gw"), NodeState.OK),
    ):
        assert published(gateways(blind(world), host).fleet).untold == ()


def test_a_gateway_that_does_not_tell_its_routes_leaves_the_node_untold() -> None:
    world = serving()
    there = contract.EndpointHealth("chat/0@n1", "ready")
    for host in (
        gateway("gw", contract.PublishedBundle("/b")),
        gateway("gw", contract.PublishedBundle("/b", 3, "sha256:x"), generation=3, endpoints=(there,)),
        gateway("gw", None, generation=3, endpoints=(there,)),
        replace(gateway("gw", contract.PublishedBundle("")), facts=None),
    ):
        assert published(gateways(blind(world), host).fleet).untold == ("n1",)


def test_older_routes_that_are_not_told_do_not_matter_and_newer_ones_do() -> None:
    world = blind(serving())
    known = gateway("gw1", bundle_of(world))
    there = contract.EndpointHealth("chat/9@n1", "ready")
    for generation, untold in ((0, ()), (99, ("n1",))):
        other = gateway("gw2", contract.PublishedBundle("/b"), generation=generation, endpoints=(there,))
        assert published(gateways(world, known, other).fleet).untold == untold

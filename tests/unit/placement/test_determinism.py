# SPDX-License-Identifier: Apache-2.0
"""One answer for one question: the order of catalog, inventory and facts never matters."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog
from tests.support.fleets import catalog as catalog_of
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import EIGHT, GB200, H100, RACK_A, SOCKETS, cards_for, of, where
from tests.unit.catalog.catalogs import catalog

TEXT = """\
version: 1
models: {{small: {{path: m.gguf}}}}
profiles:
{profiles}
services:
{services}
"""
PROFILES = {
    "one": "{engine: vllm, model: small, devices: h100-80g, gpus: 1}",
    "two": "{engine: vllm, model: small, devices: h100-80g, gpus: 2, min_memory_gb: 8}",
    "wide": "{engine: vllm, model: small, devices: [gb200-186g, h100-80g], gpus: 4, nodes: 2}",
}
SERVICES = {
    "a": "{profiles: one, replicas: 3, spread: node}",
    "b": "{profiles: [two, one], replicas: 3, priority: 1}",
    "c": "{profiles: wide, replicas: 3}",
    "d": "{profiles: two, replicas: 2}",
}


def machines() -> list[Machine]:
    boxes = [Machine(f"n{at}", (H100,) * 8, SOCKETS, (EIGHT,), "ib-a", held=(at,)) for at in range(3)]
    trays = [Machine(f"t{at}", (GB200,) * 4, fabric="ib-a", domain=RACK_A) for at in range(3)]
    return [*boxes, *trays]


def written(order: random.Random) -> str:
    def block(entries: dict[str, str]) -> str:
        lines = [f"  {name}: {text}" for name, text in entries.items()]
        order.shuffle(lines)
        return "\n".join(lines)

    return TEXT.format(profiles=block(PROFILES), services=block(SERVICES))


def turned(fleet: FleetSnapshot, order: random.Random) -> FleetSnapshot:
    """The same fleet with everything listed in another order."""
    nodes = list(fleet.nodes)
    order.shuffle(nodes)
    mixed = tuple(nodes)
    domains, fabrics = list(fleet.domains), list(fleet.fabrics)
    order.shuffle(domains)
    order.shuffle(fabrics)
    return replace(fleet, nodes=mixed, domains=tuple(domains), fabrics=tuple(fabrics))


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_yaml_and_of_the_inventory_does_not_matter(seed: int) -> None:
    order = random.Random(seed)
    fleet = fleet_of(*machines())
    expected = decide(catalog(written(random.Random(99))), fleet)
    found = decide(catalog(written(order)), turned(fleet, order))
    assert found.placement == expected.placement
    assert found.units == expected.units
    assert found.plan.actions == expected.plan.actions
    assert found.plan.waves == expected.plan.waves


def test_the_order_in_which_machines_are_listed_does_not_matter() -> None:
    wanted = catalog(written(random.Random(1)))
    listed = machines()
    first, again = (decide(wanted, fleet_of(*order)).placement for order in (listed, listed[::-1]))
    assert where(first) == where(again)


def test_the_same_question_has_the_same_answer() -> None:
    wanted, fleet = catalog(written(random.Random(5))), fleet_of(*machines())
    first, again = decide(wanted, fleet), decide(wanted, fleet)
    assert (first.placement, first.units, first.plan, first.routes) == (
        again.placement,
        again.units,
        again.plan,
        again.routes,
    )


def test_equal_places_are_taken_by_name() -> None:
    fleet = fleet_of(*(Machine(name, (H100,)) for name in ("c", "a", "b")))
    wanted: Catalog = catalog_of(of("chat", cards_for(1), 3))
    found = decide(wanted, fleet).placement.assignments
    assert [one.leader.node for one in found] == ["a", "b", "c"]

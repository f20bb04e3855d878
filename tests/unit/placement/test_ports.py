# SPDX-License-Identifier: Apache-2.0
"""Ports: none is given twice on a node, a leader gets two in a row, and where there are none it is said (P1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from llmgw.model.node import FleetSnapshot
from llmgw.model.placement import Placement
from llmgw.model.replica import Catalog
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, profile, service
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import A100, L40S, Site, cards_for, of, placed, sentences, told, where

PAIR = of("chat", cards_for(1, A100, nodes=2))
NODES = (Machine("n0", (A100,) * 2, fabric="ib-a"), Machine("n1", (A100,) * 2, fabric="ib-a"))


def in_range(first: int, last: int, wanted: Catalog) -> Catalog:
    return replace(wanted, fleet=replace(wanted.fleet, port_range=(first, last)))


def listening(on: str, *ports: int) -> FleetSnapshot:
    return Site(*NODES).seen(lambda facts: replace(facts, system=contract.System(listening_ports=ports)), on=on)


def ports_of(placement: Placement) -> Counter[tuple[str, int]]:
    """How often each port of each node is given."""
    return Counter((str(part.node), part.port) for one in placement.assignments for part in one.members)


def test_what_is_put_elsewhere_while_room_is_made_leaves_its_port_to_nobody_twice() -> None:
    mixed = (L40S, L40S, A100, A100)
    machines = [
        Machine("n0", mixed, labels={"rack": "a"}, memory_gb=64),
        Machine("n1", mixed, labels={"rack": "c"}, memory_gb=16),
    ]
    pair = profile("pair", "vllm", (A100, L40S), 2, tensor_parallel=2, min_memory_bytes=24 * GB)
    one = profile("one", "vllm", (L40S,), 1)
    found = placed(catalog(service("chat", 5, (pair, one), spread="rack")), fleet_of(*machines))
    assert len(found.assignments) == 5
    assert set(ports_of(found).values()) == {1}


def test_a_member_without_three_ports_is_refused_with_the_ports_as_the_reason() -> None:
    found = placed(in_range(18000, 18000, catalog(PAIR)), fleet_of(*NODES))
    assert where(found) == {}
    for node in ("n0", "n1"):
        assert told(found, node)[0].constraint == "ports"
        assert sentences(found, node)[0] == "no 3 ports in a row of the range are free"


def test_free_ports_that_are_apart_are_not_three_in_a_row() -> None:
    found = placed(in_range(18000, 18003, catalog(PAIR)), listening("n0", 18001))
    assert where(found) == {}
    assert sentences(found, "n0") == ["no 3 ports in a row of the range are free"]
    assert [one.constraint for one in told(found, "n1")] == ["partners"]


def test_three_ports_in_a_row_at_the_end_of_the_range_are_enough() -> None:
    found = placed(in_range(18000, 18003, catalog(PAIR)), listening("n0", 18000))
    assert where(found) == {"chat/0": ("n0", "n1")}
    assert ports_of(found) == {("n0", 18001): 1, ("n1", 18000): 1}


def test_one_port_is_enough_for_a_replica_on_one_node() -> None:
    found = placed(in_range(18000, 18000, catalog(of("chat", cards_for(1, A100), 3))), fleet_of(*NODES))
    assert ports_of(found) == {("n0", 18000): 1, ("n1", 18000): 1}
    assert [one.message for one in told(found, "n0")] == ["no port of the range is free"]

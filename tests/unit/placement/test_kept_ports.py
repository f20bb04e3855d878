# SPDX-License-Identifier: Apache-2.0
"""Ports of what runs: a replica that needs more of them by now gets a row of its own, and what leaves keeps its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from llmgw.decide import Decision, Options, decide
from llmgw.engines.members import ports_needed
from llmgw.model.placement import Placement
from llmgw.model.plan import ActionKind
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.placement.port_rows import ports_held
from tests.support.fleets import catalog, fleet, node, profile, service, with_facts
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import A100, cards_for, done, of
from tests.support.world import World

KINDS = ("sim", "vllm", "sglang")
ENGINES = tuple(contract.Engine(kind, (f"/opt/{kind}",), "1.0", runnable=True) for kind in KINDS)
CLASS = ("h200-141g",)
WHOLE = profile("p", "vllm", CLASS, 2, tensor_parallel=2)
COPIES = replace(WHOLE, tensor_parallel=1, data_parallel=2)
SGLANG = profile("p", "sglang", CLASS, 2, tensor_parallel=2)
ATTENTION = replace(SGLANG, args=("--enable-dp-attention",))
ONE = profile("q", "vllm", CLASS, 1)


def both(first: ProfileSpec, *, others: int = 1) -> Catalog:
    return catalog(service("a", 1, (first,)), service("b", others, (ONE,)))


def world() -> World:
    return World(fleet(node("n", gpus=8, engines=ENGINES)))


def rows(placement: Placement) -> Counter[tuple[str, int]]:
    """How often each port of each node is needed."""
    return Counter(
        (str(member.node), port)
        for one in placement.assignments
        for member in one.members
        for port in range(member.port, member.port + ports_needed(one.profile))
    )


def ports(decision: Decision, name: str) -> list[int]:
    return [part.port for one in decision.placement.assignments if one.service.name == name for part in one.members]


@pytest.mark.parametrize(("before", "after"), [(WHOLE, COPIES), (SGLANG, ATTENTION)], ids=["copies", "attention"])
def test_a_replica_that_needs_more_ports_gets_a_new_row_where_the_next_is_a_neighbours(
    before: ProfileSpec, after: ProfileSpec
) -> None:
    hosts = world()
    hosts.apply(both(before))
    decision = hosts.apply(both(after))
    assert set(rows(decision.placement).values()) == {1}
    assert ports(decision, "b") == [18001], "the neighbour stays"
    assert done(decision, "b/0").kind is ActionKind.KEEP
    assert ports(decision, "a") == [18002]
    assert not decide(both(after), hosts.fleet).plan.waves


def test_a_replica_that_needs_more_ports_keeps_its_own_where_the_next_is_free() -> None:
    hosts = world()
    hosts.apply(both(WHOLE, others=0))
    assert ports(hosts.apply(both(COPIES, others=0)), "a") == [18000]


def test_a_port_that_a_stranger_listens_on_is_in_no_row() -> None:
    hosts = world()
    hosts.apply(both(WHOLE, others=0))
    (only,) = hosts.fleet.nodes
    assert only.facts is not None
    stranger = replace(only.facts, system=contract.System(listening_ports=(18000, 18001)))
    hosts.fleet = replace(hosts.fleet, nodes=(with_facts(only, stranger),))
    assert ports(decide(both(COPIES, others=0), hosts.fleet), "a") == [18002]


def test_what_listens_on_its_own_row_stays_there() -> None:
    hosts = world()
    hosts.apply(both(COPIES, others=0))
    (only,) = hosts.fleet.nodes
    assert only.facts is not None
    itself = replace(only.facts, system=contract.System(listening_ports=(18000, 18001)))
    hosts.fleet = replace(hosts.fleet, nodes=(with_facts(only, itself),))
    assert not decide(both(COPIES, others=0), hosts.fleet).plan.waves


def test_what_is_left_alone_keeps_its_port_whatever_its_profile_needs() -> None:
    hosts = world()
    hosts.apply(both(WHOLE))
    decision = decide(both(COPIES), hosts.fleet, Options(limit=frozenset({"gw"})))
    assert ports(decision, "a") == [18000]
    assert not [one for one in decision.plan.notes if "port" in one]


def test_a_row_does_not_grow_beyond_the_range() -> None:
    hosts = world()
    wanted = both(WHOLE)
    narrow = replace(wanted.fleet, port_range=(18000, 18000))
    hosts.apply(replace(both(WHOLE, others=0), fleet=narrow))
    moved = replace(both(COPIES, others=0), fleet=replace(narrow, port_range=(19000, 19009)))
    assert ports(decide(moved, hosts.fleet), "a") == [19000]


def test_where_no_row_is_free_it_is_said() -> None:
    hosts = world()
    hosts.apply(both(WHOLE))
    narrow = replace(both(COPIES), fleet=replace(both(COPIES).fleet, port_range=(18000, 18002)))
    assert decide(narrow, hosts.fleet).plan.notes == (
        "port 18001 of n is needed by a/0 and by b/0, and no row of ports is free: widen `port_range` of `fleet`",
    )


@pytest.mark.parametrize(("first", "row"), [(COPIES, 2), (ATTENTION, 15), (WHOLE, 1)])
def test_what_leaves_keeps_all_its_ports_until_it_has_left(first: ProfileSpec, row: int) -> None:
    hosts = world()
    hosts.apply(both(first, others=0))
    decision = decide(catalog(service("b", 2, (ONE,))), hosts.fleet)
    assert ports(decision, "b") == [18000 + row, 18001 + row]


def test_a_member_of_an_older_group_moves_off_the_port_that_its_neighbour_listens_on() -> None:
    pair, one = of("a", cards_for(1, A100, nodes=2)), of("b", cards_for(1, A100, name="q"), 2)
    machines = (Machine("n0", (A100,) * 2, fabric="ib-a"), Machine("n1", (A100,) * 2, fabric="ib-a"))
    hosts = World(fleet_of(*machines))
    hosts.apply(catalog(pair, one))
    hosts.change("llmgw-b.0.0.service", lambda unit: replace(unit, port=18002))
    decision = decide(catalog(pair, one), hosts.fleet)
    assert [member.port for member in decision.placement.assignments[0].members] == [18003, 18000]
    assert set(rows(decision.placement).values()) == {1}
    assert done(decision, "a/0").kind is ActionKind.UPDATE


def held(text: str | None, services: Sequence[ServiceSpec] = (), **more: object) -> int:
    unit = contract.ObservedUnit("llmgw-a.0.0.service", profile="p", port=18000, text=text)
    return ports_held(replace(unit, **more), catalog(*services))  # type: ignore[arg-type]


def test_a_unit_of_which_nobody_knows_the_text_has_the_row_of_its_profile() -> None:
    services = (service("a", 1, (COPIES,)), service("b", 1, (ONE,)))
    assert held(None, services) == 2
    assert held(None) == 1
    assert held(None, services, members=2) == 3


def test_the_row_of_a_unit_is_read_from_what_its_process_is_told() -> None:
    assert held("ExecStart=/x serve m --data-parallel-size 2\n", engine="vllm") == 2
    assert held("ExecStart=/x --dp-size 2 --enable-dp-attention\n", engine="sglang") == 16
    assert held("ExecStart=/x --attn-dp-size=2\n", engine="sglang", members=2) == 17
    assert held("ExecStart=/x serve m\n", engine="vllm") == 1

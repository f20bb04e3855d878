# SPDX-License-Identifier: Apache-2.0
"""New nodes for replicas over several nodes: they must be joined with the others, by a fabric or an NVLink domain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import FleetSnapshot
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from llmgw.whatif.nodes import with_nodes
from llmgw.whatif.smallest import Smallest, smallest
from llmgw.whatif.spec import kind_spec, nodes_spec
from tests.support.fabric_fleets import ib
from tests.support.fleets import catalog, facts, profile, service

ENGINES = (contract.Engine("vllm", ("/opt/llmgw/engines/vllm/bin/vllm",), "0.33.0", runnable=True),)
WANTED = catalog(
    service("huge", 1, (profile("two", "vllm", ("h200-141g",), 8, nodes=2, tensor_parallel=8, pipeline_parallel=2),))
)


def one_node(fabric: str | None = "ib-a") -> FleetSnapshot:
    """One node of eight cards and four ports, which are declared to be in a fabric."""
    declared = {"ib-a": {"kind": "infiniband", "hcas": {"sm_guids": ["0x00000000000000aa"]}}} if fabric else {}
    ports = tuple(replace(ib(at + 1, at), sm_guids=("0x00000000000000aa",)) for at in range(4))
    known = facts("n1", 8, engines=ENGINES, rdma_ports=ports, filesystems=None)
    host = Host("n1", node=True, gateway=False, variables={"llmgw_fabrics": declared, "llmgw_address": "10.0.0.1"})
    return build_snapshot((host,), {"n1": Stored(known)}, View(1000.0))


def asked(kind: str, snapshot: FleetSnapshot | None = None) -> Smallest:
    fleet = one_node() if snapshot is None else snapshot
    return smallest(WANTED, fleet, kind_spec(kind), lambda one, other: place(one, other).placement)


@pytest.mark.parametrize(
    ("kind", "nodes"),
    [
        ("h200x8", 1),
        ("h200x8,fabric=ib-a", 1),
        ("h200x8,fabric=ib-new", 2),
        ("h200x8,fabric=none", None),
        ("h200x8,fabric=none,domain=rack-1", 2),
        ("h200x4,fabric=ib-a", None),
    ],
)
def test_a_replica_over_two_nodes_needs_as_many_new_ones_as_their_fabric_lacks(kind: str, nodes: int | None) -> None:
    assert asked(kind).nodes == nodes


def test_a_replica_over_old_and_new_nodes_names_their_ports_of_the_one_fabric() -> None:
    fleet, _said = with_nodes(WANTED, one_node(), nodes_spec("1xh200x8"))
    (assignment,) = place(WANTED, fleet).placement.assignments
    assert {member.node for member in assignment.members} == {"n1", "new-1"}
    assert {member.fabric for member in assignment.members} == {"ib-a"}
    assert {member.hcas for member in assignment.members} == {("mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1")}


def test_new_nodes_of_a_new_domain_are_joined_by_it() -> None:
    fleet, _said = with_nodes(WANTED, one_node(), nodes_spec("2xh200x8,domain=rack-1"))
    (assignment,) = place(WANTED, fleet).placement.assignments
    assert {(member.node, member.domain) for member in assignment.members} == {("new-1", "rack-1"), ("new-2", "rack-1")}

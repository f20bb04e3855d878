# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from llmgw.nodekit import contract
from tests.support.fleets import catalog
from tests.support.joined_machines import Machine
from tests.support.placement_fleets import H100, Site, cards_for, of


def dead_with_a_port_down(facts: contract.NodeFacts) -> contract.NodeFacts:
    first, second = facts.rdma_ports or ()
    units = tuple(
        replace(unit, active_state="failed", sub_state="failed", running_digest=None, main_pid=None)
        for unit in facts.units or ()
    )
    return replace(facts, units=units, rdma_ports=(replace(first, state="DOWN", active=False), second))


def test_a_replica_that_must_be_started_anyway_is_joined_by_what_works_now() -> None:
    site = Site(*(Machine(name, (H100,) * 4, fabric="ib-a") for name in ("n1", "n2")))
    wanted = catalog(of("wide", cards_for(4, nodes=2)))
    site.apply(wanted)
    (found,) = site.plan(wanted, site.seen(dead_with_a_port_down)).placement.assignments
    assert [member.hcas for member in found.members] == [("mlx5_1:1",), ("mlx5_1:1",)]

# SPDX-License-Identifier: Apache-2.0
"""MIG: exactly one instance a replica, named by its UUID (P6, C5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.nodekit import contract
from tests.support.fleets import catalog, profile
from tests.support.joined_machines import SLICE, Machine, fleet_of
from tests.support.placement_fleets import A100, Site, cards_for, changed, done, of, placed, sentences, where
from tests.unit.catalog.catalogs import HEAD, mistakes

CUT = Machine("n1", (SLICE, A100, SLICE))
"""Two cards with two instances each, and a whole one."""


def used(machine: Machine, replicas: int) -> list[tuple[str, ...]]:
    found = placed(catalog(of("small", cards_for(1, SLICE), replicas)), fleet_of(machine))
    return [tuple(map(str, one.leader.devices)) for one in found.assignments]


def test_a_replica_gets_exactly_one_instance_by_its_uuid() -> None:
    assert sorted(used(CUT, 4)) == [("MIG-n1-0-0",), ("MIG-n1-0-1",), ("MIG-n1-2-0",), ("MIG-n1-2-1",)]


def test_a_replica_without_an_instance_of_its_own_gets_none() -> None:
    found = placed(catalog(of("small", cards_for(1, SLICE), 5)), fleet_of(CUT))
    assert len(where(found)) == 4
    assert sentences(found, "n1") == [f"has 0 free of 4 {SLICE}, needs 1"]


def test_a_card_that_is_cut_serves_nobody_as_a_whole() -> None:
    found = placed(catalog(of("big", cards_for(1, A100), 3)), fleet_of(CUT))
    assert [one.leader.devices for one in found.assignments] == [("GPU-n1-1",)]


@pytest.mark.parametrize("field", ["gpus: 2", "tensor_parallel: 2", "pipeline_parallel: 2", "nodes: 2"])
def test_more_than_one_instance_is_refused_in_validation(field: str) -> None:
    fields = f"engine: vllm, model: small, devices: {SLICE}, {field}"
    text = f"{HEAD}profiles: {{p: {{{fields}}}}}\nservices: {{chat: {{profiles: p}}}}\n"
    (refused,) = mistakes(text)
    assert refused.why == f"`{field.partition(':')[0]}` is above one on `{SLICE}`: MIG instances cannot be joined"


def test_vllm_gets_no_instance_whose_number_it_takes_for_a_card_that_is_not_there() -> None:
    fleet = fleet_of(Machine("n1", (SLICE,)))
    found = placed(catalog(of("small", cards_for(1, SLICE), 2)), fleet)
    assert [one.leader.devices for one in found.assignments] == [("MIG-n1-0-0",)]
    (told,) = sentences(found, "n1")
    assert told.startswith(f"has 0 free of 2 {SLICE}, needs 1; vLLM takes the number of MIG instance 0/mig1")
    other = profile("p", "sim", (SLICE,), 1)
    assert len(where(placed(catalog(of("small", other, 2)), fleet))) == 2


def test_nodes_that_differ_in_the_numbers_of_their_instances_are_told_apart() -> None:
    fleet = fleet_of(Machine("n1", (SLICE,)), Machine("n2", (SLICE, A100)))
    found = placed(catalog(of("small", cards_for(1, SLICE), 4)), fleet)
    assert sorted(str(one.leader.devices[0]) for one in found.assignments) == ["MIG-n1-0-0", "MIG-n2-0-0", "MIG-n2-0-1"]


def test_an_instance_that_a_stranger_holds_takes_nothing_and_its_neighbour_serves() -> None:
    held = contract.Finding("foreign-memory", "block", "python (4711) holds 1200 MiB", subject="MIG-n1-0-0")
    fleet = Site(CUT).seen(lambda facts: replace(facts, findings=(held,)))
    found = placed(catalog(of("small", cards_for(1, SLICE), 4)), fleet)
    assert sorted(str(one.leader.devices[0]) for one in found.assignments) == ["MIG-n1-0-1", "MIG-n1-2-0", "MIG-n1-2-1"]
    told = f"has 0 free of 4 {SLICE}, needs 1; device 0/mig0 is out: python (4711) holds 1200 MiB"
    assert sentences(found, "n1") == [told]


def test_an_instance_that_is_sick_moves_its_own_replica_alone() -> None:
    site = Site(CUT)
    wanted = catalog(of("small", cards_for(1, SLICE), 2))
    (first, second) = site.apply(wanted).placement.assignments
    worn = contract.Finding("ecc-uncorrected", "block", "2 uncorrected errors", subject=str(first.leader.devices[0]))
    decision = site.plan(wanted, site.seen(lambda facts: replace(facts, findings=(worn,))))
    assert [replica for _, replica in changed(decision)] == [first.replica]
    (moved,) = [one for one in decision.placement.assignments if one.replica == first.replica]
    assert not {*first.leader.devices, *second.leader.devices} & set(moved.leader.devices)


def test_a_card_that_is_sick_moves_what_runs_on_all_its_instances() -> None:
    site = Site(Machine("n1", (SLICE, A100)), Machine("n2", (SLICE, A100)))
    wanted = catalog(of("small", cards_for(1, SLICE), 2), of("more", cards_for(1, SLICE), 1))
    site.apply(wanted)
    on_n1 = [replica for replica, nodes in where(placed(wanted, site.fleet)).items() if nodes == ("n1",)]
    worn = contract.Finding("xid-fatal", "block", "Xid 79", subject="GPU-n1-0")
    decision = site.plan(wanted, site.seen(lambda facts: replace(facts, findings=(worn,)), on="n1"))
    assert {replica for _, replica in changed(decision)} | {one.replica for one in decision.plan.unplaced} == set(on_n1)


def test_instances_that_were_cut_anew_are_other_devices() -> None:
    site = Site(CUT)
    wanted = catalog(of("small", cards_for(1, SLICE)))
    site.apply(wanted)
    decision = site.plan(wanted, site.seen(cut_anew))
    assert done(decision, "small/0").reasons[0] == "device MIG-n1-0-0 is gone from n1"


def cut_anew(facts: contract.NodeFacts) -> contract.NodeFacts:
    def again(gpu: contract.Gpu) -> contract.Gpu:
        instances = tuple(replace(one, uuid=f"{one.uuid}-new") for one in gpu.mig_instances)
        return replace(gpu, mig_instances=instances)

    return replace(facts, gpus=tuple(map(again, facts.gpus or ())))


def test_one_instance_is_preferred_or_not_as_the_profile_lists_it() -> None:
    either = profile("p", "vllm", (SLICE, A100), 1)
    found = placed(catalog(of("small", either, 5)), fleet_of(CUT))
    assert sorted(str(one.leader.devices[0])[:3] for one in found.assignments) == ["GPU", "MIG", "MIG", "MIG", "MIG"]

# SPDX-License-Identifier: Apache-2.0
"""What keeps a replica off a node, and by how much it fails (P1, P2, C5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.replica import FleetSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.joined_machines import SLICE, Machine, fleet_of
from tests.support.placement_fleets import A100, H100, L40S, cards_for, of, placed, sentences, told, where
from tests.unit.catalog.catalogs import HEAD, mistakes


def needing(memory_gb: float | None, **more: Any) -> Any:
    bytes_needed = None if memory_gb is None else int(memory_gb * GB)
    return profile(min_memory_bytes=bytes_needed, **more)


def with_profile(fields: str) -> str:
    return f"{HEAD}profiles: {{p: {{engine: vllm, model: small, {fields}}}}}\nservices: {{chat: {{profiles: p}}}}\n"


def test_a_node_of_8_gb_is_refused_for_a_working_set_of_24_gb() -> None:
    found = placed(catalog(service(replicas=1, profiles=(needing(24),))), fleet(node("n1", memory_gb=8)))
    (refused,) = told(found, "n1")
    assert refused.message == "has 8 GB of memory, needs 24"
    assert (refused.constraint, refused.has, refused.needs, refused.unit) == ("memory", 8 * GB, 24 * GB, "bytes")


def test_a_node_that_reports_no_memory_stays_usable() -> None:
    found = placed(catalog(service(replicas=3, profiles=(needing(24),))), fleet(node("n1", memory_gb=None)))
    assert len(where(found)) == 3


@pytest.mark.parametrize("memory_gb", [1, 64, None])
def test_a_profile_without_min_memory_fits_anywhere(memory_gb: int | None) -> None:
    found = placed(catalog(service(replicas=5, profiles=(needing(None),))), fleet(node("n1", memory_gb=memory_gb)))
    assert len(where(found)) == 5


def test_memory_that_was_promised_to_one_replica_is_not_promised_to_another() -> None:
    found = placed(catalog(service(replicas=3, profiles=(needing(24),))), fleet(node("n1", memory_gb=64)))
    assert len(where(found)) == 2
    assert sentences(found, "n1") == ["has 16 GB of memory left, needs 24"]


def test_memory_is_compared_in_bytes_and_not_as_it_is_shown() -> None:
    machine = node("n1", memory_gb=0)
    for total, fits in ((8 * GB - 1, 0), (8 * GB, 1)):
        facts = replace(machine.facts, memory=contract.Memory(total)) if machine.facts else None
        found = placed(catalog(service(replicas=1, profiles=(needing(8),))), fleet(replace(machine, facts=facts)))
        assert len(where(found)) == fits


def test_everything_that_fails_on_a_node_is_told_and_not_only_the_first() -> None:
    wanted = profile("p", "vllm", (H100,), 2, node_selector={"pool": "prod"}, min_memory_bytes=24 * GB)
    found = placed(catalog(service(replicas=1, profiles=(wanted,))), fleet(node("n1", gpus=1, memory_gb=8)))
    assert [one.constraint for one in told(found, "n1")] == ["labels", "engine", "class", "memory"]


def test_a_cordoned_node_takes_nothing_new() -> None:
    found = placed(catalog(service(replicas=2)), fleet(node("n1", cordoned=True), node("n2")))
    assert set(where(found).values()) == {("n2",)}
    alone = placed(catalog(service(replicas=1)), fleet(node("n1", cordoned=True)))
    assert sentences(alone, "n1") == ["n1 is cordoned"]


def test_a_label_that_is_missing_and_one_that_differs_are_told_apart() -> None:
    wanted = profile(node_selector={"pool": "prod"})
    fleet_now = fleet(node("n1"), node("n2", labels={"pool": "lab"}))
    found = placed(catalog(service(replicas=1, profiles=(wanted,))), fleet_now)
    assert sentences(found, "n1") == ["needs label pool=prod, has no such label"]
    assert sentences(found, "n2") == ["needs label pool=prod, has pool=lab"]


def test_a_card_that_a_stranger_holds_takes_nothing_and_is_named() -> None:
    machines = fleet_of(Machine("n1", (H100,) * 2, held=(0,)))
    found = placed(catalog(of("chat", cards_for(2))), machines)
    assert sentences(found, "n1") == ["has 1 free of 2 h100-80g, needs 2; device 0 is out: held"]
    one = placed(catalog(of("chat", cards_for(1))), machines)
    assert [member.devices for each in one.assignments for member in each.members] == [("GPU-n1-1",)]


def test_a_node_gives_no_more_ports_than_its_range_has() -> None:
    wanted = replace(catalog(service(replicas=3)), fleet=FleetSpec(port_range=(18000, 18001)))
    found = placed(wanted, fleet(node("n1")))
    assert sorted(one.leader.port for one in found.assignments) == [18000, 18001]
    assert sentences(found, "n1") == ["no port of the range is free"]


def test_a_port_on_which_somebody_listens_is_not_given() -> None:
    busy = contract.System(listening_ports=(22, 18000, 18001))
    found = placed(catalog(service(replicas=1)), fleet(node("n1", system=busy)))
    assert found.assignments[0].leader.port == 18002


def test_a_group_of_mixed_classes_is_refused_in_validation() -> None:
    (refused,) = mistakes(with_profile("devices: a100-80g+l40s-45g, gpus: 2"))
    assert "names 2 classes, and the devices of a replica are all of one" in refused.why


def test_a_group_of_mixed_classes_is_refused_in_placement_again() -> None:
    wanted = profile("p", "vllm", (A100, L40S), 2, tensor_parallel=2)
    found = placed(catalog(service(replicas=1, profiles=(wanted,))), fleet_of(Machine("n1", (A100, L40S))))
    (refused,) = told(found, "n1")
    assert (refused.constraint, refused.has, refused.needs) == ("devices", 1, 2)


def test_more_ranks_than_devices_are_refused_in_validation() -> None:
    (refused,) = mistakes(with_profile("devices: h100-80g, gpus: 2, tensor_parallel: 4"))
    assert refused.why == "tensor_parallel 4 x pipeline_parallel 1 is 4, but gpus 2 x nodes 1 is 2"


def test_more_ranks_than_devices_are_refused_in_placement_again() -> None:
    wanted = profile("p", "vllm", (H100,), 2, tensor_parallel=4)
    found = placed(catalog(service(replicas=1, profiles=(wanted,))), fleet_of(Machine("n1", (H100,) * 8)))
    assert where(found) == {}
    assert told(found, "n1")


def test_two_mig_instances_for_one_replica_are_refused_in_placement_again() -> None:
    wanted = profile("p", "vllm", (SLICE,), 2, tensor_parallel=2)
    found = placed(catalog(service(replicas=1, profiles=(wanted,))), fleet_of(Machine("n1", (SLICE,) * 2)))
    assert where(found) == {}
    assert told(found, "n1")


def test_amounts_that_differ_by_little_are_shown_with_what_tells_them_apart() -> None:
    machine = node("n1")
    facts = replace(machine.facts, memory=contract.Memory(7_970_000_000)) if machine.facts else None
    found = placed(catalog(service(replicas=1, profiles=(needing(8),))), fleet(replace(machine, facts=facts)))
    (sentence,) = sentences(found, "n1")
    assert sentence.startswith("has 7.97")

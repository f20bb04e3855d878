# SPDX-License-Identifier: Apache-2.0
"""A refresh in part keeps what it did not read, and nothing that another boot or driver told."""

from __future__ import annotations

from dataclasses import fields, replace

from llmgw.fleet import joining
from llmgw.fleet.joining import joined
from llmgw.nodekit import contract, parts

GB = 10**9
KEY = "boot-1 580.65.06"
TROUBLE = contract.Finding("weights-cut", "info", "there are more", part="weights")
OLD_HEAT = contract.Finding("throttled", "warn", "card 0 is slowed down", subject="GPU-a", part="gpus")
CARD = contract.Gpu(
    0, "GPU-a", temperature_c=60, numa_node=1, nvlink_peers=(contract.NvlinkPeer("GPU-b", 18),), nvlink_links=18
)
PORT = contract.RdmaPort("mlx5_0", 1, state="ACTIVE", lid=7, sm_guids=("0x01",), subnet_port_guids=("0x0a",))
BEFORE = contract.NodeFacts(
    collected_at=100.0,
    hardware_key=KEY,
    memory=contract.Memory(8 * GB, 4 * GB),
    cpu=contract.Cpu(model="some", sockets=2),
    gpus=(CARD,),
    rdma_ports=(PORT,),
    weights=(contract.Weights("m", "/m"),),
    engines=(contract.Engine("sim", ("/sim",)),),
    generation=4,
    findings=(TROUBLE, OLD_HEAT),
    probes=(contract.Probe("weights", 2.0, ok=True, at=99.0), contract.Probe("gpus", 1.0, ok=True, at=98.0)),
)
READ = contract.NodeFacts(
    collected_at=160.0,
    hardware_key=KEY,
    gathered=tuple(sorted(parts.VOLATILE)),
    memory=contract.Memory(8 * GB, 1 * GB),
    gpus=(contract.Gpu(0, "GPU-a", temperature_c=75),),
    rdma_ports=(contract.RdmaPort("mlx5_0", 1, state="DOWN", lid=7),),
    generation=5,
    probes=(contract.Probe("gpus", 0.2, ok=True, at=160.0),),
)


def test_what_was_read_is_new_and_what_was_not_stays() -> None:
    found = joined(BEFORE, READ)
    assert found.memory == READ.memory
    assert (found.cpu, found.weights, found.engines) == (BEFORE.cpu, BEFORE.weights, BEFORE.engines)
    assert (found.generation, found.collected_at, found.gathered) == (5, 160.0, None)


def test_marks_stay_as_known_until_the_state_directory_is_read_again() -> None:
    before = replace(
        BEFORE,
        cordoned=True,
        drained=True,
        cordon_mark=contract.NodeMark("ops@ctl1"),
        drain_mark=contract.NodeMark(reason="fan"),
        quarantined=(contract.QuarantinedDevice("GPU-a"),),
    )
    found = joined(before, replace(READ, gathered=("gpus",)))
    assert (found.cordoned, found.cordon_mark) == (True, before.cordon_mark)
    assert (found.drained, found.drain_mark) == (True, before.drain_mark)
    assert found.quarantined == before.quarantined
    now = joined(before, replace(READ, gathered=("state",), cordoned=False, drained=False, quarantined=()))
    assert (now.cordoned, now.drained, now.quarantined) == (False, False, ())
    assert (now.cordon_mark, now.drain_mark) == (None, None)


def test_a_card_read_anew_keeps_its_place_in_the_topology() -> None:
    assert joined(BEFORE, READ).gpus == (replace(CARD, temperature_c=75),)


def test_a_port_read_anew_keeps_what_was_seen_of_its_subnet() -> None:
    assert joined(BEFORE, READ).rdma_ports == (replace(PORT, state="DOWN"),)


def test_findings_and_times_go_with_their_part() -> None:
    found = joined(BEFORE, READ)
    assert found.findings == (TROUBLE,)
    assert [(one.name, one.at) for one in found.probes] == [("gpus", 160.0), ("weights", 99.0)]


def test_hardware_of_another_boot_or_driver_becomes_unknown() -> None:
    found = joined(BEFORE, replace(READ, hardware_key="boot-2 580.65.06"))
    assert (found.cpu, found.engines) == (None, None)
    assert found.weights == BEFORE.weights
    assert found.gpus is not None
    assert (found.gpus[0].numa_node, found.gpus[0].nvlink_peers) == (None, None)
    assert joined(replace(BEFORE, hardware_key=None), replace(READ, hardware_key=None)).cpu is None


def test_a_card_that_was_not_there_before_has_no_known_place() -> None:
    found = joined(BEFORE, replace(READ, gpus=(contract.Gpu(0, "GPU-new"),)))
    assert found.gpus == (contract.Gpu(0, "GPU-new"),)


def test_links_that_the_new_reading_saw_itself_are_not_overwritten() -> None:
    seen = contract.Gpu(0, "GPU-a", nvlink_peers=())
    found = joined(BEFORE, replace(READ, gpus=(seen,)))
    assert found.gpus is not None
    assert found.gpus[0].nvlink_peers == ()


def test_facts_read_whole_and_first_facts_are_taken_as_they_are() -> None:
    whole = replace(READ, gathered=None)
    assert joined(BEFORE, whole) is whole
    assert joined(None, READ) is READ


def test_every_fact_belongs_to_one_part() -> None:
    about_the_facts = {
        "contract_version",
        "module_version",
        "collected_at",
        "hardware_key",
        "gathered",
        "findings",
        "probes",
    }
    placed = [name for names in joining._FIELDS.values() for name in names]
    assert sorted(placed) == sorted({field.name for field in fields(contract.NodeFacts)} - about_the_facts)
    assert {*joining._FIELDS, *joining._OF_CARDS, *joining._OF_PORTS} == set(parts.ALL)

# SPDX-License-Identifier: Apache-2.0
"""Two looks at one host: what a saved plan survives, and what it does not (R9)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.fleet.hosts import Stored
from llmgw.model.ids import Digest
from llmgw.nodekit import contract
from llmgw.plan import steady
from llmgw.plan.codec import plan_inputs
from llmgw.plan.steady import parts
from tests.support.two_looks import in_another_order, otherwise, paths, whole

CARD = "name device_class pci_address compute_capability memory_total_mib unified_memory mig_mode vulkan_index"
INSTANCE = "uuid index gpu_instance_id compute_instance_id profile device_class memory_total_mib multiprocessors"
WEIGHTS = "model path layout revision size_bytes complete files tensor_bytes mount_point shared format repository refs"
UNIT = "name replica rank members profile model engine served_name address port devices enabled edited needs_reload"
UNIT += " process_digest running_digest text_digest actual_text_digest active_state sub_state"
DECISIVE: dict[str, tuple[str, ...]] = {
    "gpus.index": ("devices", "topology"),
    "gpus.uuid": ("devices", "topology", "NVLink"),
    **{f"gpus.{name}": ("devices",) for name in CARD.split()},
    **{f"gpus.mig_instances.{name}": ("devices",) for name in INSTANCE.split()},
    "findings.code": ("health", "weights"),
    "findings.severity": ("health",),
    "findings.subject": ("health",),
    "findings.part": ("weights",),
    **{f"gpus.{name}": ("topology",) for name in ("numa_node", "cpu_affinity", "memory_numa_node")},
    **{f"gpus.{name}": ("topology",) for name in ("nvlink_links", "nvlink_gbps", "nvlink_peers.*", "nic_paths.*")},
    "gpus.fabric.*": ("NVLink",),
    "driver.driver_version": ("driver",),
    "driver.cuda_version": ("driver",),
    "memory.total_bytes": ("memory",),
    **{f"filesystems.{name}": ("disks",) for name in ("mount_point", "source", "type", "shared", "read_only")},
    **{f"filesystems.{name}": ("disks",) for name in ("transport", "remote", "answers", "directories")},
    "rdma_ports.*": ("fabric ports",),
    "imex.*": ("IMEX",),
    **{f"weights.{name}": ("weights",) for name in WEIGHTS.split()},
    "weights.architecture.*": ("weights",),
    **{f"engines.{name}": ("engines",) for name in ("kind", "command", "version", "runnable")},
    "foreign_engines.name": ("other engines",),
    "foreign_engines.devices": ("other engines",),
    **{f"units.{name}": ("units",) for name in UNIT.split()},
    "cordoned": ("marks",),
    "drained": ("marks",),
    "quarantined.device": ("marks",),
    "quarantined.code": ("marks",),
    "generation": ("generation",),
    "system.boot_id": ("boot",),
    **{f"system.{name}": ("system",) for name in ("hostname", "systemd_version", "scope", "journal")},
    **{f"system.{name}": ("system",) for name in ("ephemeral_ports", "interfaces.name", "interfaces.addresses")},
    **{f"gateway.bundle.{name}": ("routes",) for name in ("path", "generation", "routes_digest")},
}
"""Fields, and the parts that each of them is told in."""
MOVING = """
contract_version module_version collected_at hardware_key gathered probes.* cpu.* applied_by applied_at
system.os system.os_version system.kernel system.architecture system.booted_at system.clock system.python_version
system.listening_ports system.interfaces.up system.interfaces.speed_mbps memory.available_bytes
driver.source driver.fallback_reason filesystems.total_bytes filesystems.free_bytes weights.missing
weights.missing_count engines.reason foreign_engines.pid findings.message findings.remedy findings.evidence
gpus.serial gpus.form_factor gpus.memory_used_mib gpus.memory_reserved_mib gpus.utilization_percent gpus.temperature_c
gpus.power_draw_w gpus.power_limit_w gpus.persistence_mode gpus.pcie_width gpus.pcie_width_max gpus.throttle_reasons
gpus.recovery_action gpus.ecc.* gpus.remap.* gpus.xids.* gpus.processes.* gpus.mig_pending gpus.nvlink_links_active
gpus.mig_instances.memory_used_mib gpus.mig_instances.processes.* gpus.mig_instances.ecc.*
rdma_ports.link_downed rdma_ports.symbol_errors
units.result units.since units.restarts units.main_pid units.memory_bytes units.memory_min_bytes units.ready
units.generation units.text units.memory_report.* units.state units.state_since units.deadline units.reason
units.progress cordon_mark.* drain_mark.* quarantined.message quarantined.since quarantined.by
gateway.reachable gateway.generation gateway.endpoints.* gateway.bundle.written_at
gateway.bundle.endpoints.*
"""
"""Fields that differ from look to look, or that no decision reads but by a finding or a part above."""


def moves(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in MOVING.split())


def told_in(path: str) -> tuple[str, ...]:
    if path in DECISIVE:
        return DECISIVE[path]
    return next((told for pattern, told in DECISIVE.items() if fnmatchcase(path, pattern)), ())


def digests(facts: contract.NodeFacts) -> dict[str, Digest]:
    return plan_inputs("", (), {"n1": Stored(facts)}).facts["n1"]


def test_of_every_field_of_the_facts_it_is_said_whether_it_ages_a_plan() -> None:
    unsaid = [path for path in paths() if not moves(path) and not told_in(path)]
    assert unsaid == []
    assert [pattern for pattern in MOVING.split() if not any(fnmatchcase(path, pattern) for path in paths())] == []
    assert [pattern for pattern in DECISIVE if not any(fnmatchcase(path, pattern) for path in paths())] == []


@given(st.sets(st.sampled_from([path for path in paths() if moves(path)]), min_size=1))
def test_two_looks_that_differ_in_what_always_moves_are_the_same(changed: set[str]) -> None:
    facts = whole()
    for path in sorted(changed):
        facts = otherwise(facts, path)
    assert facts != whole()
    assert digests(facts) == digests(whole())


@pytest.mark.parametrize("path", [path for path in paths() if not moves(path)])
def test_a_decisive_field_changes_exactly_its_part(path: str) -> None:
    before, after = digests(whole()), digests(otherwise(whole(), path))
    assert before.keys() == after.keys()
    assert {part for part in before if before[part] != after[part]} == set(told_in(path))


@given(st.sampled_from([path for path in paths() if not moves(path)]))
def test_the_order_in_which_facts_are_told_means_nothing(path: str) -> None:
    facts = otherwise(whole(), path)
    assert in_another_order(facts) != facts
    assert digests(in_another_order(facts)) == digests(facts)


def test_unknown_is_told_apart_from_none_there() -> None:
    known, unknown = contract.NodeFacts(gpus=(), units=(), weights=()), contract.NodeFacts()
    before, after = digests(known), digests(unknown)
    different = {part for part in before if before[part] != after[part]}
    assert different == {"devices", "topology", "NVLink", "units", "weights"}


def test_weights_that_are_coming_in_age_a_plan_when_they_are_complete() -> None:
    part = contract.Weights("m", "/m", size_bytes=5, complete=False, missing=("a",))
    more = contract.Weights("m", "/m", size_bytes=9, complete=False)
    done = contract.Weights("m", "/m", size_bytes=9, complete=True)
    first, second, third = (digests(contract.NodeFacts(weights=(one,))) for one in (part, more, done))
    assert first == second
    assert first["weights"] != third["weights"]


DEFECTS = {
    "a gauge counts": ("_CARD", attrgetter("index", "temperature_c"), "gpus.temperature_c"),
    "a decisive field is forgotten": ("_DISK", attrgetter("mount_point"), "filesystems.read_only"),
    "a field is told in another part": ("_PLACE", attrgetter("uuid", "index", "numa_node", "name"), "gpus.name"),
}


@pytest.mark.parametrize(("name", "reader", "path"), DEFECTS.values(), ids=DEFECTS)
def test_what_is_said_of_every_field_fails_on_a_seeded_defect(
    name: str, reader: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady, name, reader)
    before, after = digests(whole()), digests(otherwise(whole(), path))
    assert {part for part in before if before[part] != after[part]} != set(told_in(path))


def test_of_a_host_without_facts_only_is_known_whether_it_answers() -> None:
    assert parts(Stored()) == {"answers": True}
    assert parts(Stored(unreachable_since=5.0)) == {"answers": False}

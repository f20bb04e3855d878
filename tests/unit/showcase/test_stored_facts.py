# SPDX-License-Identifier: Apache-2.0
"""inventory/showcase/facts: made by tests/support/showcase, whole, small, and true at every time."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node as discovery
from llmgw.apply.inputs import Inputs, find_paths, read_inputs
from llmgw.fleet.document import fleet_document
from llmgw.fleet.facts import parse_facts
from llmgw.nodekit import contract
from tests.support import fake_pynvml_machine, golden, machines, topo_texts
from tests.support.fake_host import FakeHost
from tests.support.scenario_facts import as_json
from tests.support.showcase.files import FOLDER, facts_files
from tests.support.showcase.invented import HOUR, NOW
from tests.support.showcase.troubles import UNREAD

FACTS = FOLDER / "facts"
FILES = sorted(FACTS.glob("*.json"))


def test_the_stored_facts_are_those_that_are_made(*, update_golden: bool) -> None:
    """If this fails: python -m tests.support.showcase"""
    golden.compare(FACTS, facts_files(), update=update_golden)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_in_a_file_is_lost_in_reading(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert as_json(parse_facts(json.loads(text))) == text


def test_the_whole_folder_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_500_000


@pytest.mark.usefixtures("asked_once")
@pytest.mark.parametrize("now", [0.0, NOW + 1000 * 24 * HOUR])
def test_the_fleet_is_the_same_whenever_it_is_looked_at(inputs: Inputs, now: float) -> None:
    late = read_inputs(find_paths(FOLDER), now)
    assert fleet_document(late.fleet, full=True) == fleet_document(inputs.fleet, full=True)
    assert late.fleet.taken_at == NOW


def test_only_the_machine_that_was_read_long_ago_has_old_facts(inputs: Inputs) -> None:
    assert [node.name for node in inputs.fleet.nodes if node.stale] == ["l40s-6"]
    assert [node.name for node in inputs.fleet.nodes if node.facts is None] == sorted(UNREAD)
    assert [node.name for node in inputs.fleet.nodes if node.state.value == "unreachable"] == ["l40s-5"]


def test_every_kind_of_thing_is_there(inputs: Inputs) -> None:
    known = [node.facts for node in inputs.fleet.nodes if node.facts is not None]
    assert 40 <= len(inputs.fleet.nodes) <= 60
    assert {gpu.device_class for facts in known for gpu in facts.gpus or ()} >= {
        "a100-80g",
        "gb200-186g",
        "h100-80g",
        "h200-141g",
        "l40s-45g",
    }
    assert {one.complete for facts in known for one in facts.weights or ()} == {True, False}
    assert {one.shared for facts in known for one in facts.filesystems or ()} == {True, False}
    assert any(facts.weights is None for facts in known)
    assert all(node.labels.keys() == {"rack", "pool", "zone"} for node in inputs.fleet.nodes)


def test_findings_have_a_remedy_and_the_part_that_found_them(inputs: Inputs) -> None:
    found = [one for node in inputs.fleet.nodes for one in (node.facts.findings if node.facts else ())]
    codes = {one.code for one in found}
    assert codes >= {"xid-fatal", "gpu-lost", "remap-pending", "foreign-memory", "storage-nearly-full", "throttled"}
    assert codes >= {"ecc-uncorrected", "imex-down", "fabric-not-joined", "mig-empty"}
    assert [one.code for one in found if one.part is None] == []


def test_units_hold_devices_that_are_there_and_processes_that_are_theirs(inputs: Inputs) -> None:
    for node in inputs.fleet.nodes:
        facts = node.facts
        if facts is None or node.stale:
            continue
        held = {uuid for unit in facts.units or () if unit.active_state == "active" for uuid in unit.devices}
        working = {uuid for uuid, process in _processes(facts) if process.unit is not None}
        assert working == held, node.name


def _processes(facts: contract.NodeFacts) -> list[tuple[str | None, contract.DeviceProcess]]:
    whole = [(gpu.uuid, one) for gpu in facts.gpus or () for one in gpu.processes or ()]
    return whole + [
        (instance.uuid, one)
        for gpu in facts.gpus or ()
        for instance in gpu.mig_instances
        for one in instance.processes or ()
    ]


@pytest.mark.parametrize(
    ("described", "node", "index"),
    [(machines.HGX_H100, "h100-a4", 7), (machines.L40S, "l40s-3", 3), (machines.A100_MIG, "a100-mig-2", 0)],
    ids=["hgx", "pcie", "mig"],
)
def test_cards_tell_what_discovery_tells_of_such_cards(
    inputs: Inputs, described: machines.Described, node: str, index: int
) -> None:
    commands = dict(fake_pynvml_machine.commands(described.machine))
    commands["nvidia-smi topo -m"] = topo_texts.printed(described.box) if described.box else ""
    host = FakeHost({"/proc/driver/nvidia/version": "", "/dev/nvidiactl": ""}, commands=commands)
    found = (discovery.collect(host, discovery.Options()).gpus or ())[0]
    facts = next(one for one in inputs.fleet.nodes if one.name == node).facts
    stored = (facts.gpus or ())[index] if facts else found
    assert _told(found) - _told(stored) - {"nic_paths"} == set()
    for instance in found.mig_instances:
        assert _told(instance) == _told(stored.mig_instances[0])


def _told(part: contract.Gpu | contract.MigInstance) -> set[str]:
    return {one.name for one in fields(part) if getattr(part, one.name) is not None}


def test_a_machine_that_does_not_answer_was_read_before_it_was_first_tried_in_vain(inputs: Inputs) -> None:
    away = [node for node in inputs.fleet.nodes if node.unreachable_since is not None]
    assert away
    for node in away:
        assert node.facts is not None
        assert node.facts.collected_at is not None
        assert node.facts.collected_at < (node.unreachable_since or 0.0)
        assert all(probe.at is not None and probe.at < (node.unreachable_since or 0.0) for probe in node.facts.probes)

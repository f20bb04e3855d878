# SPDX-License-Identifier: Apache-2.0
"""Facts that older and newer modules wrote are still read (D15, Q6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmgw.fleet.devices import devices_of
from llmgw.fleet.facts import parse_facts

STORED = sorted((Path(__file__).parents[2] / "fixtures/facts").glob("contract-*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_facts_of_an_older_contract_are_read_with_all_they_say(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    facts = parse_facts(document)
    assert facts.contract_version == document["contract_version"]
    assert [device.device_class for device in devices_of(facts) or ()] == ["h100-80g", "h100-80g-mig-3g.40gb"]
    assert facts.units is not None
    assert facts.units[0].running_digest == document["units"][0]["running_digest"]
    assert facts.filesystems is not None
    assert {one.mount_point: one.shared for one in facts.filesystems} == {"/": False, "/models": True}


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_what_an_older_contract_lacks_is_unknown(path: Path) -> None:
    facts = parse_facts(json.loads(path.read_text(encoding="utf-8")))
    assert facts.hardware_key is None
    assert facts.gpus is not None
    assert facts.gpus[0].memory_reserved_mib is None
    assert {probe.at for probe in facts.probes} == {None}


def test_facts_of_a_newer_contract_are_read_as_far_as_they_are_known() -> None:
    document: dict[str, Any] = json.loads(STORED[-1].read_text(encoding="utf-8"))
    document |= {"contract_version": 99, "quantum": {"qubits": 3}}
    document["gpus"][0]["flux_capacitor"] = True
    facts = parse_facts(document)
    assert facts.contract_version == 99
    assert len(facts.gpus or ()) == 2

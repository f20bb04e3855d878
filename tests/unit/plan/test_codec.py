# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from llmgw.decide import decide
from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import Host, Stored
from llmgw.nodekit import contract
from llmgw.plan.codec import load_plan, plan_document, plan_inputs, plan_summary
from tests.support.fleets import catalog, facts, fleet, node, service
from tests.support.world import World, observe

HOSTS = (Host("n1", node=True, gateway=False, variables={"llmgw_labels": {"rack": "a"}}),)
CARD = contract.Gpu(0, "GPU-0", device_class="a100-80g", mig_mode=False, memory_used_mib=1)
SLICE = contract.MigInstance("MIG-0", 0, device_class="a100-80g-mig-1g.10gb")
DECISION = decide(catalog(service(replicas=1)), fleet(node("n1")))
KNOWN = replace(facts("n1"), gpus=(CARD,), units=(observe(DECISION.units[0]),))


def test_a_plan_comes_back_whole_from_its_json() -> None:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(catalog(service(replicas=3)))
    plan = decide(catalog(service(replicas=1), service("new", 99)), world.fleet).plan
    assert load_plan(json.dumps(plan_document(plan)).encode()) == plan


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"\xff", b'{"format_version": 1}', b"[" * 10_000])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError):
        load_plan(data)


def test_the_summary_is_json_and_holds_no_unit_texts() -> None:
    summary = plan_summary(DECISION.plan)
    assert json.loads(json.dumps(summary)) == summary
    assert summary["waves"] == ["start chat/0"]
    assert "ExecStart" not in json.dumps(summary)


def digest(stored: Stored) -> str:
    return json.dumps(plan_inputs("sha256:c", HOSTS, {"n1": stored}).facts["n1"])


SAME: list[tuple[str, Callable[[contract.NodeFacts], contract.NodeFacts]]] = [
    ("the time", lambda known: replace(known, collected_at=5.0)),
    ("used memory", lambda known: replace(known, gpus=(replace(CARD, memory_used_mib=99, utilization_percent=3),))),
    ("free memory", lambda known: replace(known, memory=replace(known.memory or contract.Memory(), available_bytes=1))),
    ("how long probes took", lambda known: replace(known, probes=(contract.Probe("gpu", 1.0, ok=True),))),
    ("a warning", lambda known: replace(known, findings=(contract.Finding("hot", "warn", "88 C"),))),
]
OTHER: list[tuple[str, Callable[[contract.NodeFacts], contract.NodeFacts]]] = [
    ("a card is gone", lambda known: replace(known, gpus=())),
    ("a card was cut", lambda known: replace(known, gpus=(replace(CARD, mig_mode=True, mig_instances=(SLICE,)),))),
    ("a card is bad", lambda known: replace(known, findings=(contract.Finding("ecc", "block", "x", subject="GPU-0"),))),
    ("more memory", lambda known: replace(known, memory=contract.Memory(1))),
    ("another engine", lambda known: replace(known, engines=())),
    ("a unit is gone", lambda known: replace(known, units=())),
    ("a unit failed", lambda known: replace(known, units=(replace((known.units or ())[0], active_state="failed"),))),
    ("a reboot", lambda known: replace(known, system=contract.System(boot_id="c"))),
    ("a drain on the node", lambda known: replace(known, drained=True)),
]


@pytest.mark.parametrize(("_what", "change"), SAME, ids=[case[0] for case in SAME])
def test_what_changes_from_look_to_look_ages_no_plan(
    _what: str, change: Callable[[contract.NodeFacts], contract.NodeFacts]
) -> None:
    assert digest(Stored(change(KNOWN))) == digest(Stored(KNOWN))


@pytest.mark.parametrize(("_what", "change"), OTHER, ids=[case[0] for case in OTHER])
def test_what_placement_goes_by_ages_a_plan(
    _what: str, change: Callable[[contract.NodeFacts], contract.NodeFacts]
) -> None:
    assert digest(Stored(change(KNOWN))) != digest(Stored(KNOWN))


def test_a_node_that_stops_answering_ages_a_plan() -> None:
    states = [Stored(KNOWN), Stored(KNOWN, None, 5.0), Stored(), Stored(None, None, 5.0)]
    assert len({digest(one) for one in states}) == len(states)
    assert digest(Stored(KNOWN, LlmgwError("facts-broken", "x"))) == digest(Stored(KNOWN))


def test_catalog_and_inventory_have_digests_of_their_own() -> None:
    def inputs(hosts: tuple[Host, ...] = HOSTS, wanted: str = "sha256:c") -> Any:
        return plan_inputs(wanted, hosts, {})

    assert inputs() == inputs()
    assert inputs(wanted="sha256:d").catalog != inputs().catalog
    for other in ((), (replace(HOSTS[0], gateway=True),), (replace(HOSTS[0], variables={"llmgw_cordoned": True}),)):
        assert inputs(other).inventory != inputs().inventory

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

from llmgw.fleet.document import fleet_document
from llmgw.model.node import NodeState
from llmgw.nodekit import contract
from tests.support.fleets import catalog, facts, fleet, node, service, with_facts
from tests.support.world import World

MIG = contract.MigInstance("MIG-1", 1, device_class="h200-141g-mig-1g.18gb", memory_total_mib=16384, memory_used_mib=7)
CARDS = (
    contract.Gpu(0, "GPU-0", device_class="h200-141g", memory_total_mib=143771, memory_used_mib=12),
    contract.Gpu(1, "GPU-1", mig_mode=True, mig_instances=(MIG,)),
    contract.Gpu(2, "GPU-2", device_class="h200-141g"),
)


def test_everything_unknown_is_null_and_nothing_is_zero() -> None:
    unseen = replace(node("n1", state=NodeState.UNSEEN), facts=None, devices=None)
    (entry,) = fleet_document(fleet(unseen))["nodes"]
    assert entry == {
        "name": "n1",
        "state": "unseen",
        "address": unseen.address,
        "labels": {},
        "cordoned": False,
        "drained": False,
        "memory_total_bytes": None,
        "memory_available_bytes": None,
        "devices": None,
        "filesystems": None,
        "units": None,
        "facts_age_s": None,
        "findings": [],
    }


def test_what_was_looked_for_and_not_found_is_an_empty_list() -> None:
    (entry,) = fleet_document(fleet(node("n1")))["nodes"]
    assert (entry["devices"], entry["units"], entry["filesystems"]) == ([], [], [])
    assert entry["memory_total_bytes"] == 64 * 10**9
    assert entry["memory_available_bytes"] is None


def test_devices_are_counted_as_they_can_be_placed_on_with_their_own_memory() -> None:
    blocked = contract.Finding("ecc", "block", "worn", subject="GPU-2")
    one = with_facts(node("n1"), replace(facts("n1"), gpus=CARDS, findings=(blocked,)))
    (entry,) = fleet_document(fleet(one))["nodes"]
    assert [(device["name"], device["class"], device["memory_used_mib"]) for device in entry["devices"]] == [
        ("0", "h200-141g", 12),
        ("2", "h200-141g", None),
        ("1/mig1", "h200-141g-mig-1g.18gb", 7),
    ]
    assert [device["blocked_by"] for device in entry["devices"]] == [[], ["ecc"], []]


def test_it_is_json_with_a_version_and_holds_no_unit_text() -> None:
    world = World(fleet(node("n1"), node("n2")))
    world.apply(catalog(service(replicas=2)))
    document = fleet_document(world.fleet)
    assert document["format_version"] == 1
    assert [one["name"] for one in document["nodes"]] == ["n1", "n2"]
    assert document["nodes"][0]["units"] == [
        {"name": "llmgw-chat.0.0.service", "replica": "chat/0", "state": "active", "port": 18000}
    ]
    assert "ExecStart" not in json.dumps(document)

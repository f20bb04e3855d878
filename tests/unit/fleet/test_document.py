# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

from llmgw.fleet.document import fleet_document
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import NodeState
from llmgw.nodekit import contract
from tests.support.fabric_fleets import UUID, by_pci, ib, imex, linked, tray
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
        "unplaceable": None,
        "filesystems": None,
        "ports": None,
        "ports_unknown": None,
        "domain": None,
        "units": None,
        "facts_age_s": None,
        "oldest_age_s": None,
        "stale": False,
        "unreachable_since": None,
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


def test_every_card_is_there_with_what_keeps_it_out() -> None:
    taken = contract.Finding("foreign-memory", "block", "a stranger", "Stop it.", "GPU-2", ("process 9",))
    lost = contract.Gpu(3, None, pci_address="0000:15:00.0")
    known = replace(facts("n1"), gpus=(*CARDS, lost), findings=(taken,))
    one = replace(with_facts(node("n1"), known), findings=known.findings)
    (entry,) = fleet_document(fleet(one))["nodes"]
    assert [device["kept_away_by"] for device in entry["devices"]] == [[], ["foreign-memory"], []]
    assert entry["unplaceable"] == [
        {
            "name": "3",
            "class": None,
            "uuid": None,
            "pci_address": "0000:15:00.0",
            "blocked_by": [],
            "why": "it has no UUID",
        }
    ]
    assert entry["findings"] == [
        {"code": "foreign-memory", "severity": "block", "message": "a stranger", "subject": "GPU-2"}
    ]


def test_the_full_document_has_holders_remedies_and_evidence_which_gateways_do_not_need() -> None:
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", "chat/0", devices=("GPU-0",))
    worn = contract.Finding("ecc", "block", "worn", "Reset it.", "GPU-2", ("seen twice",))
    known = replace(facts("n1"), gpus=CARDS, findings=(worn,), units=(unit,))
    one = replace(with_facts(node("n1"), known), findings=known.findings)
    (plain,) = fleet_document(fleet(one))["nodes"]
    (whole,) = fleet_document(fleet(one), full=True)["nodes"]
    assert [device["held_by"] for device in whole["devices"]] == ["chat/0", None, None]
    assert (whole["findings"][0]["remedy"], whole["findings"][0]["evidence"]) == ("Reset it.", ["seen twice"])
    assert "held_by" not in plain["devices"][0]
    assert "remedy" not in plain["findings"][0]


def test_ports_whose_state_is_unknown_are_counted() -> None:
    ports = (ib(1, active=None, state=None), ib(2, 1, active=False), ib(3, 2))
    host = Host("n1", node=True, gateway=False)
    snapshot = build_snapshot([host], {"n1": Stored(replace(facts("n1"), rdma_ports=ports))}, View(1000.0))
    (entry,) = fleet_document(snapshot)["nodes"]
    assert (len(entry["ports"]), entry["ports_unknown"]) == (1, 1)


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


def test_fabrics_and_domains_are_told_once_and_their_nodes_say_where_they_are() -> None:
    declared = {"llmgw_fabrics": {"ib-a": by_pci(1)}}
    hosts = [
        Host(name, node=True, gateway=False, variables=declared | {"llmgw_address": name}) for name in ("n1", "n2")
    ]
    manager = ("0x00000000000000aa",)
    stored = {
        name: Stored(
            replace(
                facts(name),
                **tray(linked(), linked(state="In Progress") if name == "n2" else linked(), imex=imex("n1", "n2")),
                rdma_ports=(ib(number, sm_guids=manager), ib(10 + number, 1, active=False)),
            )
        )
        for number, name in enumerate(("n1", "n2"), 1)
    }
    document = fleet_document(build_snapshot(hosts, stored, View(1000.0)))
    assert document["fabrics"] == [
        {
            "name": "ib-a",
            "kind": "infiniband",
            "declared": True,
            "rails": "joined",
            "verdict": "confirmed",
            "nodes": [{"name": name, "ports": 1, "verdict": "confirmed"} for name in ("n1", "n2")],
            "fingerprint": ["0x00000000000000aa"],
            "notes": [],
        }
    ]
    name = f"{UUID[:8]}.2"
    assert document["domains"] == [
        {"name": name, "cluster_uuid": UUID, "clique_id": 2, "nodes": ["n1", "n2"], "ready": ["n1"]}
    ]
    first, second = document["nodes"]
    assert [(port["name"], port["fabric"], port["verdict"]) for port in first["ports"]] == [
        ("mlx5_0:1", "ib-a", "confirmed"),
    ]
    assert (first["domain"]["name"], first["domain"]["ready"], first["domain"]["kept_out"]) == (name, True, [])
    assert [(one["domain"]["joined"], one["domain"]["cards"]) for one in (first, second)] == [(2, 2), (1, 2)]
    assert [device["joined"] for device in second["devices"]] == [True, False]
    json.dumps(document)


def test_marks_are_in_the_full_document_alone_with_what_is_known_of_them() -> None:
    known = replace(
        facts("n1"),
        cordoned=True,
        drained=False,
        cordon_mark=contract.NodeMark("ops@ctl1", 5.0, "fan"),
        quarantined=(contract.QuarantinedDevice("GPU-a", "gpu-lost", "gone", 7.0),),
    )
    one = with_facts(node("n1"), known)
    assert "marks" not in fleet_document(fleet(one))["nodes"][0]
    assert fleet_document(fleet(one), full=True)["nodes"][0]["marks"] == {
        "cordoned": {"by": "ops@ctl1", "at": 5.0, "reason": "fan"},
        "drained": None,
        "quarantined": [{"device": "GPU-a", "code": "gpu-lost", "message": "gone", "since": 7.0, "by": None}],
    }
    unmarked = with_facts(node("n1"), replace(known, cordoned=None, quarantined=None))
    nothing = {"cordoned": None, "drained": None, "quarantined": None}
    assert fleet_document(fleet(unmarked), full=True)["nodes"][0]["marks"] == nothing

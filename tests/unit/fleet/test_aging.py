# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from llmgw.decide import decide
from llmgw.fleet import aging
from llmgw.fleet.aging import LIMITS, aged, forgotten, old_findings
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import FleetSnapshot
from llmgw.model.plan import ActionKind
from llmgw.nodekit import contract
from tests.support.fabric_fleets import ib, imex, linked
from tests.support.fleets import catalog, facts, profile, service
from tests.support.world import World

NOW = 1_000_000.0
CARD = contract.Gpu(
    0,
    "GPU-n1-0",
    device_class="h200-141g",
    memory_total_mib=143771,
    memory_used_mib=7,
    utilization_percent=50,
    temperature_c=60,
    power_draw_w=400.0,
    throttle_reasons=("sw_power_cap",),
    recovery_action="None",
    processes=(),
    numa_node=1,
    nvlink_peers=(),
    fabric=linked(),
    mig_instances=(contract.MigInstance("MIG-0", 0, memory_total_mib=1, memory_used_mib=1, processes=()),),
)
KNOWN = replace(
    facts("n1"),
    collected_at=NOW,
    memory=contract.Memory(64, 32),
    gpus=(CARD,),
    imex=imex("10.0.0.1"),
    rdma_ports=(ib(1, sm_guids=("0x00000000000000aa",), subnet_port_guids=(), subnet_digest="d", switch_guid="0x1"),),
    filesystems=(contract.Filesystem("/", total_bytes=100, free_bytes=40, answers=True),),
    weights=(contract.Weights("org/m", "/srv/m", complete=True),),
    gateway=contract.GatewayFacts(reachable=True, endpoints=(contract.EndpointHealth("chat/0@n1", "failed"),)),
)
READ: dict[str, Callable[[contract.NodeFacts], Any]] = {
    "gauges": lambda facts: (gpu(facts).utilization_percent, gpu(facts).temperature_c, gpu(facts).power_draw_w),
    "available memory": lambda facts: facts.memory and facts.memory.available_bytes,
    "NVLink state": lambda facts: gpu(facts).fabric,
    "IMEX state": lambda facts: facts.imex,
    "port state": lambda facts: (port(facts).state, port(facts).active, port(facts).lid, port(facts).sm_lid),
    "gateway's word": lambda facts: facts.gateway and facts.gateway.reachable,
    "health of cards": lambda facts: (gpu(facts).recovery_action, gpu(facts).processes),
    "free space": lambda facts: facts.filesystems and facts.filesystems[0].free_bytes,
    "subnets": lambda facts: (port(facts).sm_guids, port(facts).subnet_port_guids, port(facts).subnet_digest),
}


def gpu(known: contract.NodeFacts) -> contract.Gpu:
    return (known.gpus or ())[0]


def port(known: contract.NodeFacts) -> contract.RdmaPort:
    return (known.rdma_ports or ())[0]


def nothing(value: Any) -> bool:
    return all(one is None for one in value) if isinstance(value, tuple) else value is None


def test_every_kind_that_has_a_limit_is_looked_at_here() -> None:
    assert [limit.kind for limit in LIMITS] == list(READ)
    assert [limit.seconds for limit in LIMITS] == sorted(limit.seconds for limit in LIMITS)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.kind)
def test_a_kind_is_known_up_to_its_limit_and_unknown_beyond(limit: aging.Limit) -> None:
    read = READ[limit.kind]
    assert read(aged(KNOWN, NOW + limit.seconds)) == read(KNOWN)
    assert not nothing(read(KNOWN))
    assert nothing(read(aged(KNOWN, NOW + limit.seconds + 1)))
    assert limit.kind in forgotten(KNOWN, NOW + limit.seconds + 1)
    assert limit.kind not in forgotten(KNOWN, NOW + limit.seconds)


def test_every_field_that_is_forgotten_is_one_of_the_contract() -> None:
    kinds = {
        "": contract.NodeFacts,
        "memory": contract.Memory,
        "gpus": contract.Gpu,
        "mig_instances": contract.MigInstance,
        "rdma_ports": contract.RdmaPort,
        "filesystems": contract.Filesystem,
        "gateway": contract.GatewayFacts,
    }
    for limit in LIMITS:
        for place, names in limit.forgets.items():
            assert set(names) <= {field.name for field in fields(kinds[place])}


def test_facts_that_are_forgotten_are_still_in_what_was_read() -> None:
    before = repr(KNOWN)
    assert aged(KNOWN, NOW + 10**8) != KNOWN
    assert repr(KNOWN) == before


def test_a_node_without_cards_ports_or_filesystems_has_nothing_to_forget() -> None:
    for known in (contract.NodeFacts(collected_at=NOW), replace(facts("n1"), collected_at=NOW, rdma_ports=())):
        later = replace(known, memory=None)
        assert aged(later, NOW + 10**8) == later
        assert forgotten(later, NOW + 10**8) == ()


def test_what_changes_only_by_hand_stays_however_old_it_is() -> None:
    old = aged(KNOWN, NOW + 10**8)
    assert (old.units, old.weights, old.engines, old.system) == (
        KNOWN.units,
        KNOWN.weights,
        KNOWN.engines,
        KNOWN.system,
    )
    assert (gpu(old).uuid, gpu(old).memory_total_mib, gpu(old).numa_node, gpu(old).nvlink_peers) == (
        "GPU-n1-0",
        143771,
        1,
        (),
    )
    assert gpu(old).mig_instances == (contract.MigInstance("MIG-0", 0, memory_total_mib=1),)
    assert (port(old).port_guid, port(old).gids, port(old).pci_address) == (
        port(KNOWN).port_guid,
        port(KNOWN).gids,
        port(KNOWN).pci_address,
    )
    assert old.memory == contract.Memory(64)
    assert (old.filesystems or ())[0].total_bytes == 100


def test_a_part_that_a_refresh_left_out_has_the_age_of_its_own_time() -> None:
    probes = (contract.Probe("storage", 0.1, ok=True, at=NOW - 7200), contract.Probe("gpus", 0.1, ok=True))
    known = aged(replace(KNOWN, probes=probes), NOW + 10)
    assert (known.filesystems or ())[0].free_bytes is None
    assert gpu(known) == CARD


def test_facts_from_a_clock_ahead_and_facts_without_a_time_are_believed() -> None:
    assert aged(replace(KNOWN, collected_at=NOW + 999), NOW) == replace(KNOWN, collected_at=NOW + 999)
    timeless = replace(KNOWN, collected_at=None)
    assert aged(timeless, NOW) == timeless
    assert old_findings(timeless, NOW) == frozenset()


def test_what_a_node_never_told_is_not_called_forgotten() -> None:
    assert forgotten(replace(facts("n1"), collected_at=NOW), NOW + 10**8) == ()


def test_a_finding_has_the_age_of_the_part_that_found_it() -> None:
    card = contract.Finding("ecc-uncorrected", "block", "2 errors", subject="GPU-n1-0")
    log = contract.Finding("xid-79", "block", "gone", subject="GPU-n1-0", part="xids")
    probes = (contract.Probe("xids", 0.1, ok=True, at=NOW - 3601), contract.Probe("gpus", 0.1, ok=True, at=NOW - 3600))
    assert old_findings(replace(KNOWN, findings=(card, log), probes=probes), NOW) == frozenset({log})


HOST = Host("n1", node=True, gateway=False)
SPARE = Host("n2", node=True, gateway=False)
CATALOG = catalog(service(replicas=1, profiles=(profile(classes=("h200-141g",), gpus=1),)))


def running() -> FleetSnapshot:
    """A replica runs on the one card of n1, and n2 has a card to spare."""
    stored = {name: Stored(replace(facts(name, gpus=1), collected_at=NOW)) for name in ("n1",)}
    world = World(build_snapshot([HOST], stored, View(NOW)))
    world.apply(CATALOG)
    return world.fleet


def moved(finding_age_s: float) -> list[ActionKind]:
    """What the planner does when the card of n1 has had a blocking finding for so long, and nobody looked again."""
    (node,) = running().nodes
    assert node.facts is not None
    bad = contract.Finding("ecc-uncorrected", "block", "2 errors", subject="GPU-n1-0")
    known = replace(node.facts, findings=(bad,), collected_at=NOW - finding_age_s)
    stored = {"n1": Stored(known), "n2": Stored(replace(facts("n2", gpus=1), collected_at=NOW))}
    decision = decide(CATALOG, build_snapshot([HOST, SPARE], stored, View(NOW)))
    return [action.kind for action in decision.plan.actions]


def test_a_bad_card_moves_its_replica_while_that_is_known_and_not_when_it_was_long_ago() -> None:
    assert moved(60) == [ActionKind.MOVE]
    assert moved(3600) == [ActionKind.MOVE]
    assert moved(3601) == [ActionKind.KEEP]
    assert moved(10**7) == [ActionKind.KEEP]


def gone(card_age_s: float) -> list[ActionKind]:
    """What the planner does when the cards were read so long ago, and the one in use was not among them."""
    (node,) = running().nodes
    assert node.facts is not None
    probes = (contract.Probe("gpus", 0.1, ok=True, at=NOW - card_age_s),)
    stored = {
        "n1": Stored(replace(node.facts, gpus=(), probes=probes)),
        "n2": Stored(replace(facts("n2", gpus=1), collected_at=NOW)),
    }
    decision = decide(CATALOG, build_snapshot([HOST, SPARE], stored, View(NOW)))
    return [action.kind for action in decision.plan.actions]


def test_a_card_that_was_missing_long_ago_moves_nothing() -> None:
    assert gone(60) == [ActionKind.MOVE]
    assert gone(3601) == [ActionKind.KEEP]


def test_cards_that_cannot_be_read_move_and_restart_nothing() -> None:
    (node,) = running().nodes
    assert node.facts is not None
    blind = Stored(replace(node.facts, gpus=None))
    decision = decide(CATALOG, build_snapshot([HOST], {"n1": blind}, View(NOW)))
    assert [action.kind for action in decision.plan.actions] == [ActionKind.KEEP]


def test_an_old_bad_card_takes_nothing_new() -> None:
    bad = contract.Finding("ecc-uncorrected", "block", "2 errors", subject="GPU-n1-0")
    stored = {"n1": Stored(replace(facts("n1", gpus=1), findings=(bad,), collected_at=NOW - 10**6))}
    decision = decide(CATALOG, build_snapshot([HOST], stored, View(NOW)))
    assert decision.placement.assignments == ()
    assert "device 0 is out: 2 errors" in decision.plan.unplaced[0].rejections[0].message


def test_a_plan_made_from_yesterdays_facts_is_the_plan_of_yesterday() -> None:
    hosts = [HOST, SPARE]
    stored = {
        name: Stored(replace(KNOWN, gpus=facts(name, gpus=2).gpus, collected_at=NOW - 86400)) for name in ("n1", "n2")
    }
    wanted = catalog(service(replicas=3, profiles=(profile(classes=("h200-141g",), gpus=1, min_memory_bytes=10),)))
    fresh = decide(wanted, build_snapshot(hosts, stored, View(NOW - 86400)))
    late = decide(wanted, build_snapshot(hosts, stored, View(NOW)))
    assert fresh.placement == late.placement
    assert fresh.units == late.units


def test_what_a_gateway_said_long_ago_makes_no_node_lost() -> None:
    hosts = [HOST, Host("gw", node=False, gateway=True)]

    def state(age_s: float) -> str:
        word = replace(facts("gw"), collected_at=NOW - age_s, gateway=KNOWN.gateway)
        away = Stored(replace(facts("n1"), collected_at=NOW - 1000), None, NOW - 900, "no route to host", NOW)
        return build_snapshot(hosts, {"n1": away, "gw": Stored(word)}, View(NOW)).nodes[0].state.value

    assert (state(60), state(901)) == ("lost", "unreachable")

# SPDX-License-Identifier: Apache-2.0
"""What runs and still fits stays: what only keeps new replicas away, and what moves those that run (P1b, P8).

One fleet runs a replica of every kind. Whatever happens to what only admits, the next plan is empty: nothing moves, and
nothing restarts either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import ActionKind, Publish
from llmgw.model.replica import Catalog, ServiceSpec
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci
from tests.support.fleets import GB, catalog, model
from tests.support.joined_machines import ADAPTERS, SLICE, Machine
from tests.support.placement_fleets import (
    EIGHT,
    GB200,
    H100,
    RACK_A,
    SOCKETS,
    Look,
    Site,
    cards_for,
    changed,
    done,
    of,
    where,
    with_cards,
)

DISK = (contract.Filesystem("/", free_bytes=500 * GB),)
WEIGHTS = (contract.Weights("smol", "/srv/models/smol.gguf", layout="gguf", complete=True, mount_point="/"),)
LABELS = {"pool": "prod", "rack": "a"}
PICKY: dict[str, Any] = {
    "node_selector": {"pool": "prod"},
    "min_memory_bytes": 24 * GB,
    "min_free_disk_bytes": 100 * GB,
}
CATALOG = catalog(
    of("rack", cards_for(4, GB200, nodes=2, **PICKY)),
    of("wide", cards_for(4, nodes=2, **PICKY)),
    of("pair", cards_for(2, **PICKY), 2, spread="rack"),
    of("slice", cards_for(1, SLICE)),
)
Change = Callable[[Site], FleetSnapshot]


@pytest.fixture(scope="module")
def site() -> Site:
    """Everything of the catalog runs on as many nodes as it needs; others are free."""
    tray = Machine("", (GB200,) * 4, fabric="ib-a", domain=RACK_A, memory_gb=256, labels=LABELS)
    box = Machine("", (H100,) * 8, SOCKETS, (EIGHT,), "ib-a", memory_gb=256, labels=LABELS)
    machines = [
        *(replace(tray, name=name) for name in ("t1", "t2", "t3")),
        *(replace(box, name=name) for name in ("n1", "n2", "n3")),
        Machine("m1", (SLICE,), labels=LABELS),
    ]
    made = Site(*machines)
    made.world.fleet = made.seen(lambda facts: replace(facts, filesystems=DISK, weights=WEIGHTS))
    assert made.apply(CATALOG).plan.unplaced == ()
    return made


def look(edit: Look, on: str | None = None) -> Change:
    return lambda site: site.seen(edit, on=on)


def variables(**values: Any) -> Change:
    return lambda site: site.seen(variables=values)


def fabric_state(state: str) -> Look:
    unjoined = contract.GpuFabric(state, None, RACK_A, 2)
    return lambda facts: with_cards(facts, lambda gpu: replace(gpu, fabric=unjoined) if gpu.fabric else gpu)


def ports(**changes: Any) -> Look:
    return lambda facts: replace(facts, rdma_ports=tuple(replace(one, **changes) for one in facts.rdma_ports or ()))


def first_port(**changes: Any) -> Look:
    def edit(facts: contract.NodeFacts) -> contract.NodeFacts:
        known = facts.rdma_ports or ()
        return replace(facts, rdma_ports=tuple(replace(one, **changes) if one in known[:1] else one for one in known))

    return edit


def imex(**changes: Any) -> Look:
    return lambda facts: replace(facts, imex=replace(facts.imex, **changes) if facts.imex else None)


def engines(**changes: Any) -> Look:
    return lambda facts: replace(facts, engines=tuple(replace(one, **changes) for one in facts.engines or ()))


def filesystem(**changes: Any) -> Look:
    return lambda facts: replace(facts, filesystems=tuple(replace(one, **changes) for one in facts.filesystems or ()))


def on_every_card(code: str, severity: str = "block") -> Look:
    def edit(facts: contract.NodeFacts) -> contract.NodeFacts:
        cards = facts.gpus or ()
        subjects = [gpu.uuid for gpu in cards] + [one.uuid for gpu in cards for one in gpu.mig_instances]
        return replace(facts, findings=tuple(contract.Finding(code, severity, "so", subject=one) for one in subjects))

    return edit


def card(**changes: Any) -> Look:
    return lambda facts: with_cards(facts, lambda gpu: replace(gpu, **changes))


ADMISSION_ONLY: dict[str, Change] = {
    "the fabric manager restarts and every card drops out": look(fabric_state("In Progress")),
    "the fabric state is not known": look(card(fabric=None)),
    "IMEX is down": look(imex(domain_state="DOWN")),
    "IMEX is not known": look(lambda facts: replace(facts, imex=None)),
    "IMEX lists nobody": look(imex(nodes=())),
    "every port is down": look(ports(state="DOWN", active=False)),
    "one port is down": look(first_port(state="DOWN", active=False)),
    "ports are not known": look(lambda facts: replace(facts, rdma_ports=None)),
    "the adapters are gone": look(lambda facts: replace(facts, rdma_ports=())),
    "one node is in another subnet": look(ports(sm_guids=("0x5000ee0000000001",)), on="n2"),
    "nobody declares the fabric any more": variables(llmgw_fabrics={}),
    "the fabric is declared by another name": variables(llmgw_fabrics={"ib-z": by_pci(ADAPTERS)}),
    "the disk is full": look(filesystem(free_bytes=0)),
    "the disk hangs": look(filesystem(answers=False)),
    "the disk is read-only": look(filesystem(read_only=True)),
    "disks are not known": look(lambda facts: replace(facts, filesystems=None)),
    "the weights are gone": look(lambda facts: replace(facts, weights=())),
    "the weights are half there": look(lambda facts: replace(facts, weights=(replace(WEIGHTS[0], complete=False),))),
    "the memory is less": look(lambda facts: replace(facts, memory=contract.Memory(8 * GB))),
    "the memory is not known": look(lambda facts: replace(facts, memory=None)),
    "a label that is selected changes": variables(llmgw_labels={"pool": "lab", "rack": "a"}),
    "the label it is spread over is gone": variables(llmgw_labels={"pool": "prod"}),
    "facts are an hour old": lambda site: site.seen(later_s=3_700.0),
    "facts are a month old": lambda site: site.seen(later_s=30 * 86_400.0),
    "cards throttle": look(card(throttle_reasons=("hw_thermal_slowdown",), temperature_c=95)),
    "throttling is a finding": look(on_every_card("thermal-slowdown", "warn")),
    "strangers hold memory": look(on_every_card("foreign-memory")),
    "bad rows wait for a reset": look(on_every_card("remap-pending")),
    "a finding that takes cards out is old": lambda site: site.seen(on_every_card("xid-fatal"), later_s=4_000.0),
    "what joins cards is not known": look(card(nvlink_peers=None, numa_node=None, nic_paths=None)),
    "cards are joined otherwise": look(card(nvlink_peers=(), numa_node=3)),
    "the cards are not known": look(lambda facts: replace(facts, gpus=None)),
    "the memory of cards is not known": look(card(memory_total_mib=None)),
    "the engine does not run": look(engines(runnable=False)),
    "the version of the engine is not known": look(engines(version=None)),
    "the driver offers an older CUDA": look(
        lambda facts: replace(facts, driver=contract.GpuDriver("nvml", None, "470.1", "11.4"))
    ),
    "somebody listens on every port": look(
        lambda facts: replace(facts, system=contract.System(listening_ports=tuple(range(18000, 19000))))
    ),
    "the nodes are cordoned": variables(llmgw_cordoned=True),
    "interfaces are not known": look(lambda facts: replace(facts, system=None)),
}


@pytest.mark.parametrize("change", ADMISSION_ONLY.values(), ids=ADMISSION_ONLY.keys())
def test_what_only_admits_moves_nothing_and_restarts_nothing(change: Change, site: Site) -> None:
    before = {(unit.node, unit.name): unit.process_digest for unit in site.plan(CATALOG).units}
    assert len(before) == 7
    decision = site.plan(CATALOG, change(site))
    assert changed(decision) == []
    assert {type(step) for wave in decision.plan.waves for step in wave.steps} <= {Publish}
    assert {(unit.node, unit.name): unit.process_digest for unit in decision.units} == before


@pytest.mark.parametrize(
    "state", [NodeState.UNREACHABLE, NodeState.FROZEN], ids=["it does not answer", "it is left alone"]
)
def test_a_node_that_cannot_be_asked_moves_nothing(state: NodeState, site: Site) -> None:
    away = replace(site.fleet, nodes=tuple(replace(node, state=state) for node in site.fleet.nodes))
    assert changed(site.plan(CATALOG, away)) == []


def test_a_node_whose_units_cannot_be_read_moves_nothing(site: Site) -> None:
    blind = site.seen(lambda facts: replace(facts, units=None, generation=1), on="n2")
    decision = site.plan(CATALOG, blind)
    assert changed(decision) == []
    assert [(one.replica, one.held is not None) for one in decision.plan.unplaced] == [("pair/1", True)]


def new(*, device_class: str = H100, nodes: int = 1) -> ServiceSpec:
    wanted = cards_for(1, device_class, nodes=nodes, model=model("other"), **PICKY)
    return of("new", wanted)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("the fabric manager restarts and every card drops out", new(device_class=GB200)),
        ("every port is down", new(nodes=2)),
        ("nobody declares the fabric any more", new(nodes=2)),
        ("the disk is full", new()),
        ("the memory is less", new()),
        ("a label that is selected changes", new()),
        ("strangers hold memory", new()),
        ("bad rows wait for a reset", new()),
        ("the cards are not known", new()),
        ("the engine does not run", new()),
        ("the driver offers an older CUDA", new()),
        ("somebody listens on every port", new()),
        ("the nodes are cordoned", new()),
    ],
)
def test_what_only_admits_does_keep_new_replicas_away(name: str, wanted: ServiceSpec, site: Site) -> None:
    grown = replace(CATALOG, services=(*CATALOG.services, wanted))
    assert site.plan(grown).plan.unplaced == ()
    decision = site.plan(grown, ADMISSION_ONLY[name](site))
    assert [one.replica for one in decision.plan.unplaced] == ["new/0"]
    assert changed(decision) == []


EVICTING: dict[str, tuple[Change, str]] = {
    "a card is out of order": (look(on_every_card("xid-fatal"), "m1"), "device 0/mig0 of m1: so"),
    "a card is gone": (look(lambda facts: replace(facts, gpus=()), "m1"), "device MIG-m1-0-0 is gone from m1"),
    "the node is drained": (lambda site: site.seen(on="m1", variables={"llmgw_drained": True}), "m1 is drained"),
    "the node is lost": (lambda site: site.seen(on="m1", variables={"llmgw_lost": True}), "m1 is lost"),
}


@pytest.mark.parametrize(("change", "reason"), EVICTING.values(), ids=EVICTING.keys())
def test_what_evicts_moves_what_is_concerned_and_nothing_else(change: Change, reason: str) -> None:
    three = Site(*(Machine(name, (SLICE,)) for name in ("m1", "m2", "m3")))
    wanted = catalog(of("slice", cards_for(1, SLICE), 2, spread="node"))
    three.apply(wanted)
    assert where(three.plan(wanted).placement) == {"slice/0": ("m1",), "slice/1": ("m2",)}
    decision = three.plan(wanted, change(three))
    assert changed(decision) == [("move", "slice/0")]
    assert done(decision, "slice/0").reasons[0] == reason


def with_profile(name: str, **changes: Any) -> Catalog:
    services = []
    for one in CATALOG.services:
        if one.name == name:
            services.append(replace(one, profiles=tuple(replace(profile, **changes) for profile in one.profiles)))
        else:
            services.append(one)
    return replace(CATALOG, services=tuple(services))


@pytest.mark.parametrize(
    "changes",
    [{"devices": (GB200,)}, {"gpus": 4, "tensor_parallel": 4}, {"gpus": 1, "tensor_parallel": 1}],
    ids=["another class", "more cards", "fewer cards"],
)
def test_a_catalog_that_makes_a_place_invalid_replaces_what_runs_there(changes: dict[str, Any], site: Site) -> None:
    decision = site.plan(with_profile("pair", **changes))
    touched = {one.replica for one in decision.plan.unplaced} | {replica for _, replica in changed(decision)}
    assert touched == {"pair/0", "pair/1"}


def test_a_catalog_that_changes_how_an_engine_is_started_restarts_it_where_it_is(site: Site) -> None:
    decision = site.plan(with_profile("pair", args=("--seed", "7")))
    assert changed(decision) == [("update", "pair/0"), ("update", "pair/1")]


def test_running_the_planner_on_its_own_result_changes_nothing(site: Site) -> None:
    for fleet in (site.fleet, site.seen()):
        decision = site.plan(CATALOG, fleet)
        assert decision.plan.waves == ()
        assert {action.kind for action in decision.plan.actions} == {ActionKind.KEEP}


@pytest.mark.parametrize("victim", ["n1", "n2", "n3", "t1", "t2", "t3", "m1"])
def test_losing_a_node_moves_only_its_replicas(victim: str, site: Site) -> None:
    decision = site.plan(CATALOG, site.seen(on=victim, variables={"llmgw_lost": True}))
    there = [one for one, nodes in where(site.plan(CATALOG).placement).items() if victim in nodes]
    touched = {replica for _, replica in changed(decision)} | {one.replica for one in decision.plan.unplaced}
    assert touched == set(there)
    assert decision.plan.moves == sum(action.kind is ActionKind.MOVE for action in decision.plan.actions)


def test_a_better_place_that_appears_moves_nothing() -> None:
    site = Site(Machine("n1", (H100,) * 4, held=(0, 1)), Machine("n2", (H100,) * 4, SOCKETS[2:6], ((0, 1, 2, 3),)))
    wanted = catalog(of("pair", cards_for(2)))
    site.world.state("n2", NodeState.UNREACHABLE)
    site.apply(wanted)
    site.world.state("n2", NodeState.OK)
    assert where(site.plan(wanted).placement) == {"pair/0": ("n1",)}
    assert changed(site.plan(wanted)) == []


def test_a_cordon_keeps_new_replicas_away_and_a_drain_moves_those_that_run() -> None:
    site = Site(*(Machine(name, (H100,) * 2) for name in ("n1", "n2", "n3")))
    wanted, more = (catalog(of("pair", cards_for(2), replicas)) for replicas in (1, 2))
    site.apply(wanted)
    cordoned = site.seen(on="n1", variables={"llmgw_cordoned": True})
    assert changed(site.plan(wanted, cordoned)) == []
    assert where(site.plan(more, cordoned).placement) == {"pair/0": ("n1",), "pair/1": ("n2",)}
    decision = site.plan(wanted, site.seen(on="n1", variables={"llmgw_drained": True}))
    assert changed(decision) == [("move", "pair/0")]
    assert done(decision, "pair/0").reasons == ("n1 is drained",)

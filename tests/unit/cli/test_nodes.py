# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.cli.facts_text import node_lines
from llmgw.cli.nodes_text import Sort, domain_cell, fabrics_cell, fleet_lines
from llmgw.fleet.fabrics import judge
from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import FleetSnapshot, Node
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fabric_fleets import OTHER_UUID, by_pci, declared, ib, imex, linked, roce, tray
from tests.support.fleet_directory import HOSTS, Called, FleetDirectory
from tests.support.fleets import facts, fleet, node, with_facts

Call = Callable[..., Called]
GB = 10**9
NOW = 50_000.0
SM: dict[str, Any] = {"sm_guids": ("0x506b4b0300ca0001",)}
SHARED = contract.Filesystem(
    "/mnt/models", "filer:/models", "nfs4", total_bytes=9000 * GB, free_bytes=7000 * GB, shared=True
)
LOCAL = contract.Filesystem("/", type="ext4", total_bytes=100 * GB, free_bytes=40 * GB, shared=False)
UNIT = contract.ObservedUnit("llmgw-chat.0.0.service", "chat/0", devices=("GPU-a1-0",), active_state="active")
BAD = contract.Finding(
    "ecc-uncorrected", "block", "card 1 had 2 uncorrected memory errors", "Reset the card.", "GPU-a1-1", ("seen twice",)
)
HOT = contract.Finding("throttled", "warn", "card 0 is slowed down")


def whole_fleet() -> FleetSnapshot:
    """Cards that are held and bad, MIG, two trays of which one is not joined, a fabric with a wrong port, a CPU host,
    and hosts that were never seen or do not answer.
    """
    instance = contract.MigInstance("MIG-1", 3, device_class="a100-80g-mig-3g.40gb", memory_total_mib=40192)
    split = contract.Gpu(0, "GPU-m", device_class="a100-80g", mig_mode=True, mig_instances=(instance,))
    trays = {
        f"t{number}": replace(
            facts(f"t{number}"),
            **tray(linked(), linked(state="In Progress") if number == 2 else linked(), imex=imex("t1", "t2")),
            collected_at=NOW - 40,
        )
        for number in (1, 2)
    }
    known = {
        "a1": replace(
            facts("a1", gpus=4),
            units=(UNIT,),
            findings=(HOT, BAD),
            memory=contract.Memory(2000 * GB, 1500 * GB),
            filesystems=(LOCAL, SHARED),
            rdma_ports=(ib(1, **SM), ib(2, 1, **SM), ib(3, 2, switch_management=True)),
        ),
        "a2": replace(facts("a2"), gpus=(split,), filesystems=(SHARED,), rdma_ports=(ib(4, **SM), ib(5, 1, lid=2))),
        "c1": replace(facts("c1"), memory=None, rdma_ports=()),
        "away": facts("away", gpus=1),
        **trays,
    }
    hosts = [
        Host(name, node=True, gateway=False, variables={"llmgw_fabrics": {"ib-a": by_pci(2)}})
        for name in (*known, "new")
    ]
    hosts[2] = replace(hosts[2], variables={"llmgw_cordoned": True})
    stored = {name: Stored(replace(one, collected_at=NOW - 30)) for name, one in known.items()}
    stored["away"] = replace(
        stored["away"], unreachable_since=NOW - 9, unreachable_last=NOW, unreachable_reason="silent"
    )
    return build_snapshot(hosts, stored, View(NOW))


def full_node() -> Node:
    """A node that reports everything that there is to report."""
    card = contract.Gpu(
        0,
        "GPU-a1-0",
        device_class="h200-141g",
        memory_total_mib=143771,
        memory_used_mib=70000,
        utilization_percent=60,
        temperature_c=55,
        power_draw_w=300.4,
        power_limit_w=700.0,
        throttle_reasons=("sw_thermal_slowdown",),
        ecc=contract.Ecc(uncorrected_aggregate=1),
        remap=contract.Remap(corrected_rows=2),
        numa_node=1,
        cpu_affinity="48-95",
        nvlink_peers=(contract.NvlinkPeer("GPU-a1-1", 18), contract.NvlinkPeer("GPU-a1-2", 18)),
        nic_paths=(
            contract.NicPath("mlx5_1", "SYS"),
            contract.NicPath("mlx5_0", "PIX"),
            contract.NicPath("mlx5_2", "PIX"),
        ),
        fabric=linked(),
    )
    others = tuple(replace(one, fabric=linked()) for one in facts("a1", gpus=3).gpus or ())[1:]
    known = replace(
        facts("full"),
        collected_at=NOW - 30,
        gpus=(card, *others),
        driver=contract.GpuDriver("nvidia-smi", "pynvml is not installed", "570.1", "12.8"),
        units=(UNIT,),
        findings=(HOT, BAD),
        filesystems=(LOCAL, replace(SHARED, answers=False)),
        weights=(
            contract.Weights(
                "org/m",
                "/srv/m",
                revision="0123456789abcdef",
                complete=False,
                missing=("b.safetensors",),
                missing_count=3,
            ),
        ),
        rdma_ports=(ib(1, numa_node=1, **SM), ib(3, 2, switch_management=True)),
        imex=imex("full", "a2"),
        foreign_engines=(contract.ForeignEngine(99, "ollama"),),
        probes=(
            contract.Probe("weights", 1.0, ok=True, at=NOW - 7230),
            contract.Probe("xids", 1.0, ok=False, detail="PermissionError: /dev/kmsg"),
        ),
    )
    host = Host(
        "full",
        node=True,
        gateway=False,
        variables={"llmgw_fabrics": {"ib-a": by_pci(1)}, "llmgw_labels": {"rack": "7"}},
    )
    (one,) = build_snapshot([host], {"full": Stored(known)}, View(NOW)).nodes
    return one


def rows(fleet: FleetSnapshot, **more: Any) -> dict[str, str]:
    return {line.split()[0]: line for line in fleet_lines(fleet, **more) if line and not line.startswith(" ")}


def test_the_fleet_and_a_node_look_as_they_did(*, update_golden: bool) -> None:
    """What the table, its narrow form and the page of a node show, is in `nodes/`; review it when it changes."""
    snapshot = whole_fleet()
    produced = {
        "table.txt": fleet_lines(snapshot),
        "table-100-columns.txt": fleet_lines(snapshot, width=100),
        **{f"node-{one.name}.txt": node_lines(one.name, one.facts, one, NOW) for one in (*snapshot.nodes, full_node())},
    }
    golden.compare(
        Path(__file__).parent / "nodes",
        {name: "\n".join(lines) + "\n" for name, lines in produced.items()},
        update=update_golden,
    )


def test_a_fleet_without_cards_fabrics_or_shares_is_only_its_table() -> None:
    assert len(fleet_lines(fleet(node("n1"), node("n2")))) == 3


@pytest.mark.parametrize("width", [100, 120, 200])
def test_the_table_fits_the_terminal_and_nothing_is_cut(width: int) -> None:
    whole, narrow = fleet_lines(whole_fleet()), fleet_lines(whole_fleet(), width=width)
    assert max(map(len, narrow)) <= max(width, 115)
    assert sorted(" ".join(narrow).split()) == sorted(" ".join(whole).split())


@pytest.mark.parametrize(
    ("sort", "first"), [(Sort.NAME, "a1"), (Sort.FREE, "a1"), (Sort.FINDINGS, "a1"), (Sort.AGE, "new")]
)
def test_rows_come_in_the_order_that_was_asked_for(sort: Sort, first: str) -> None:
    names = [line.split()[0] for line in fleet_lines(whole_fleet(), sort)[1:8]]
    assert names[0] == first
    expected = {
        Sort.NAME: ["a1", "a2", "away", "c1", "new", "t1", "t2"],
        Sort.FREE: ["a1", "t1", "a2", "t2", "away", "c1", "new"],
        Sort.FINDINGS: ["a1", "a2", "away", "t2", "c1", "new", "t1"],
        Sort.AGE: ["new", "a1", "a2", "away", "c1", "t1", "t2"],
    }
    assert names == expected[sort]


def test_a_machine_whose_cards_share_its_memory_says_so() -> None:
    spark = contract.Gpu(0, "GPU-s", device_class="gb10-unified", unified_memory=True)
    one = with_facts(node("s1"), replace(facts("s1"), gpus=(spark,), memory=contract.Memory(128 * GB, 100 * GB)))
    assert "100/128 GB unified" in rows(fleet(one))["s1"]


def test_units_that_are_unknown_make_what_is_free_unknown() -> None:
    blind = with_facts(node("n1"), replace(facts("n1", gpus=2), units=None))
    lines = fleet_lines(fleet(blind))
    assert "  2 x h200-141g  " in lines[1]
    assert lines[-1].split() == ["h200-141g", "2", "-", "-", "0"]


def test_ports_are_counted_by_fabric_verdict_and_rate() -> None:
    nodes: dict[str, tuple[contract.RdmaPort, ...] | None] = {
        "n1": (
            ib(1, **SM),
            ib(2, 1, rate_gbps=200.0, **SM),
            ib(3, 2, rate_gbps=None),
            roce("10.8.0.1", 3),
            ib(5, 4, active=False),
        ),
        "n2": (ib(4, **SM),),
        "n3": (),
    }
    found = judge(nodes, declared(["n1", "n2"], ib_a=by_pci(2)))
    assert fabrics_cell(found.ports["n1"]) == (
        "ib-a 1x400+1x200 confirmed, infiniband 1x- undeclared, roce 1x200 undeclared"
    )
    assert fabrics_cell(found.ports["n3"]) == "none"
    assert fabrics_cell(None) == "-"


@pytest.mark.parametrize(
    ("cards", "shown"),
    [
        ((linked("00000000-0000-0000-0000-000000000000", 0),), "none"),
        ((None,), "-"),
        ((contract.GpuFabric(),), "-"),
        ((linked(), linked(OTHER_UUID)), "! broken"),
        ((), "none"),
    ],
)
def test_a_node_in_no_domain_is_told_from_one_of_which_nothing_is_known(cards: Any, shown: str) -> None:
    assert domain_cell(with_facts(node("n1"), replace(facts("n1"), **tray(*cards)))) == shown


def test_a_page_is_no_wider_than_a_hundred_columns_and_has_the_worst_first() -> None:
    one = full_node()
    lines = node_lines("full", one.facts, one, NOW)
    assert max(map(len, lines)) <= 100
    worst = [line.split()[0] for line in lines if line.startswith(("  block", "  warn", "  info"))]
    assert worst == ["block", "warn"]


def test_a_machine_alone_shows_what_it_knows_of_its_ports_and_its_domain() -> None:
    known = replace(
        facts("n1"), **tray(linked(), linked(state="In Progress")), rdma_ports=(ib(1), ib(2, 1, virtual_function=True))
    )
    shown = "\n".join(node_lines("this machine", known))
    assert "5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003.2: 1 of 2 cards joined" in shown
    assert "port      mlx5_0:1 InfiniBand, active, 400 Gb/s, LID 1, 0000:10:00.0\n" in shown
    assert "mlx5_1:1 InfiniBand, active, 400 Gb/s, LID 2, 0000:11:00.0: not for engines, it is a" in shown


def test_a_node_of_which_nothing_is_known_says_so() -> None:
    snapshot = whole_fleet()
    new, away = snapshot.node("new"), snapshot.node("away")
    assert new is not None
    assert away is not None
    assert node_lines("new", None, new, NOW) == [
        "new",
        "  state     unseen: nothing is known of it; `llmgw facts refresh` looks",
        "  address   new",
        "  facts     none stored",
    ]
    assert node_lines("away", away.facts, away, NOW)[1].startswith("  state     unreachable: it does not answer")


def test_a_card_that_somebody_else_uses_is_out() -> None:
    taken = contract.Finding("foreign-memory", "block", "a stranger is on it", subject="GPU-n1-0")
    shown = node_lines("n1", replace(facts("n1", gpus=2), findings=(taken,)))
    assert [line.partition("GPU-n1-")[2] for line in shown if "GPU-n1-" in line] == [
        "0  OUT: a stranger is on it",
        "1",
    ]


def test_a_long_card_line_of_mig_and_lost_cards_is_still_a_card() -> None:
    instance = contract.MigInstance(
        "MIG-1", 3, device_class="a100-80g-mig-3g.40gb", memory_total_mib=40192, memory_used_mib=9
    )
    nameless = contract.MigInstance(None, 4)
    cards = (
        contract.Gpu(
            0, "GPU-m", device_class="a100-80g", mig_mode=True, mig_instances=(instance, nameless), temperature_c=40
        ),
        contract.Gpu(1, None, pci_address="0000:9a:00.0"),
    )
    shown = "\n".join(node_lines("n1", replace(facts("n1"), gpus=cards)))
    for part in (
        "    0        a100-80g                     MIG mode, GPU-m\n             40 C\n",
        "    0/mig3   a100-80g-mig-3g.40gb         40192 MiB  MIG-1\n             9 MiB used\n",
        "    0/mig4   -                            cannot be placed on\n",
        "    1        -                            cannot be placed on, 0000:9a:00.0",
    ):
        assert part in shown, part


def test_the_command_shows_the_table_and_each_node_that_is_named(directory: FleetDirectory, llmgw: Call) -> None:
    directory.store("n1", facts("n1", gpus=2))
    directory.hosts(HOSTS.replace("n2: {", "n2: {llmgw_drained: true, "))
    called = llmgw("nodes", "-i", directory.path)
    assert (called.status, called.err) == (0, "")
    head, first, second, *_ = called.out.splitlines()
    assert head.split() == ["NODE", "STATE", "DEVICES", "MEM", "DISK", "FABRICS", "DOMAIN", "FINDINGS", "AGE"]
    assert first.startswith("n1    ok          2 x h200-141g (2 free)")
    assert second.startswith("n2    ok,drained  none")
    full = llmgw("nodes", "n2", "n1", "n2", "-i", directory.path)
    assert [block.splitlines()[0] for block in full.out.split("\n\n")] == ["n2", "n1"]


def test_the_command_counts_nodes_as_lost_that_are_declared_so(directory: FleetDirectory, llmgw: Call) -> None:
    assert "n2    lost" in llmgw("nodes", "--lost", "n2", "-i", directory.path).out


def test_json_has_the_fleet_and_the_numbers_by_class(directory: FleetDirectory, llmgw: Call) -> None:
    directory.store("n1", facts("n1", gpus=2))
    document = json.loads(llmgw("nodes", "--json", "-i", directory.path).out)
    assert document["format_version"] == 1
    assert [one["name"] for one in document["nodes"]] == ["n1", "n2"]
    assert document["classes"] == {"h200-141g": {"total": 2, "held": 0, "free": 2, "out": 0}}
    assert (document["fabrics"], document["domains"]) == ([], [])
    some = json.loads(llmgw("nodes", "n2", "--json", "-i", directory.path).out)
    assert [one["name"] for one in some["nodes"]] == ["n2"]


def test_a_node_that_the_inventory_lacks_is_an_error_that_names_some_that_it_has(
    directory: FleetDirectory, llmgw: Call
) -> None:
    for called in (llmgw("nodes", "n9", "-i", directory.path), llmgw("nodes", "--lost", "n9", "-i", directory.path)):
        assert (called.status, called.out) == (1, "")
        assert called.err == "llmgw: the inventory has no node n9 [unknown-host]\n    fix: it has n1, n2\n"


def test_a_fabric_that_makes_no_sense_ends_the_command_with_every_mistake(
    directory: FleetDirectory, llmgw: Call
) -> None:
    wrong = "llmgw_fabrics: {ib-a: {kind: ib}, ib-b: {kind: roce}}, "
    directory.hosts(HOSTS.replace("n1: {", "n1: {" + wrong))
    called = llmgw("nodes", "-i", directory.path)
    assert called.status == 1
    assert called.err.count("[inventory-value]") == 2
    assert "llmgw_fabrics of n1: ib-a.kind is 'ib'" in called.err


def test_unreadable_facts_are_told_on_stderr_and_the_table_is_shown(directory: FleetDirectory, llmgw: Call) -> None:
    (directory.facts / "n1.json").write_text("{")
    called = llmgw("nodes", "-i", directory.path)
    assert called.status == 0
    assert "n1.json: the facts are not whole JSON" in called.err
    assert called.out.splitlines()[1].split()[:2] == ["n1", "unseen"]


def test_the_width_of_the_terminal_counts_only_where_there_is_one(
    directory: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tuple(contract.Gpu(n, f"GPU-{n}", device_class=f"class-{n}-80g") for n in range(9))
    directory.store("n1", replace(facts("n1"), gpus=many))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(llmgw("nodes", "-i", directory.path).out.splitlines()[1]) > 200
    monkeypatch.setenv("COLUMNS", "100")
    assert max(map(len, llmgw("nodes", "-i", directory.path).out.splitlines())) <= 100

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.cli import facts as facts_command
from llmgw.cli.facts_text import devices_cell, disk_cell, memory_cell, node_lines
from llmgw.cli.nodes_text import fleet_lines
from llmgw.fleet.facts import parse_facts
from llmgw.model.node import NodeState
from llmgw.nodekit import contract
from tests.support.fleet_directory import HOSTS, Called, FleetDirectory
from tests.support.fleets import facts, fleet, node, with_facts

Call = Callable[..., Called]
GB = 10**9
LOCAL = contract.Filesystem("/", type="ext4", total_bytes=100 * GB, free_bytes=40 * GB, shared=False)
SHARED = contract.Filesystem("/mnt", type="nfs4", total_bytes=9000 * GB, free_bytes=9000 * GB, shared=True)


def test_all_nodes_are_a_table(directory: FleetDirectory, llmgw: Call) -> None:
    directory.store("n1", facts("n1", gpus=2))
    directory.hosts(HOSTS.replace("n2: {", "n2: {llmgw_cordoned: true, "))
    called = llmgw("facts", "show", "-i", directory.path)
    assert (called.status, called.err) == (0, "")
    ages = re.compile(r"\b\d+s\b")  # the second one is told a moment later
    assert ages.sub("", called.out) == ages.sub("", llmgw("nodes", "-i", directory.path).out)
    head, first, second = called.out.splitlines()[:3]
    assert head.split()[:4] == ["NODE", "STATE", "DEVICES", "MEM"]
    assert first.startswith("n1    ok           2 x h200-141g (2 free)  -/64 GB")
    assert second.startswith("n2    ok,cordoned  none")


def test_one_node_is_shown_in_full(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("facts", "show", "n1", "-i", directory.path)
    assert called.status == 0
    assert called.out.startswith("n1\n  state     ok\n")
    assert "  system    - -, kernel -, systemd -\n" in called.out


def test_facts_as_json_are_as_they_are_stored(directory: FleetDirectory, llmgw: Call) -> None:
    document = json.loads(llmgw("facts", "show", "--json", "-i", directory.path).out)
    assert document["format_version"] == 1
    assert sorted(document["nodes"]) == ["gw", "n1", "n2"]
    assert document["nodes"]["gw"] is None
    assert replace(parse_facts(document["nodes"]["n1"]), collected_at=1000.0) == facts("n1")
    assert list(json.loads(llmgw("facts", "show", "n2", "--json", "-i", directory.path).out)["nodes"]) == ["n2"]


def test_unreadable_facts_are_told_on_stderr(directory: FleetDirectory, llmgw: Call) -> None:
    (directory.facts / "n1.json").write_text("{")
    called = llmgw("facts", "show", "-i", directory.path)
    assert called.status == 0
    assert called.out.splitlines()[1].split()[:3] == ["n1", "unseen", "-"]
    assert "n1.json: the facts are not whole JSON" in called.err
    assert llmgw("facts", "show", "n1", "-i", directory.path).out == (
        "n1: no facts stored; `llmgw facts refresh` reads it\n"
    )


def test_a_node_that_nobody_has_is_an_error_that_names_the_others(directory: FleetDirectory, llmgw: Call) -> None:
    called = llmgw("facts", "show", "n9", "-i", directory.path)
    assert (called.status, called.out) == (1, "")
    assert called.err == ("llmgw: the inventory has no host n9 [unknown-host]\n    fix: it has gw, n1, n2\n")


def test_this_machine_can_be_looked_at_without_any_fleet(llmgw: Call) -> None:
    called = llmgw("facts", "local", "--scope", "user", "--json")
    assert called.status == 0
    document = json.loads(called.out)
    assert document["format_version"] == 1
    known = parse_facts(document)
    assert known.memory is not None
    assert (known.memory.total_bytes or 0) > 0
    shown = "\n".join(node_lines("this machine", known))
    assert "  memory    " in shown


def test_a_directory_for_weights_that_is_not_there_is_told_and_costs_nothing(llmgw: Call, tmp_path: Path) -> None:
    called = llmgw("facts", "local", "--scope", "user", "--model-dir", tmp_path, "--model-dir", tmp_path / "nope")
    assert called.status == 0
    assert called.err == f"--model-dir {tmp_path}/nope: there is no such directory\n"
    assert called.out.startswith("this machine\n")


@pytest.mark.parametrize("words", ["!all", "", " , ", "gpus,!gpus"])
def test_a_refresh_that_would_read_nothing_is_wrong_usage(directory: FleetDirectory, llmgw: Call, words: str) -> None:
    called = llmgw("facts", "refresh", "-i", directory.path, "--gather", words)
    assert (called.status, called.out) == (64, "")
    assert "to read" in called.err


@pytest.fixture
def refreshed(directory: FleetDirectory, llmgw: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Called]:
    """Calls a refresh in which these hosts are asked, and of them those with `True` answer."""

    def call(ansible: int, hosts: dict[str, bool], *arguments: str) -> Called:
        def run(_run: object, on_event: Callable[[dict[str, object]], None]) -> int:
            for host, answers in hosts.items():
                kind = "runner_on_ok" if answers else "runner_on_unreachable"
                data = {"host": host, "resolved_action": "llmgw.fleet.node_facts", "res": {"msg": "no route"}}
                on_event({"event": kind, "event_data": data})
            return ansible

        monkeypatch.setattr(facts_command, "run_playbook", run)
        return llmgw("facts", "refresh", "-i", directory.path, *arguments)

    return call


def test_a_refresh_counts_the_hosts_and_names_those_that_do_not_answer(
    directory: FleetDirectory, refreshed: Callable[..., Called]
) -> None:
    called = refreshed(0, {"gw": True, "n1": False, "n2": True})
    assert (called.status, called.out) == (0, f"2 of 3 hosts answered; facts are in {directory.facts}\n")
    assert called.err == "n1  does not answer: no route\nno answer from n1\n"
    assert refreshed(0, {"gw": False, "n1": False, "n2": False}).status == 1, "nobody answered"


def test_a_refresh_of_some_hosts_counts_those_that_were_asked(
    directory: FleetDirectory, refreshed: Callable[..., Called]
) -> None:
    called = refreshed(0, {"n1": True, "n2": True}, "--limit", "n*")
    assert (called.status, called.err) == (0, "")
    assert called.out == f"2 of 2 hosts asked answered; facts are in {directory.facts}\n"
    nobody = refreshed(1, {}, "--limit", "nope")
    assert nobody.status == 1
    assert nobody.out == f"no host of the fleet matches --limit nope; facts are in {directory.facts}\n"
    assert "apply" not in nobody.err


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (devices_cell(None), "-"),
        (devices_cell(contract.NodeFacts()), "-"),
        (devices_cell(facts("n1")), "none"),
        (devices_cell(facts("n1", gpus=8)), "8 x h200-141g"),
        (memory_cell(None), "-"),
        (memory_cell(contract.Memory()), "-"),
        (memory_cell(contract.Memory(8 * GB)), "-/8 GB"),
        (memory_cell(contract.Memory(8 * GB, 0)), "0/8 GB"),
        (memory_cell(contract.Memory(8_400_000_000, 3_600_000_000)), "4/8 GB"),
        (disk_cell(None), "-"),
        (disk_cell([]), "-"),
        (disk_cell([SHARED]), "-"),
        (disk_cell([LOCAL, SHARED, replace(LOCAL, mount_point="/data")]), "80/200 GB"),
        (disk_cell([LOCAL, replace(LOCAL, free_bytes=None)]), "40/100 GB"),
    ],
)
def test_unknown_is_a_dash_and_never_zero(cell: str, shown: str) -> None:
    assert cell == shown


def test_everything_a_scheduler_asks_is_in_the_full_view() -> None:
    slice_ = contract.MigInstance("MIG-1", 3, device_class="a100-80g-mig-3g.40gb", memory_total_mib=40192)
    known = replace(
        facts("n1", gpus=1),
        system=contract.System(os="debian", os_version="12", kernel="6.1", systemd_version=252),
        gpus=(
            contract.Gpu(0, "GPU-0", device_class="h200-141g", memory_total_mib=143771),
            contract.Gpu(1, "GPU-1", mig_mode=True, mig_instances=(slice_,)),
        ),
        filesystems=(LOCAL, SHARED),
        engines=(contract.Engine("vllm", ("/opt/vllm",), None, runnable=False, reason="driver too old"),),
        weights=(contract.Weights("org/m", "/srv/m", complete=False, size_bytes=2 * GB),),
        units=(
            contract.ObservedUnit("llmgw-chat.0.0.service", active_state="active", sub_state="running", port=18000),
        ),
        findings=(contract.Finding("ecc", "block", "2 errors", "replace the card", "GPU-0"),),
    )
    shown = "\n".join(node_lines("n1", known))
    for part in (
        "system    debian 12, kernel 6.1, systemd 252",
        "devices   1 x a100-80g-mig-3g.40gb, 1 x h200-141g",
        "143771 MiB  GPU-0  OUT: 2 errors",
        "1/mig3   a100-80g-mig-3g.40gb",
        "disk      / (ext4, local): 40/100 GB free",
        "disk      /mnt (nfs4, shared): 9000/9000 GB free",
        "engine    vllm - at /opt/vllm: does not run: driver too old",
        "weights   org/m: 2.00 GB, incomplete, /srv/m",
        "unit      llmgw-chat.0.0.service: active/running, port 18000",
        "block     ecc: 2 errors -> replace the card",
    ):
        assert part in shown


def test_a_part_that_was_not_read_is_told_once() -> None:
    failed = contract.Finding("probe-failed", "warn", "the probe 'imex' failed", "Mend it.", part="imex")
    probes = tuple(contract.Probe(name, 0.1, ok=False, detail="no route") for name in ("imex", "rdma"))
    shown = "\n".join(node_lines("n1", replace(facts("n1"), probes=probes, findings=(failed,))))
    assert "not read  rdma: no route" in shown
    assert "probe-failed: the probe 'imex' failed -> Mend it." in shown
    assert "imex: no route" not in shown


def test_a_driver_that_nobody_read_is_not_told_to_be_read_by_anything() -> None:
    unread = replace(facts("n1"), driver=contract.GpuDriver(fallback_reason="no libnvidia-ml"))
    assert "  driver    -, CUDA -, NVML was not to be had: no libnvidia-ml" in node_lines("n1", unread)
    read = replace(facts("n1"), driver=contract.GpuDriver("nvidia-smi", "no libnvidia-ml", "580.1", "13.0"))
    assert (
        "  driver    580.1, CUDA 13.0, read by nvidia-smi because NVML was not to be had: no libnvidia-ml"
        in node_lines("n1", read)
    )


def test_a_table_tells_state_and_the_age_of_the_facts() -> None:
    away = replace(with_facts(node("n1", drained=True), facts("n1")), state=NodeState.UNREACHABLE)
    ages = [(30.0, "30s"), (600.0, "10m"), (7200.0, "2h"), (200_000.0, "2d"), (None, "-")]
    nodes = [replace(away, name=f"n{number}", facts_age_s=age) for number, (age, _) in enumerate(ages)]  # type: ignore[arg-type]
    rows = fleet_lines(fleet(*nodes))[1 : len(nodes) + 1]
    assert all("unreachable,drained" in row for row in rows)
    assert [row.split()[-1] for row in rows] == [shown for _, shown in ages]

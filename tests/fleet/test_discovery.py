# SPDX-License-Identifier: Apache-2.0
"""A mixed fleet of real hosts, whose cards are told by stand-ins, discovered over ssh in one sweep."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.lab.hosts import Lab, Machine
from tests.fleet.site import PROJECT, Outcome, Site
from tests.support import machines

pytestmark = pytest.mark.timeout(240)
TRAYS = ("gb1", "gb2")
NAMES = ("h100", "l40s", "a100", *TRAYS, "cpu", "broken")
ADDRESSES = {name: f"10.77.0.{number}" for number, name in enumerate(NAMES, 11)}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, _lab_can_run: None) -> Iterator[Site]:
    imex = machines.imex_control([ADDRESSES[tray] for tray in TRAYS], (True, True))
    tray_files = {
        "/usr/bin/nvidia-imex-ctl": imex,
        "/etc/nvidia-imex/nodes_config.cfg": "".join(f"{ADDRESSES[tray]}\n" for tray in TRAYS),
        "/etc/systemd/system/nvidia-imex.service": "[Service]\nExecStart=/usr/bin/sleep infinity\n",
    }
    fleet = [
        Machine("h100", machines.files(machines.HGX_H100, nvml=True)),
        Machine("l40s", machines.files(machines.L40S)),
        Machine("a100", machines.files(machines.A100_MIG)),
        Machine("gb1", {**machines.files(machines.TRAY_1, nvml=True), **tray_files}),
        Machine("gb2", {**machines.files(machines.TRAY_2), **tray_files}),
        Machine("cpu"),
        Machine("broken", machines.files(machines.BROKEN)),
    ]
    folder = tmp_path_factory.mktemp("mixed")
    with Lab(fleet) as lab:
        assert lab.addresses == ADDRESSES
        for tray in TRAYS:
            channels = "/dev/nvidia-caps-imex-channels"
            lab.ssh(tray, f"systemctl start nvidia-imex && mkdir {channels} && touch {channels}/channel0", check=True)
        lab.inventory(folder / "hosts.yml", host_vars={"l40s": {"llmgw_discovery_timeout_s": 10}})
        made = Site(lab, folder)
        made.catalog()
        yield made


@pytest.fixture(scope="module")
def swept(site: Site) -> Site:
    """The fleet after one sweep, for tests that only look at what it stored."""
    assert "7 of 7 hosts answered" in refreshed(site).out
    return site


def refreshed(site: Site, *arguments: str, status: int = 0) -> Outcome:
    done = site.llmgw("facts", "refresh", *arguments)
    assert done.status == status, done.err
    return done


def facts(site: Site) -> dict[str, Any]:
    done = site.llmgw("facts", "show", "--json")
    assert done.status == 0, done.err
    nodes: dict[str, Any] = done.document["nodes"]
    return nodes


def codes(node: dict[str, Any]) -> list[str]:
    return [one["code"] for one in node["findings"] if one["severity"] != "info"]


def test_one_sweep_reads_every_kind_of_machine_right(swept: Site) -> None:
    found = facts(swept)
    classes = {name: [gpu["device_class"] for gpu in node["gpus"]] for name, node in found.items()}
    assert classes["h100"] == ["h100-80g"] * 8
    assert classes["l40s"] == ["l40s-45g"] * 4
    assert classes["gb1"] == classes["gb2"] == ["gb200-186g"] * 4
    assert classes["cpu"] == []
    mig = found["a100"]["gpus"][0]["mig_instances"]
    assert [one["device_class"] for one in mig] == ["a100-80g-mig-3g.40gb"] * 2
    assert [len(gpu["nvlink_peers"]) for gpu in found["h100"]["gpus"]] == [7] * 8
    assert [gpu["numa_node"] for gpu in found["h100"]["gpus"]] == [0] * 4 + [1] * 4
    assert {path["device"]: path["distance"] for path in found["h100"]["gpus"][0]["nic_paths"]}["mlx5_0"] == "PIX"
    assert all(gpu["nvlink_peers"] == [] for gpu in found["l40s"]["gpus"])
    assert found["gb1"]["imex"]["domain_state"] == "UP"
    assert found["gb1"]["imex"]["channels"] == [0]


def test_both_paths_are_told_and_give_the_same_facts(swept: Site) -> None:
    found = facts(swept)
    assert {name: (node["driver"] or {}).get("source") for name, node in found.items()} == {
        **dict.fromkeys(("h100", "gb1"), "nvml"),
        **dict.fromkeys(("l40s", "a100", "gb2", "broken"), "nvidia-smi"),
        "cpu": None,
    }
    own = ("index", "uuid", "pci_address", "nvlink_peers")
    one, other = ([{k: v for k, v in gpu.items() if k not in own} for gpu in found[tray]["gpus"]] for tray in TRAYS)
    assert one == other
    assert "nvml-fallback" in [finding["code"] for finding in found["gb2"]["findings"]]


def test_one_lost_card_costs_itself_and_not_its_neighbours(swept: Site) -> None:
    done = swept.llmgw("nodes", "--json")
    nodes = {node["name"]: node for node in done.document["nodes"]}
    broken = facts(swept)["broken"]
    assert len([gpu for gpu in broken["gpus"] if gpu["uuid"]]) == 7
    lost = [one for one in broken["findings"] if one["code"] == "gpu-lost"]
    assert [one["severity"] for one in lost] == ["block"]
    assert "0000:15:00.0" in lost[0]["message"]
    assert nodes["broken"]["state"] == "ok"


def test_the_nodes_are_shown_with_classes_domain_and_findings(swept: Site) -> None:
    done = swept.llmgw("nodes")
    assert done.status == 0, done.err
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.strip()}
    assert "8 x h100-80g" in lines["h100"]
    assert "4 x l40s-45g" in lines["l40s"]
    assert "2 x a100-80g-mig-3g.40gb" in lines["a100"]
    assert "1 x a100-80g" in lines["a100"]
    assert "4 x gb200-186g" in lines["gb1"]
    assert "4/4" in lines["gb1"]
    assert "4/4" in lines["gb2"]
    assert "none" in lines["cpu"]
    assert "7 x h100-80g" in lines["broken"]
    assert "block" in lines["broken"]


def test_the_facts_of_eight_cards_stay_small(swept: Site) -> None:
    node = facts(swept)["h100"]
    assert len(json.dumps({**node, "weights": None, "units": None})) < 64 * 1024


def test_a_refresh_in_part_keeps_the_rest_and_asks_less(swept: Site) -> None:
    site = swept
    before = facts(site)["h100"]
    site.lab.put("h100", {"/etc/stand-in/nvidia-smi/topo_-m": "nobody asks for this\n"})
    refreshed(site, "--gather", "volatile", "--limit", "h100")
    after = facts(site)["h100"]
    assert after["collected_at"] > before["collected_at"]
    assert [gpu["nvlink_peers"] for gpu in after["gpus"]] == [gpu["nvlink_peers"] for gpu in before["gpus"]]
    assert after["cpu"] == before["cpu"]
    site.lab.put("h100", {"/etc/stand-in/nvidia-smi/topo_-m": machines.answers(machines.HGX_H100)["topo_-m"]})


def test_a_tool_that_hangs_costs_its_host_the_cards_and_the_others_nothing(site: Site) -> None:
    folder = "/etc/stand-in/nvidia-smi"
    site.lab.put("l40s", {f"{folder}/-q_-x.sleep": "300\n", f"{folder}/-q.sleep": "300\n"})
    try:
        refreshed(site, "--limit", "l40s,h100")
    finally:
        site.lab.ssh("l40s", f"rm {folder}/*.sleep", check=True)
    found = facts(site)
    assert found["l40s"]["gpus"] is None
    assert "nvidia-smi-timeout" in codes(found["l40s"])
    assert len(found["h100"]["gpus"]) == 8
    assert site.lab.ssh("l40s", "pgrep -x sleep || true").stdout == ""
    refreshed(site, "--limit", "l40s")
    assert len(facts(site)["l40s"]["gpus"]) == 4


def test_a_capture_of_a_host_gives_its_facts_anywhere(swept: Site, tmp_path: Path) -> None:
    site = swept
    done = site.llmgw("capture", "h100", "--output", str(tmp_path))
    assert done.status == 0, done.err
    (bundle,) = tmp_path.glob("*h100*")
    command = [sys.executable, "-m", "llmgw", "facts", "local", "--capture", str(bundle), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=PROJECT)
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["gpus"] == facts(site)["h100"]["gpus"]

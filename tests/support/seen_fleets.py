# SPDX-License-Identifier: Apache-2.0
"""A fleet and a node with something of everything that views show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmgw.fleet.hosts import Host, Stored
from llmgw.fleet.snapshot import View, build_snapshot
from llmgw.model.node import FleetSnapshot, Node
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, ib, imex, linked, tray
from tests.support.fleets import facts

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
ADDRESS = "0000:15:00.0"
LOST = contract.Gpu(5, None, pci_address=ADDRESS)
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


def usual_fleet() -> FleetSnapshot:
    """Two nodes of eight cards in one fabric, as most fleets are."""
    hosts = [
        Host(f"gpu-{at}", node=True, gateway=False, variables={"llmgw_fabrics": {"ib-a": by_pci()}}) for at in "12"
    ]
    known = {
        host.name: replace(
            facts(host.name, gpus=8, device_class="h100-80g"),
            collected_at=NOW,
            memory=contract.Memory(2000 * GB, 1900 * GB),
            filesystems=(LOCAL,),
            rdma_ports=tuple(ib(100 * number + at, at, **SM) for at in range(8)),
        )
        for number, host in enumerate(hosts)
    }
    return build_snapshot(hosts, {name: Stored(one) for name, one in known.items()}, View(NOW))

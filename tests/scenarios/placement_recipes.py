# SPDX-License-Identifier: Apache-2.0
"""How the facts of scenarios about placement came about: machines with what joins their cards and each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from llmgw.fleet.hosts import Host
from llmgw.nodekit import contract
from tests.support.joined_machines import Machine, fleet_of
from tests.support.scenario_facts import GB, NOW, Story, as_json, machine

Hosts = tuple[Host, ...]
Files = dict[str, str]
H100, GB200 = "h100-80g", "gb200-186g"
RACK = "5f2c01aa-7d1e-4b77-9c55-0e61a2d4f003"
SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)
SWITCHED = (tuple(range(8)),)
BRIDGED = ((0, 1), (2, 3), (4, 5), (6, 7))
ENGINES = (contract.Engine("vllm", ("/opt/llmgw/engines/vllm/bin/vllm",), "0.33.0", runnable=True),)
FILER = contract.Filesystem("/filer", source="filer:/models", type="nfs4", shared=True, directories=("/filer/hub",))


def story(hosts: Hosts, folder: Path, *machines: Machine) -> Story:
    """The machines with vLLM, each with an interface that has the address of the inventory."""
    address = {host.name: str(host.variables.get("llmgw_address")) for host in hosts}
    facts = {}
    for node in fleet_of(*machines).nodes:
        assert node.facts is not None
        interface = contract.NetworkInterface("bond0", (address[node.name],), up=True, speed_mbps=25_000)
        system = contract.System(hostname=node.name, journal=True, interfaces=(interface,))
        named = tuple(replace(one, message="python (4711) holds 1200 MiB") for one in node.facts.findings)
        known = replace(node.facts, collected_at=NOW - 30, system=system, engines=ENGINES, findings=named)
        facts[str(node.name)] = known
    return Story(hosts, folder, facts)


def edited(files: Files, name: str, edit: Callable[[contract.NodeFacts], contract.NodeFacts], made: Story) -> Files:
    """The files with what one node reports now, units with their text as nodes report them."""
    node = made.world.fleet.node(name)
    assert node is not None
    assert node.facts is not None
    return files | {f"{name}.json": as_json(edit(node.facts))}


def memory_too_small(hosts: Hosts, folder: Path) -> Files:
    known = {"small": machine(memory_gb=8), "large": machine(memory_gb=64)}
    return Story(hosts, folder, known | {"unknown": replace(machine(), memory=None)}).files()


def topology(hosts: Hosts, folder: Path) -> Files:
    return story(
        hosts,
        folder,
        Machine("bridged", (H100,) * 8, SOCKETS, BRIDGED, held=(2,)),
        Machine("switched", (H100,) * 8, SOCKETS, SWITCHED, held=(1,)),
        Machine("unknown", (H100,) * 8),
    ).files()


def multi_node_fabric(hosts: Hosts, folder: Path) -> Files:
    made = story(
        hosts,
        folder,
        *(Machine(name, (H100,) * 8, SOCKETS, SWITCHED, "ib-a", held=(1,)) for name in ("n1", "n2")),
        Machine("n3", (H100,) * 8, SOCKETS, SWITCHED, "ib-b"),
        Machine("n4", (H100,) * 8, SOCKETS, SWITCHED, "ib-a"),
        Machine("n5", (H100,) * 8, SOCKETS, SWITCHED),
    )

    def miswired(facts: contract.NodeFacts) -> contract.NodeFacts:
        elsewhere = ("0x5000ee0000000001",)
        return replace(facts, rdma_ports=tuple(replace(one, sm_guids=elsewhere) for one in facts.rdma_ports or ()))

    return edited(made.files(), "n4", miswired, made)


def nvlink_domain_first(hosts: Hosts, folder: Path) -> Files:
    trays = [Machine(f"t{at}", (GB200,) * 4, (0, 0, 1, 1), ((0, 1, 2, 3),), "ib-a", RACK) for at in (1, 2, 3, 4)]
    made = story(hosts, folder, *trays)

    def down(facts: contract.NodeFacts) -> contract.NodeFacts:
        return replace(facts, imex=contract.Imex(active=True, domain_state="DOWN"))

    return edited(made.files(), "t2", down, made)


def fabric_manager_restart(hosts: Hosts, folder: Path) -> Files:
    trays = [Machine(f"t{at}", (GB200,) * 4, (0, 0, 1, 1), ((0, 1, 2, 3),), "ib-a", RACK) for at in (1, 2, 3)]
    made = story(hosts, folder, *trays).applied()

    def restarting(facts: contract.NodeFacts) -> contract.NodeFacts:
        joining = contract.GpuFabric("In Progress", None, RACK, 2)
        return replace(
            facts,
            gpus=tuple(replace(gpu, fabric=joining) for gpu in facts.gpus or ()),
            imex=contract.Imex(active=False, service_state="inactive"),
            rdma_ports=tuple(replace(one, state="DOWN", active=False) for one in facts.rdma_ports or ()),
            filesystems=(contract.Filesystem("/", free_bytes=0),),
        )

    files = made.files()
    for name in ("t1", "t2", "t3"):
        files = edited(files, name, restarting, made)
    return files


def member_lost(hosts: Hosts, folder: Path) -> Files:
    machines = [Machine(f"n{at}", (H100,) * 8, SOCKETS, SWITCHED, "ib-a") for at in (1, 2, 3, 4)]
    return story(hosts, folder, *machines).applied().files()


def priority_gives_way(hosts: Hosts, folder: Path) -> Files:
    return story(hosts, folder, Machine("n1", (H100,) * 2), Machine("n2", (H100,))).applied().files()


def fragmented(hosts: Hosts, folder: Path) -> Files:
    return story(hosts, folder, Machine("n1", (H100,) * 2), Machine("n2", (H100,) * 2)).applied().files()


def whole_nodes(hosts: Hosts, folder: Path) -> Files:
    machines = [Machine(f"n{at}", (H100,) * 8, SOCKETS, SWITCHED) for at in (1, 2)]
    return story(hosts, folder, *machines).applied().files()


def shared_filer(hosts: Hosts, folder: Path) -> Files:
    def weights(mount_point: str, *, complete: bool = True) -> contract.Weights:
        path = f"{mount_point}/hub/models--Qwen--Qwen3-32B"
        return contract.Weights("Qwen/Qwen3-32B", path, layout="hf-cache", complete=complete, mount_point=mount_point)

    local = contract.Filesystem("/data", free_bytes=60 * GB, directories=("/data/hub", "/data/gguf"))
    filer = replace(FILER, free_bytes=150 * GB)
    both = (local, filer)
    machines = {
        "alone": machine(filesystems=(local,), weights=(weights("/data", complete=False),)),
        "mounts-it": machine(filesystems=both),
        "saw-it": machine(filesystems=both, weights=(weights("/filer"),)),
    }
    return Story(hosts, folder, machines).files()


def fetched_weights(hosts: Hosts, folder: Path) -> Files:
    local = contract.Filesystem("/data", free_bytes=200 * GB, directories=("/data/hub",))
    filer = replace(FILER, free_bytes=300 * GB)
    elsewhere = replace(filer, mount_point="/mnt/filer", directories=("/mnt/filer/hub",))
    path = f"/data/hub/models--Qwen--Qwen3-32B/snapshots/{'a' * 40}"
    found = contract.Weights(
        "Qwen/Qwen3-32B",
        path,
        layout="hf-cache",
        complete=True,
        mount_point="/data",
        size_bytes=65_524_252_640,
        refs=("main",),
    )
    machines = {
        "alone": machine(filesystems=(local,), weights=()),
        "has-it": machine(filesystems=(local,), weights=(found,)),
        "small": machine(filesystems=(replace(local, free_bytes=40 * GB),), weights=()),
        "twin-1": machine(filesystems=(filer,), weights=()),
        "twin-2": machine(filesystems=(elsewhere,), weights=()),
    }
    return Story(hosts, folder, machines).files()


def model_directories(hosts: Hosts, folder: Path) -> Files:
    made = Story(hosts, folder, {name: machine() for name in ("n1", "n2", "n3")}).applied()

    def looked(facts: contract.NodeFacts) -> contract.NodeFacts:
        found = contract.Weights("Qwen/Qwen3-32B", "/data/qwen", layout="hf-cache", complete=True, mount_point="/")
        return replace(facts, weights=(found,))

    return edited(made.files(), "n3", looked, made)


PLACEMENT: dict[str, Callable[[Hosts, Path], Files]] = {
    "fabric-manager-restart": fabric_manager_restart,
    "fetched-weights": fetched_weights,
    "fragmented": fragmented,
    "member-lost": member_lost,
    "memory-too-small": memory_too_small,
    "model-directories": model_directories,
    "multi-node-fabric": multi_node_fabric,
    "nvlink-domain-first": nvlink_domain_first,
    "priority-gives-way": priority_gives_way,
    "shared-filer": shared_filer,
    "topology": topology,
    "whole-nodes": whole_nodes,
}

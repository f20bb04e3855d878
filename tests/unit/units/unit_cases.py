# SPDX-License-Identifier: Apache-2.0
"""Members of replicas in every shape, each with the name of its golden unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from llmgw.model.ids import DeviceId, ModelName, NodeName, ReplicaId
from llmgw.model.node import Node, NodeSettings
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.model.unit import UnitFile
from llmgw.nodekit import contract
from llmgw.units.render import render
from tests.support.fleets import facts, node, profile, service, with_facts

SYSTEMD = 252
USER = NodeSettings(scope="user", state_dir="~/.local/state/llmgw", engine_user=None)
NASTY = ("--chat-template", '{{ 50% of $HOME }}\n\t"it\'s" \\n', ";", "", "-")
QWEN = ModelSpec(ModelName("qwen3"), hf_id="Qwen/Qwen3-32B")
HERE, THERE = NodeName("n1"), NodeName("n2")
HCAS = ("mlx5_0:1", "mlx5_3:1")


@dataclass(frozen=True)
class Case:
    """A member that is rendered: `rank` of `replica`."""

    replica: Assignment
    nodes: Mapping[NodeName, Node]
    rank: int = 0
    access: tuple[str, ...] | None = None

    @property
    def unit(self) -> UnitFile:
        return render(self.replica, self.replica.members[self.rank], self.nodes, self.access)


def machine(name: str = "n1", *, gpus: int = 0, settings: NodeSettings | None = None, **system: Any) -> Node:
    """A node at 10.0.0.1, .2, ... by the digit in its name."""
    one = node(name, gpus)
    values: dict[str, Any] = {"hostname": name, "journal": True, "systemd_version": SYSTEMD} | system
    known = replace(facts(name, gpus), system=contract.System(**values))
    return replace(with_facts(one, known), address=f"10.0.0.{name[1:]}", settings=settings or NodeSettings())


def alone(
    wanted: ProfileSpec,
    on: Node | None = None,
    devices: tuple[str, ...] = (),
    *,
    number: int = 0,
    port: int = 18000,
    numa_node: int | None = None,
    access: tuple[str, ...] | None = None,
) -> Case:
    """A replica of one member."""
    on = on or machine(gpus=8 if devices else 0)
    member = Member(0, on.name, tuple(map(DeviceId, devices)), port, numa_node=numa_node)
    return Case(_replica(wanted, (member,), number), {on.name: on}, access=access)


def group(
    wanted: ProfileSpec,
    rank: int,
    *,
    nodes: tuple[Node, Node] | None = None,
    access: tuple[str, ...] | None = None,
    **joined: Any,
) -> Case:
    """A replica over n1 and n2, eight cards of each."""
    first, second = nodes or (machine("n1", gpus=8), machine("n2", gpus=8))
    joined = {"socket_interface": "eth0"} | joined
    members = tuple(
        Member(
            rank, one.name, tuple(DeviceId(f"GPU-{one.name}-{card}") for card in range(8)), 18000 + 10 * rank, **joined
        )
        for rank, one in enumerate((first, second))
    )
    return Case(_replica(wanted, members), {first.name: first, second.name: second}, rank, access)


def _replica(wanted: ProfileSpec, members: tuple[Member, ...], number: int = 0) -> Assignment:
    asked = service("chat", served_name="org/Chat-7B", profiles=(wanted,))
    return Assignment(ReplicaId(f"chat/{number}"), asked, wanted, members)


def gpus(engine: str, count: int, **more: Any) -> ProfileSpec:
    """A profile of `count` cards on one node."""
    more = {"model": QWEN, "tensor_parallel": count} | more
    return profile("big", engine, ("h200-141g",), count, **more)


def wide(engine: str, **more: Any) -> ProfileSpec:
    """A profile of eight cards on each of two nodes."""
    return gpus(engine, 8, nodes=2, pipeline_parallel=2, **more)


def cards(count: int) -> tuple[str, ...]:
    return tuple(f"GPU-n1-{card}" for card in range(count))


@cache
def cases() -> dict[str, Case]:
    """Every golden unit by its name, without `.service`."""
    small = profile("small", "llama.cpp", max_model_len=4096, parallel_requests=2, threads=4, env={"LLAMA_LOG": "1"})
    mig = profile("mig", gpus=1, classes=("a100-80g-mig-3g.40gb",))
    mig_vllm = profile("mig", "vllm", ("a100-80g-mig-3g.40gb",), 1, model=QWEN, tensor_parallel=1)
    fetched = replace(QWEN, fetch=True)
    hub = {"HF_TOKEN": "hf-token", "VLLM_API_KEY": "engine-key"}
    old_node = machine(systemd_version=239)
    reached = ("10.9.0.1", "10.8.0.0/16", "fd00::/64")
    addresses = (contract.NetworkInterface("ib0", ("192.168.7.1",)),)
    by_ib = tuple(
        machine(name, gpus=8, settings=NodeSettings(socket_interface="ib0"), interfaces=addresses)
        for name in ("n1", "n2")
    )
    return {
        "sim-system": alone(profile(parallel_requests=8, min_memory_bytes=2 * 10**9)),
        "sim-user-without-journal": alone(profile(), machine(settings=USER, journal=False)),
        "sim-on-a-mig-instance": alone(mig, devices=("MIG-dead-beef",)),
        "sim-under-a-newer-systemd": alone(profile(), machine(systemd_version=256)),
        "sim-under-an-old-systemd": alone(gpus("sim", 1), replace(old_node, devices=()), cards(1), numa_node=0),
        "sim-that-names-a-file-below-tmp": alone(profile(args=("--script", "/tmp/script.json"))),  # noqa: S108
        "sim-of-another-user": alone(profile(), machine(settings=NodeSettings(engine_user="gpu-service"))),
        "texts-that-need-care": alone(
            profile(args=NASTY, env={"GREETING": 'say "hi" for 100% $x\\', "EMPTY": "", "HF_HOME": "/data/50% full"})
        ),
        "llama-cpu": alone(small),
        "llama-two-gpus": alone(profile("big", "llama.cpp", ("h200-141g",), 2), devices=("GPU-b", "GPU-a")),
        "llama-by-vulkan": alone(gpus("llama.cpp", 1, env={"GGML_VK_VISIBLE_DEVICES": "0"}), devices=cards(1)),
        "llama-that-locks-its-weights": alone(replace(small, args=("--mlock",))),
        "llama-with-a-memory-limit": alone(replace(small, max_memory_bytes=24 * 10**9)),
        "vllm-one-gpu": alone(gpus("vllm", 1), devices=cards(1)),
        "vllm-tp4-on-one-numa-node": alone(gpus("vllm", 4), devices=cards(4), numa_node=1),
        "vllm-tp4-that-is-not-bound": alone(gpus("vllm", 4, bind_numa=False), devices=cards(4), numa_node=1),
        "vllm-cpu": alone(profile("cpu", "vllm", model=QWEN)),
        "vllm-on-a-mig-instance": alone(mig_vllm, devices=("MIG-dead-beef",)),
        "vllm-quantized": alone(gpus("vllm", 1, quantization="fp8", kv_cache_dtype="fp8"), devices=cards(1)),
        "vllm-data-parallel": alone(
            gpus("vllm", 8, tensor_parallel=2, data_parallel=4, expert_parallel=True), devices=cards(8)
        ),
        "vllm-with-adapters": alone(gpus("vllm", 1, lora={"sql": "/srv/models/lora/sql"}), devices=cards(1)),
        "vllm-with-secrets": alone(gpus("vllm", 1, secrets=hub), devices=cards(1)),
        "vllm-with-fetched-weights": alone(gpus("vllm", 1, model=fetched), devices=cards(1)),
        "vllm-that-moves-its-cache": alone(
            gpus("vllm", 1, args=("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}')),
            devices=cards(1),
        ),
        "vllm-with-folders-of-its-own": alone(
            gpus("vllm", 1, env={"HF_HOME": "/data/hf home"}, args=("--download-dir", "/data/weights")),
            devices=cards(1),
        ),
        "vllm-reached-by-gateways-only": alone(gpus("vllm", 1), devices=cards(1), access=reached),
        "vllm-user-with-secrets": alone(profile("cpu", "vllm", model=QWEN, secrets=hub), machine(settings=USER)),
        "vllm-user-with-gpus": alone(gpus("vllm", 1), machine(gpus=8, settings=USER), cards(1), numa_node=0),
        "vllm-infiniband-leader": group(wide("vllm"), 0, hcas=HCAS, fabric="ib-a"),
        "vllm-infiniband-follower": group(wide("vllm"), 1, hcas=HCAS, fabric="ib-a"),
        "vllm-domain-leader": group(wide("vllm"), 0, domain="nvl-0"),
        "vllm-domain-follower": group(wide("vllm"), 1, domain="nvl-0"),
        "vllm-group-with-secrets-and-access": group(wide("vllm", secrets=hub), 1, hcas=HCAS, access=reached),
        "vllm-group-by-an-interface": group(
            wide("vllm"), 0, nodes=(by_ib[0], by_ib[1]), socket_interface="ib0", access=("10.9.0.1",)
        ),
        "sglang-tp2": alone(gpus("sglang", 2), devices=cards(2)),
        "sglang-roce-leader": group(wide("sglang"), 0, hcas=("rocep1s0:1",), fabric="roce-a"),
        "sglang-roce-follower": group(wide("sglang"), 1, hcas=("rocep1s0:1",), fabric="roce-a"),
    }

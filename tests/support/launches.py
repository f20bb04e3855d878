# SPDX-License-Identifier: Apache-2.0
"""Placed members of every engine and shape, and how they are started: for golden files and for engines' parsers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmgw.engines.base import Launch
from llmgw.engines.registry import engine_of
from llmgw.model.ids import DeviceId, ReplicaId
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, facts, model, node, profile, service, with_facts

HUB = ModelSpec(model("big").name, hf_id="org/big", revision="main")
N1 = replace(node("n1"), address="10.0.0.1")
N2 = replace(node("n2"), address="10.0.0.2")
NAMED = replace(N1, address="n1.example")
SIX = replace(N1, address="fd00::1")
STORED = replace(N1, settings=replace(N1.settings, model_dirs=("/srv/hub", "/srv/more")))
H200, MIG = ("h200-141g",), ("a100-80g-mig-3g.40gb",)


@dataclass(frozen=True, slots=True)
class Case:
    """One member of a placed replica and how it is started. `leader`: the node of rank 0."""

    placed: Assignment
    member: Member
    leader: Node
    launch: Launch

    @property
    def profile(self) -> ProfileSpec:
        return self.placed.profile


def member(rank: int, on: Node, count: int, **more: object) -> Member:
    devices = tuple(DeviceId(f"GPU-{on.name}-{number}") for number in range(count))
    return replace(Member(rank, on.name, devices, 18000 + 3 * rank), **more)  # type: ignore[arg-type]


def placed(wanted: ProfileSpec, *members: Member) -> Assignment:
    chat = service("chat", served_name="org/Chat", profiles=(wanted,))
    return Assignment(ReplicaId("chat/0"), chat, wanted, members)


def case(wanted: ProfileSpec, *members: Member, on: Node, leader: Node | None = None) -> Case:
    replica = placed(wanted, *members)
    engine = engine_of(wanted.engine)
    assert engine is not None
    own = next(one for one in members if one.node == on.name)
    leader = leader or (N1 if len(members) > 1 else on)
    return Case(replica, own, leader, engine.launch(replica, own, on, leader))


def started(wanted: ProfileSpec, *members: Member, on: Node) -> Launch:
    return case(wanted, *members, on=on).launch


def big(engine: str, **more: object) -> ProfileSpec:
    return profile(engine, engine, H200, 8, **({"model": HUB, "tensor_parallel": 8} | more))


def over_two(engine: str, **more: object) -> ProfileSpec:
    return big(engine, pipeline_parallel=2, nodes=2, ready_timeout_s=1800, **more)


def everything(engine: str) -> ProfileSpec:
    return big(
        engine,
        quantization="fp8",
        kv_cache_dtype="fp8_e4m3",
        max_model_len=32768,
        memory_utilization=0.9,
        parallel_requests=64,
        threads=4,
        lora={"support": "/srv/lora/support", "legal": "/srv/lora/legal"},
        args=("--seed", "7") if engine == "vllm" else ("--random-seed", "7"),
        env={"LEVEL": "1", "CUDA_VISIBLE_DEVICES": "7"},
    )


def by_fabric(rank: int, on: Node) -> Member:
    return member(rank, on, 8, fabric="ib-a", hcas=("mlx5_0:1", "mlx5_3:1"), socket_interface="bond0")


def by_domain(rank: int, on: Node) -> Member:
    return member(rank, on, 8, domain="72abb1a8.2", socket_interface="eth0")


def _of_a_cluster_engine(engine: str) -> dict[str, Case]:
    pair, joined = over_two(engine), (by_fabric(0, N1), by_fabric(1, N2))
    close = (by_domain(0, N1), by_domain(1, N2))
    copies = big(engine, tensor_parallel=2, data_parallel=4, expert_parallel=True)
    return {
        f"{engine}-one-node": case(big(engine), member(0, N1, 8), on=N1),
        f"{engine}-every-field": case(everything(engine), member(0, N1, 8), on=N1),
        f"{engine}-copies-and-experts": case(copies, member(0, N1, 8), on=N1),
        f"{engine}-fetched": case(big(engine, model=replace(HUB, fetch=True)), member(0, STORED, 8), on=STORED),
        f"{engine}-fabric-leader": case(pair, *joined, on=N1),
        f"{engine}-fabric-follower": case(pair, *joined, on=N2),
        f"{engine}-domain-leader": case(pair, *close, on=N1),
        f"{engine}-domain-follower": case(pair, *close, on=N2),
        f"{engine}-ipv6-follower": case(pair, *joined, on=N2, leader=SIX),
        f"{engine}-mig": case(
            profile("mig", engine, MIG, 1, model=HUB),
            Member(0, N1.name, (DeviceId("MIG-dead-beef"),), 18000),
            on=N1,
        ),
    }


def _of_sglang() -> dict[str, Case]:
    joined = (by_fabric(0, N1), by_fabric(1, N2))
    spread = ("--attn-dp-size", "8")
    return {
        "sglang-attention-copies": case(big("sglang", args=spread), member(0, N1, 8), on=N1),
        "sglang-attention-copies-follower": case(over_two("sglang", args=spread), *joined, on=N2),
    }


def _others() -> dict[str, Case]:
    small = ModelSpec(model("small").name, path="/srv/models/small.gguf")
    limited = profile(
        "cpu",
        "vllm",
        model=HUB,
        threads=16,
        min_memory_bytes=64 * GB,
        max_model_len=4096,
    )
    return {
        "vllm-cpu": case(profile("cpu", "vllm", model=HUB), member(0, NAMED, 0), on=NAMED),
        "vllm-cpu-limited": case(limited, member(0, N1, 0), on=N1),
        "llama.cpp-cpu": case(
            profile("cpu", "llama.cpp", model=small, threads=8, parallel_requests=4, max_model_len=8192),
            member(0, N1, 0),
            on=N1,
        ),
        "sim-leader": case(over_two("sim"), by_fabric(0, N1), by_fabric(1, N2), on=N1),
        "sim-follower": case(over_two("sim"), by_fabric(0, N1), by_fabric(1, N2), on=N2),
        "sim-cpu": case(profile("cpu", "sim", parallel_requests=4, max_model_len=2048), member(0, N1, 0), on=N1),
    }


def with_vulkan(*indices: int | None) -> Node:
    """A node with cards of which Vulkan's own numbers were observed."""
    known = facts("n1", len(indices))
    cards = tuple(replace(card, vulkan_index=index) for card, index in zip(known.gpus or (), indices, strict=True))
    return with_facts(N1, replace(known, gpus=cards))


def _of_llama() -> dict[str, Case]:
    large = ModelSpec(model("large").name, path="/srv/models/large-00001-of-00003.gguf")
    wanted = profile("two", "llama.cpp", ("l40s-45g",), 2, model=large)
    on = with_vulkan(1, 0)
    return {
        "llama.cpp-two-cards": case(wanted, member(0, N1, 2), on=N1),
        "llama.cpp-two-cards-of-vulkan": case(wanted, member(0, on, 2), on=on),
        "llama.cpp-mig": case(
            profile("mig", "llama.cpp", MIG, 1, model=large),
            Member(0, N1.name, (DeviceId("MIG-dead-beef"),), 18000),
            on=N1,
        ),
    }


def cases() -> dict[str, Case]:
    """Every case by its name."""
    several = (*map(_of_a_cluster_engine, ("vllm", "sglang")), _of_sglang(), _others(), _of_llama())
    return {name: one for group in several for name, one in group.items()}


def seen(path: str, **more: object) -> contract.Weights:
    return replace(contract.Weights("org/big", path, complete=True, refs=("main",)), **more)  # type: ignore[arg-type]


def looking(*weights: contract.Weights, given: str | None = None, unknown: bool = False, env: str = "") -> Node:
    """A node that saw these weights, and whose unit of the replica was given some."""
    text = f"[Service]\nExecStart=/opt/llmgw/engines/vllm/bin/vllm serve {given} --served-model-name x\n{env}"
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", replica="chat/0", rank=0, text=text)
    known = replace(facts("n1"), weights=None if unknown else weights, units=(unit,) if given or env else ())
    return with_facts(N1, known)

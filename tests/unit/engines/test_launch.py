# SPDX-License-Identifier: Apache-2.0
"""How members of replicas are started: whole command lines and environments, as golden files in golden/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.engines.base import Launch
from llmgw.engines.registry import engine_of
from llmgw.model.ids import DeviceId, ReplicaId
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fleets import facts, model, node, profile, service, with_facts

HERE = Path(__file__).parent
SNAPSHOT = "/srv/hf/hub/models--org--big/snapshots/abc"
HUB = ModelSpec(model("big").name, hf_id="org/big", revision="main")
N1 = replace(node("n1"), address="10.0.0.1")
N2 = replace(node("n2"), address="10.0.0.2")
NAMED = replace(N1, address="n1.example")
SIX = replace(N1, address="fd00::1")
H200, MIG = ("h200-141g",), ("a100-80g-mig-3g.40gb",)


def member(rank: int, on: Node, count: int, **more: object) -> Member:
    devices = tuple(DeviceId(f"GPU-{on.name}-{number}") for number in range(count))
    return replace(Member(rank, on.name, devices, 18000 + 2 * rank), **more)  # type: ignore[arg-type]


def started(wanted: ProfileSpec, *members: Member, on: Node, leader: Node = N1) -> Launch:
    chat = service("chat", served_name="org/Chat", profiles=(wanted,))
    placed = Assignment(ReplicaId("chat/0"), chat, wanted, members)
    engine = engine_of(wanted.engine)
    assert engine is not None
    return engine.launch(placed, next(one for one in members if one.node == on.name), on, leader)


def big(engine: str, **more: object) -> ProfileSpec:
    return profile(engine, engine, H200, 8, model=HUB, **({"tensor_parallel": 8} | more))


def over_two(engine: str) -> ProfileSpec:
    return big(engine, pipeline_parallel=2, nodes=2, ready_timeout_s=1800)


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
        args=("--seed", "7"),
        env={"LEVEL": "1", "CUDA_VISIBLE_DEVICES": "7"},
    )


def by_fabric(rank: int, on: Node) -> Member:
    return member(rank, on, 8, fabric="ib-a", hcas=("mlx5_0:1", "mlx5_3:1"), socket_interface="bond0")


def by_domain(rank: int, on: Node) -> Member:
    return member(rank, on, 8, domain="72abb1a8.2", socket_interface="eth0")


def cases() -> dict[str, Launch]:
    found: dict[str, Launch] = {}
    for engine in ("vllm", "sglang"):
        pair, joined = over_two(engine), (by_fabric(0, N1), by_fabric(1, N2))
        close = (by_domain(0, N1), by_domain(1, N2))
        found |= {
            f"{engine}-one-node": started(big(engine), member(0, N1, 8), on=N1),
            f"{engine}-every-field": started(everything(engine), member(0, N1, 8), on=N1),
            f"{engine}-fabric-leader": started(pair, *joined, on=N1),
            f"{engine}-fabric-follower": started(pair, *joined, on=N2),
            f"{engine}-domain-leader": started(pair, *close, on=N1),
            f"{engine}-domain-follower": started(pair, *close, on=N2),
            f"{engine}-ipv6-follower": started(pair, *joined, on=N2, leader=SIX),
            f"{engine}-mig": started(
                profile("mig", engine, MIG, 1, model=HUB),
                Member(0, N1.name, (DeviceId("MIG-dead-beef"),), 18000),
                on=N1,
            ),
        }
    found["vllm-cpu"] = started(profile("cpu", "vllm", model=HUB), member(0, NAMED, 0), on=NAMED)
    return found


def written(launch: Launch) -> str:
    """One option with its values a line, the environment, and how readiness is told."""
    lines, ready = "", launch.readiness
    for word in launch.argv:
        lines += f"\n{word}" if word.startswith("-") else f" {word}" if lines else word
    env = "\n".join(f"{key}={value}" for key, value in sorted(launch.env.items()))
    asked = f"{ready.kind} {ready.address}:{ready.port}{ready.health_path}" if ready.kind == "http" else ready.kind
    times = f"within {ready.ready_timeout_s:g} s\nstops within: {launch.stop_timeout_s} s\n"
    return f"{lines}\n\n{env}\n\nready: {asked}, {times}"


def test_members_are_started_as_the_golden_files(*, update_golden: bool) -> None:
    produced = {f"{name}.txt": written(launch) for name, launch in cases().items()}
    golden.compare(HERE / "golden", produced, update=update_golden)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_members_differ_in_nothing_but_rank_address_devices_and_network(engine: str) -> None:
    pair, joined = over_two(engine), (by_fabric(0, N1), by_fabric(1, N2))
    leader, follower = started(pair, *joined, on=N1), started(pair, *joined, on=N2)
    own = {"--headless", "--host", "--port", "--node-rank", "0", "1", "10.0.0.1", "10.0.0.2", "18000", "18002"}
    assert set(leader.argv) ^ set(follower.argv) <= own
    assert leader.env["NCCL_IB_HCA"] == follower.env["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_3:1"


def test_a_follower_of_vllm_has_no_port() -> None:
    follower = started(over_two("vllm"), by_fabric(0, N1), by_fabric(1, N2), on=N2)
    assert "--port" not in follower.argv
    assert "--headless" in follower.argv


def test_a_replica_on_one_node_is_told_nothing_of_networks() -> None:
    alone = started(big("vllm"), by_fabric(0, N1), on=N1)
    assert not [key for key in alone.env if key.startswith(("NCCL", "GLOO"))]
    assert "--nnodes" not in alone.argv


def test_the_profile_has_no_say_in_devices() -> None:
    assert started(everything("vllm"), member(0, N1, 2), on=N1).env["CUDA_VISIBLE_DEVICES"] == "GPU-n1-0,GPU-n1-1"


def test_an_engine_named_by_its_module_is_started_as_it_is() -> None:
    command = ("/opt/v/bin/python3", "-m", "sglang.launch_server")
    engines = (contract.Engine("sglang", command, "0.5.23"),)
    on = with_facts(N1, replace(facts("n1"), engines=engines))
    argv = started(big("sglang"), member(0, on, 8), on=on).argv
    assert argv[:5] == (*command, "--model-path", "org/big")


def seen(path: str, **more: object) -> contract.Weights:
    return replace(contract.Weights("org/big", path, complete=True, refs=("main",)), **more)  # type: ignore[arg-type]


def looking(*weights: contract.Weights, given: str | None = None, unknown: bool = False) -> Node:
    text = f"[Service]\nExecStart=/opt/llmgw/engines/vllm/bin/vllm serve {given} --served-model-name x\n"
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", replica="chat/0", rank=0, text=text)
    known = replace(facts("n1"), weights=None if unknown else weights, units=(unit,) if given else ())
    return with_facts(N1, known)


def given_to(on: Node, wanted: ModelSpec = HUB) -> str:
    return started(replace(big("vllm"), model=wanted), member(0, on, 8), on=on).argv[2]


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (looking(), "org/big"),
        (looking(seen(SNAPSHOT)), SNAPSHOT),
        (looking(seen(SNAPSHOT, complete=False)), "org/big"),
        (looking(seen(SNAPSHOT, refs=("other",))), "org/big"),
        (looking(seen("/srv/big.gguf", format="gguf")), "org/big"),
        (looking(seen("/data/org/big", model="x", layout="directory")), "/data/org/big"),
        (looking(seen(SNAPSHOT), given="org/big"), "org/big"),
        (looking(seen(SNAPSHOT), seen("/a/org/big"), given=SNAPSHOT), SNAPSHOT),
        (looking(given=SNAPSHOT, unknown=True), SNAPSHOT),
        (looking(given=SNAPSHOT), "org/big"),
        (looking(given="/srv/hf/hub/models--org--other/snapshots/abc", unknown=True), "org/big"),
    ],
)
def test_an_engine_gets_weights_that_are_there_and_keeps_what_it_was_given(on: Node, expected: str) -> None:
    assert given_to(on) == expected


def test_a_revision_is_named_only_where_the_engine_fetches() -> None:
    fetched = started(big("vllm"), member(0, N1, 8), on=N1).argv
    assert fetched[fetched.index("--revision") + 1] == "main"
    assert "--revision" not in started(big("vllm"), member(0, N1, 8), on=looking(seen(SNAPSHOT))).argv


@pytest.mark.parametrize(
    ("path", "expected"), [("/x/y", "/x/y"), ("big", "/srv/models/big"), ("org/big", "/data/org/big")]
)
def test_a_relative_path_is_looked_for_among_the_weights(path: str, expected: str) -> None:
    on = looking(seen("/data/org/big", model="m"))
    wanted = ModelSpec(HUB.name, path=path)
    assert given_to(on if path != "big" else N1, wanted) == expected


def test_the_rendezvous_is_at_the_port_after_the_leaders() -> None:
    pair = over_two("sglang")
    follower = started(pair, replace(by_fabric(0, N1), port=18044), by_fabric(1, N2), on=N2).argv
    assert follower[follower.index("--dist-init-addr") + 1] == "10.0.0.1:18045"

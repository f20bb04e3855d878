# SPDX-License-Identifier: Apache-2.0
"""How members of replicas are started: whole command lines and environments, as golden files in golden/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.capability.engines import ENGINES
from llmgw.engines.base import Launch
from llmgw.engines.registry import engine_of
from llmgw.model.ids import DeviceId
from llmgw.model.node import Node
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fleets import facts, profile, with_facts
from tests.support.launches import (
    HUB,
    N1,
    N2,
    big,
    by_fabric,
    cases,
    everything,
    looking,
    member,
    over_two,
    started,
    with_vulkan,
)

HERE = Path(__file__).parent


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
    produced = {f"{name}.txt": written(one.launch) for name, one in cases().items()}
    golden.compare(HERE / "golden", produced, update=update_golden)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_members_differ_in_nothing_but_rank_address_devices_and_network(engine: str) -> None:
    pair, joined = over_two(engine), (by_fabric(0, N1), by_fabric(1, N2))
    leader, follower = started(pair, *joined, on=N1), started(pair, *joined, on=N2)
    own = {"--headless", "--host", "--port", "--node-rank", "0", "1", "10.0.0.1", "10.0.0.2", "18000", "18003"}
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


def test_the_rendezvous_is_at_the_port_after_the_leaders() -> None:
    pair = over_two("sglang")
    follower = started(pair, replace(by_fabric(0, N1), port=18044), by_fabric(1, N2), on=N2).argv
    assert follower[follower.index("--dist-init-addr") + 1] == "10.0.0.1:18045"


def of_llama(on: Node, devices: int = 2) -> dict[str, str]:
    wanted = profile("two", "llama.cpp", ("l40s-45g",), devices)
    return started(wanted, member(0, on, devices), on=on).env


def test_vulkan_gets_its_own_numbers_in_the_order_of_the_devices() -> None:
    assert of_llama(with_vulkan(1, 0))["GGML_VK_VISIBLE_DEVICES"] == "1,0"


def test_vulkan_is_told_nothing_that_was_not_observed() -> None:
    assert "GGML_VK_VISIBLE_DEVICES" not in of_llama(with_vulkan(None, 0))
    assert "GGML_VK_VISIBLE_DEVICES" not in of_llama(replace(N1, facts=None))


def test_numbers_of_vulkan_stay_while_nobody_can_tell_them() -> None:
    on = looking(env="Environment=GGML_VK_VISIBLE_DEVICES=3,2\n")
    assert of_llama(on)["GGML_VK_VISIBLE_DEVICES"] == "3,2"


def test_vulkan_is_told_nothing_of_a_mig_instance() -> None:
    on = looking(env="Environment=GGML_VK_VISIBLE_DEVICES=3\n")
    instance = replace(member(0, on, 0), devices=(DeviceId("MIG-dead-beef"),))
    wanted = profile("mig", "llama.cpp", ("a100-80g-mig-3g.40gb",), 1)
    assert "GGML_VK_VISIBLE_DEVICES" not in started(wanted, instance, on=on).env


@pytest.mark.parametrize("name", ["vllm-cpu", "llama.cpp-cpu"])
def test_without_devices_the_cards_of_a_machine_are_hidden(name: str) -> None:
    assert cases()[name].launch.env["CUDA_VISIBLE_DEVICES"] == ""


def test_on_processors_vllm_keeps_half_of_the_promised_memory_for_its_cache() -> None:
    def on_processors(**more: Any) -> dict[str, str]:
        return started(profile("cpu", "vllm", model=HUB, **more), member(0, N1, 0), on=N1).env

    assert on_processors(min_memory_bytes=64 * 2**30)["VLLM_CPU_KVCACHE_SPACE"] == "32"
    assert on_processors(min_memory_bytes=10**9)["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "VLLM_CPU_KVCACHE_SPACE" not in on_processors()
    assert "VLLM_CPU_KVCACHE_SPACE" not in on_processors(min_memory_bytes=64 * 2**30, memory_utilization=0.3)
    own = on_processors(min_memory_bytes=64 * 2**30, env={"VLLM_CPU_KVCACHE_SPACE": "5"})
    assert own["VLLM_CPU_KVCACHE_SPACE"] == "5"


def test_a_number_of_threads_is_heeded_only_where_vllm_binds_none_itself() -> None:
    env = cases()["vllm-cpu-limited"].launch.env
    assert (env["OMP_NUM_THREADS"], env["VLLM_CPU_OMP_THREADS_BIND"]) == ("16", "nobind")
    assert "VLLM_CPU_OMP_THREADS_BIND" not in cases()["vllm-cpu"].launch.env


def test_attention_copies_of_sglang_meet_after_all_other_ports_of_the_leader() -> None:
    alone, follower = (cases()[f"sglang-attention-copies{end}"].launch.argv for end in ("", "-follower"))
    assert alone[alone.index("--dist-init-addr") + 1] == "127.0.0.1:18001"
    assert follower[follower.index("--dist-init-addr") + 1] == "10.0.0.1:18003"


def test_sglang_chooses_the_ports_of_its_copies_itself() -> None:
    copies = cases()["sglang-copies-and-experts"].launch.argv
    assert not {"--nccl-port", "--dist-init-addr"} & set(copies)


@pytest.mark.parametrize(
    ("engine", "module"), [("vllm", "vllm.entrypoints.cli.main"), ("vllm", "/opt/v/bin/vllm"), ("sglang", "/o/sglang")]
)
def test_a_command_that_takes_subcommands_is_told_to_serve(engine: str, module: str) -> None:
    engines = (contract.Engine(engine, ("/opt/v/bin/python3", "-m", module), "9.9.9"),)
    on = with_facts(N1, replace(facts("n1"), engines=engines))
    assert started(big(engine), member(0, on, 8), on=on).argv[2:4] == (module, "serve")


@pytest.mark.parametrize("engine", ["vllm", "sglang", "sim"])
def test_an_engine_is_told_its_own_address_and_nobody_elses(engine: str) -> None:
    for end, address in (("leader", "10.0.0.1"), ("follower", "10.0.0.2")):
        name = f"{engine}-{end}" if engine == "sim" else f"{engine}-fabric-{end}"
        env = cases()[name].launch.env
        assert {value for key, value in env.items() if key.endswith("HOST_IP")} <= {address}


@pytest.mark.parametrize("kind", sorted(ENGINES))
def test_what_an_engine_takes_its_key_from_is_one_thing_for_catalogs_and_gateways(kind: str) -> None:
    engine = engine_of(kind)
    assert engine is not None
    assert engine.traits.api_key_variable == ENGINES[kind].key_variable

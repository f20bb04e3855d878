# SPDX-License-Identifier: Apache-2.0
"""How members of replicas are started: whole command lines and environments, as golden files in golden/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.engines.base import Launch
from llmgw.model.ids import DeviceId
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract
from tests.support import golden
from tests.support.fleets import facts, profile, with_facts
from tests.support.launches import (
    HUB,
    N1,
    N2,
    STORED,
    big,
    by_fabric,
    cases,
    everything,
    looking,
    member,
    over_two,
    seen,
    started,
    with_vulkan,
)

HERE = Path(__file__).parent
SNAPSHOT = "/srv/hf/hub/models--org--big/snapshots/abc"


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


def fetched(*weights: contract.Weights, given: str | None = None) -> Launch:
    on = looking(*weights, given=given)
    on = replace(on, settings=STORED.settings)
    return started(big("vllm", model=replace(HUB, fetch=True)), member(0, on, 8), on=on)


def test_weights_that_llmgw_fetches_are_named_by_their_id_and_found_in_the_first_model_directory() -> None:
    launch = fetched()
    assert launch.argv[2] == "org/big"
    assert launch.argv[launch.argv.index("--revision") + 1] == "main"
    assert launch.env["HF_HUB_CACHE"] == "/srv/hub"
    assert launch.env["HF_HUB_OFFLINE"] == "1"


def test_an_engine_goes_on_as_it_is_when_the_fetched_weights_are_seen() -> None:
    there = seen("/srv/hub/models--org--big/snapshots/abc")
    assert fetched(there, given="org/big") == fetched(given="org/big")


def test_fetched_weights_that_a_node_has_elsewhere_are_taken_from_there() -> None:
    launch = fetched(seen(SNAPSHOT))
    assert launch.argv[2] == SNAPSHOT
    assert launch.env == fetched().env


def test_an_engine_that_fetches_itself_may_ask_the_hub() -> None:
    assert not [key for key in started(big("vllm"), member(0, N1, 8), on=N1).env if key.startswith("HF_")]


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

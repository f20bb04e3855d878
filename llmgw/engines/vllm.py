# SPDX-License-Identifier: Apache-2.0
"""vLLM: command line, environment and rules (domain.md A; the parsers of vLLM 0.24 to 0.33).

Several nodes are joined without Ray: every member runs the same command with its rank, and all but the leader are
headless: they have no HTTP, and only systemd tells how they are.
"""

from __future__ import annotations

from llmgw.engines.base import (
    Launch,
    MetricNames,
    Traits,
    device_env,
    options,
    readiness,
    refused,
)
from llmgw.engines.members import RENDEZVOUS_OFFSET, network, own_address, rendezvous
from llmgw.engines.unit_before import command_on, hub_on, model_on
from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

KIND = EngineKind("vllm")
SHUTDOWN_TIMEOUT_S = 20
"""How long vLLM lets requests finish after SIGTERM; its own default of 0 aborts them."""
PATIENCE_S = 86_400
"""How long vLLM waits for its own ranks. It is llmgw's own deadline that counts, and that one changes with the profile
and with what is seen of the weights; this one is in the environment, where any change would restart.
"""
EXIT_S = 10
"""vLLM exits up to this long after its last stream has ended (domain.md K)."""
_GIB = 2**30
_ENTRANCES = frozenset({"vllm", "vllm.entrypoints.cli.main"})
"""Last words of a command that takes the name of a subcommand."""


class Vllm:
    """The vLLM engine."""

    traits = Traits(
        kind=KIND,
        default_command="/opt/llmgw/engines/vllm/current/bin/vllm",
        drains_on_sigterm=True,
        aborts_on_disconnect=True,
        api_key_variable="VLLM_API_KEY",
        metrics=MetricNames(
            "vllm:num_requests_running",
            "vllm:num_requests_waiting",
            "vllm:kv_cache_usage_perc",
            "vllm:prefix_cache_hits_total",
            "vllm:prefix_cache_queries_total",
        ),
    )

    def refusal(self, profile: ProfileSpec) -> str | None:
        """See `Engine.refusal`."""
        return refused(profile)

    def launch(self, assignment: Assignment, member: Member, node: Node, leader: Node) -> Launch:
        """See `Engine.launch`."""
        profile = assignment.profile
        served = assignment.service.served_name
        command = command_on(self.traits, assignment, member, node)
        if command[-1].rpartition("/")[2] in _ENTRANCES:
            command = (*command, "serve")
        source = model_on(assignment, member, node)
        argv = [*command, source, "--served-model-name", served]
        if profile.model.revision is not None and source == profile.model.hf_id:
            argv += ["--revision", profile.model.revision]
        if member.rank == 0:
            argv += ["--host", node.address, "--port", str(member.port)]
        argv += _parallel(profile, member)
        if len(assignment.members) > 1:
            argv += _ranks(assignment, member, leader)
        argv += _limits(profile)
        argv += ["--shutdown-timeout", str(SHUTDOWN_TIMEOUT_S)]
        env = {"VLLM_ENGINE_READY_TIMEOUT_S": str(PATIENCE_S)} | _processor(profile) | profile.env
        env |= device_env(profile, member) | network(assignment, member)
        env |= hub_on(assignment, member, node)
        address = own_address(node)
        if address is not None:
            env["VLLM_HOST_IP"] = address
        ready = readiness(assignment, member, node, leader, self.traits, source=source)
        return Launch((*argv, *profile.args), env, ready, SHUTDOWN_TIMEOUT_S + EXIT_S)


def _parallel(profile: ProfileSpec, member: Member) -> list[str]:
    argv = []
    if not profile.on_cpu:
        argv += ["--tensor-parallel-size", str(profile.tensor_parallel)]
    if profile.pipeline_parallel > 1:
        argv += ["--pipeline-parallel-size", str(profile.pipeline_parallel)]
    if profile.data_parallel > 1:
        # On one node vLLM's parts talk through files, unless they may be scaled: then this port is opened, and its
        # default is the same for every replica of the node.
        port = str(member.port + RENDEZVOUS_OFFSET)
        argv += ["--data-parallel-size", str(profile.data_parallel), "--data-parallel-rpc-port", port]
    if profile.expert_parallel:
        argv.append("--enable-expert-parallel")
    return argv


def _processor(profile: ProfileSpec) -> dict[str, str]:
    """What keeps replicas without devices from one another: by itself each takes nearly all of a NUMA node's memory for
    its KV cache, and the same cores as the next.
    """
    env: dict[str, str] = {}
    if not profile.on_cpu:
        return env
    if profile.min_memory_bytes is not None and profile.memory_utilization is None:
        env["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, profile.min_memory_bytes // 2 // _GIB))
    if profile.threads is not None:
        env["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
    return env


def _ranks(assignment: Assignment, member: Member, leader: Node) -> list[str]:
    address, port = rendezvous(assignment, leader)
    nodes = ["--nnodes", str(len(assignment.members)), "--node-rank", str(member.rank)]
    meeting = ["--master-addr", address, "--master-port", str(port)]
    return [*nodes, *meeting, *(["--headless"] if member.rank else [])]


def _limits(profile: ProfileSpec) -> list[str]:
    argv = options(
        ("--quantization", profile.quantization),
        ("--kv-cache-dtype", profile.kv_cache_dtype),
        ("--max-model-len", profile.max_model_len),
        ("--gpu-memory-utilization", profile.memory_utilization),
        ("--max-num-seqs", profile.parallel_requests),
    )
    if profile.lora:
        argv += ["--enable-lora", "--lora-modules", *(f"{name}={path}" for name, path in sorted(profile.lora.items()))]
    return argv

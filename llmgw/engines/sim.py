# SPDX-License-Identifier: Apache-2.0
"""The simulator: a stand-in for vLLM in tests and demonstrations. It answers like an engine and computes nothing.

Over several nodes it is told what vLLM is told: all but the leader are headless.
"""

from __future__ import annotations

from llmgw.engines.base import Launch, MetricNames, Traits, readiness, refused
from llmgw.engines.members import rendezvous
from llmgw.engines.unit_before import command_on
from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

KIND = EngineKind("sim")
SHUTDOWN_TIMEOUT_S = 20
EXIT_S = 10
"""As vLLM's."""


class Simulator:
    """The simulator engine."""

    traits = Traits(
        kind=KIND,
        default_command="/opt/llmgw/engines/sim/current/bin/llmgw-sim",
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
        argv = [
            *command_on(self.traits, assignment, member, node),
            "--model",
            profile.model.name,
            "--served-model-name",
            served,
            *(["--host", node.address, "--port", str(member.port)] if member.rank == 0 else []),
            *_ranks(assignment, member, leader),
            "--shutdown-timeout",
            str(SHUTDOWN_TIMEOUT_S),
        ]
        if profile.parallel_requests is not None:
            argv += ["--max-num-seqs", str(profile.parallel_requests)]
        if profile.max_model_len is not None:
            argv += ["--max-model-len", str(profile.max_model_len)]
        env = dict(profile.env)
        if member.devices:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(member.devices)
        # It reads no weights, so that none that are seen may change what it is told.
        source = profile.model.hf_id or profile.model.name
        ready = readiness(assignment, member, node, leader, self.traits, source=source)
        return Launch((*argv, *profile.args), env, ready, SHUTDOWN_TIMEOUT_S + EXIT_S)


def _ranks(assignment: Assignment, member: Member, leader: Node) -> list[str]:
    if len(assignment.members) == 1:
        return []
    address, port = rendezvous(assignment, leader)
    nodes = ["--nnodes", str(len(assignment.members)), "--node-rank", str(member.rank)]
    return [*nodes, "--master-addr", address, "--master-port", str(port), *(["--headless"] if member.rank else [])]

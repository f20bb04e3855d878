# SPDX-License-Identifier: Apache-2.0
"""The simulator: a stand-in for vLLM in tests and demonstrations. It answers like an engine and computes nothing."""

from __future__ import annotations

from llmgw.engines.base import Launch, MetricNames, Traits, command_of, http_readiness, refused
from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

KIND = EngineKind("sim")
SHUTDOWN_TIMEOUT_S = 20


class Simulator:
    """The simulator engine."""

    traits = Traits(
        kind=KIND,
        default_command="/opt/llmgw/engines/sim/bin/llmgw-sim",
        drains_on_sigterm=True,
        aborts_on_disconnect=True,
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

    def launch(self, assignment: Assignment, member: Member, node: Node, leader: Node) -> Launch:  # noqa: ARG002 - alone
        """See `Engine.launch`."""
        profile = assignment.profile
        served = assignment.service.served_name
        argv = [
            *command_of(self.traits, node),
            "--model",
            profile.model.name,
            "--served-model-name",
            served,
            "--host",
            node.address,
            "--port",
            str(member.port),
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
        readiness = http_readiness(assignment, member, node, self.traits)
        return Launch((*argv, *profile.args), env, readiness, SHUTDOWN_TIMEOUT_S + 10)

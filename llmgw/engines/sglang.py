# SPDX-License-Identifier: Apache-2.0
"""SGLang: command line, environment and rules (domain.md B; the parsers of SGLang 0.5.20 to 0.5.23).

Every member of a replica runs the same command with its rank. Those that do not lead answer 200 on /health whatever
happens, so they are judged by their units and the leader. Long option names only: `--pp` is ambiguous.
"""

from __future__ import annotations

from llmgw.capability.derived_ports import ports_from_the_meeting
from llmgw.engines.base import (
    Launch,
    MetricNames,
    Traits,
    device_env,
    options,
    readiness,
    refused,
)
from llmgw.engines.members import (
    PORTS_OF_A_MEMBER,
    RENDEZVOUS_OFFSET,
    network,
    own_address,
    rendezvous,
    with_port,
)
from llmgw.engines.unit_before import command_on, hub_on, model_on
from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

KIND = EngineKind("sglang")
READY_PATH = "/ready"
"""/health generates a token each time it is asked; /ready answers at once, and only when requests are taken."""
STOP_TIMEOUT_S = 30
"""SGLang drains without a limit of its own and looks every 5 s (domain.md K): what was in flight was drained before."""


class SGLang:
    """The SGLang engine."""

    traits = Traits(
        kind=KIND,
        default_command="/opt/llmgw/engines/sglang/current/bin/sglang",
        drains_on_sigterm=True,
        aborts_on_disconnect=True,
        health_path=READY_PATH,
        metrics=MetricNames("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
    )

    def refusal(self, profile: ProfileSpec) -> str | None:
        """See `Engine.refusal`."""
        return refused(profile)

    def launch(self, assignment: Assignment, member: Member, node: Node, leader: Node) -> Launch:
        """See `Engine.launch`."""
        profile = assignment.profile
        served = assignment.service.served_name
        command = command_on(self.traits, assignment, member, node)
        if command[-1].rpartition("/")[2] == "sglang":
            command = (*command, "serve")
        source = model_on(assignment, member, node)
        argv = [*command, "--model-path", source, "--served-model-name", served]
        if profile.model.revision is not None and source == profile.model.hf_id:
            argv += ["--revision", profile.model.revision]
        argv += ["--host", node.address, "--port", str(member.port), "--enable-metrics"]
        argv += ["--tp-size", str(profile.tensor_parallel)]
        argv += _parallel(profile)
        if len(assignment.members) > 1:
            argv += ["--nnodes", str(len(assignment.members)), "--node-rank", str(member.rank)]
        argv += _meeting(assignment, leader)
        argv += _limits(profile)
        env = profile.env | device_env(profile, member) | network(assignment, member)
        env |= hub_on(assignment, member, node)
        if len(assignment.members) > 1 and (address := own_address(node)) is not None:
            env["SGLANG_HOST_IP"] = address
        if member.domain is not None:
            env["NCCL_CUMEM_ENABLE"] = "1"  # SGLang sets 0 where nobody did, and that turns multi-node NVLink off
        ready = readiness(assignment, member, node, leader, self.traits, source=source)
        return Launch((*argv, *profile.args), env, ready, STOP_TIMEOUT_S)


def _parallel(profile: ProfileSpec) -> list[str]:
    argv = []
    if profile.pipeline_parallel > 1:
        argv += ["--pp-size", str(profile.pipeline_parallel)]
    if profile.data_parallel > 1:
        argv += ["--dp-size", str(profile.data_parallel)]
    if profile.expert_parallel:
        argv += ["--ep-size", str(profile.tensor_parallel)]
    return argv


def _meeting(assignment: Assignment, leader: Node) -> list[str]:
    """Where the ranks meet. With more ports in a row from there on, it is after all others of the leader."""
    profile, several = assignment.profile, len(assignment.members) > 1
    if ports_from_the_meeting(profile.engine, profile.args):
        offset = PORTS_OF_A_MEMBER if several else RENDEZVOUS_OFFSET
        address = leader.address if several else "127.0.0.1"
        return ["--dist-init-addr", with_port(address, assignment.leader.port + offset)]
    return ["--dist-init-addr", with_port(*rendezvous(assignment, leader))] if several else []


def _limits(profile: ProfileSpec) -> list[str]:
    argv = options(
        ("--quantization", profile.quantization),
        ("--kv-cache-dtype", profile.kv_cache_dtype),
        ("--context-length", profile.max_model_len),
        ("--mem-fraction-static", profile.memory_utilization),
        ("--max-running-requests", profile.parallel_requests),
    )
    if profile.lora:
        argv += ["--enable-lora", "--lora-paths", *(f"{name}={path}" for name, path in sorted(profile.lora.items()))]
    return argv

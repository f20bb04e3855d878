# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's llama-server: command line, environment and rules.

Every option that llama-server would choose by itself is given (domain.md C): its port default has changed between
builds, and
`--fit` silently adjusts what is not set, so that a placement would not mean the same thing twice.
"""

from __future__ import annotations

from llmgw.engines.base import Launch, MetricNames, Traits, command_of, http_readiness, refused
from llmgw.engines.weights_path import given_before, model_source
from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

KIND = EngineKind("llama.cpp")
STOP_TIMEOUT_S = 15
"""llama-server does not drain and can hang on SIGTERM while a client stays (domain.md K): what is in flight was
drained before.
"""


class LlamaCpp:
    """The llama.cpp engine."""

    traits = Traits(
        kind=KIND,
        default_command="/opt/llmgw/engines/llama.cpp/bin/llama-server",
        drains_on_sigterm=False,
        aborts_on_disconnect=False,
        api_key_variable="LLAMA_API_KEY",
        metrics=MetricNames("llamacpp:requests_processing", "llamacpp:requests_deferred"),
        log_patterns={
            "model-missing": r"failed to open GGUF file|No such file",
            "out-of-memory": r"failed to allocate|out of memory",
        },
    )

    def refusal(self, profile: ProfileSpec) -> str | None:
        """See `Engine.refusal`. Layers are spread over all devices, whether `gpus` or `tensor_parallel` gave them."""
        if profile.model.path is None:
            return f"llama.cpp is given a GGUF file: set `path` of model {profile.model.name}"
        return refused(profile)

    def launch(self, assignment: Assignment, member: Member, node: Node, leader: Node) -> Launch:  # noqa: ARG002 - alone
        """See `Engine.launch`."""
        profile = assignment.profile
        served = assignment.service.served_name
        argv = [
            *command_of(self.traits, node),
            "--model",
            model_source(profile.model, node, given_before(assignment, member, node, "--model")),
            "--alias",
            served,
            "--host",
            node.address,
            "--port",
            str(member.port),
            "--metrics",
            "--n-gpu-layers",
            "0" if profile.on_cpu else "999",
        ]
        if profile.max_model_len is not None:
            argv += ["--ctx-size", str(profile.max_model_len * (profile.parallel_requests or 1))]
        if profile.parallel_requests is not None:
            argv += ["--parallel", str(profile.parallel_requests)]
        if profile.threads is not None:
            argv += ["--threads", str(profile.threads)]
        env = dict(profile.env)
        if member.devices:
            env |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(member.devices)}
        ready = http_readiness(assignment, member, node, self.traits)
        return Launch((*argv, *profile.args), env, ready, STOP_TIMEOUT_S)

# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's llama-server: command line, environment and rules.

Every option that llama-server would choose by itself is given (domain.md C): its port default has changed between
builds, and
`--fit` silently adjusts what is not set, so that a placement would not mean the same thing twice.
"""

from __future__ import annotations

from llmgw.engines.base import Launch, MetricNames, Traits, readiness, refused
from llmgw.engines.unit_before import command_on, model_on, variable_before
from llmgw.model.ids import EngineKind
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec

KIND = EngineKind("llama.cpp")
VULKAN = "GGML_VK_VISIBLE_DEVICES"
STOP_TIMEOUT_S = 15
"""llama-server does not drain and can hang on SIGTERM while a client stays (domain.md K): what is in flight was
drained before.
"""


class LlamaCpp:
    """The llama.cpp engine."""

    traits = Traits(
        kind=KIND,
        default_command="/opt/llmgw/engines/llama.cpp/current/bin/llama-server",
        drains_on_sigterm=False,
        listens_while_loading=True,
        aborts_on_disconnect=False,
        api_key_variable="LLAMA_API_KEY",
        metrics=MetricNames("llamacpp:requests_processing", "llamacpp:requests_deferred"),
    )

    def refusal(self, profile: ProfileSpec) -> str | None:
        """See `Engine.refusal`. Layers are spread over all devices, whether `gpus` or `tensor_parallel` gave them."""
        if profile.model.path is None:
            return f"llama.cpp is given a GGUF file: set `path` of model {profile.model.name}"
        return refused(profile)

    def launch(self, assignment: Assignment, member: Member, node: Node, leader: Node) -> Launch:
        """See `Engine.launch`."""
        profile = assignment.profile
        served = assignment.service.served_name
        source = model_on(assignment, member, node)
        argv = [
            *command_on(self.traits, assignment, member, node),
            "--model",
            source,
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
        # Layers stay on the host at 0, but a build with CUDA would still compute large prompts on a card that it sees.
        env = profile.env | {"CUDA_VISIBLE_DEVICES": ",".join(member.devices)}
        if member.devices:
            env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if (vulkan := _vulkan(assignment, member, node)) is not None:
            env[VULKAN] = vulkan
        ready = readiness(assignment, member, node, leader, self.traits, source=source)
        return Launch((*argv, *profile.args), env, ready, STOP_TIMEOUT_S)


def _vulkan(assignment: Assignment, member: Member, node: Node) -> str | None:
    """The Vulkan indices of the member's cards, for a build that knows no UUIDs (P6); None where they were not
    observed, and on MIG, which Vulkan does not see. Other builds ignore them.

    What the unit says stays while nobody can tell.
    """
    cards = node.facts.gpus if node.facts is not None else None
    indices = {card.uuid: card.vulkan_index for card in cards or ()}
    if not member.devices or any(uuid.startswith("MIG-") for uuid in member.devices):
        return None
    found = [indices.get(uuid) for uuid in member.devices]
    if None in found:
        return variable_before(assignment, member, node, VULKAN)
    return ",".join(map(str, found))

# SPDX-License-Identifier: Apache-2.0
"""The hard constraint that a model's attention heads can be shared out evenly (domain.md A1): vLLM and SGLang refuse to
start otherwise. Key-value heads need not divide, they are copied; pipeline stages do not matter.
"""

from __future__ import annotations

from llmgw.model.placement import Rejection
from llmgw.placement.ledger import Ledger
from llmgw.placement.memory.device_memory import Appetite, Hungry

SHARING = ("vllm", "sglang")
"""Engines whose tensor parallelism shares heads; llama.cpp cuts layers."""
_MOST = 16
"""Sizes up to this one are offered."""


def heads_of(appetite: Appetite | None) -> int | None:
    """The attention heads of a model; None when they are unknown."""
    tensors = appetite.known.tensors if appetite is not None else None
    return tensors.architecture.attention_heads if tensors is not None and tensors.architecture else None


def heads_divide(ask: Hungry, ledger: Ledger) -> Rejection | None:
    """`tensor_parallel` divides the attention heads of the model, as far as they are known."""
    profile, heads = ask.profile, heads_of(ask.appetite)
    parts = profile.tensor_parallel
    if heads is None or profile.engine not in SHARING or heads % parts == 0:
        return None
    fitting = ", ".join(str(one) for one in range(1, max(parts, _MOST) + 1) if heads % one == 0)
    which = f"which tensor_parallel {parts} does not divide ({fitting} do)"
    message = f"{profile.model.name} has {heads} attention heads, {which}"
    name, node = ask.service.name, ledger.node.name
    return Rejection(name, profile.name, node, "heads", message, heads, parts, "attention heads")

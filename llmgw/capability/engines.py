# SPDX-License-Identifier: Apache-2.0
"""Which engines there are tables of, and what an engine cannot do at all, on whatever device."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.capability import sglang, single_process, vllm
from llmgw.capability.abilities import Abilities, Wish

ENGINES: dict[str, Abilities] = {
    "llama.cpp": single_process.LLAMA_CPP,
    "sglang": sglang.ABILITIES,
    "sim": single_process.SIMULATOR,
    "vllm": vllm.ABILITIES,
}


@dataclass(frozen=True, slots=True)
class Inability:
    """One thing that a profile asks of an engine that cannot do it: the field that asks, why not, and what to do."""

    field: str
    why: str
    fix: str


def inabilities(wish: Wish) -> tuple[Inability, ...]:
    """Everything that the profile's engine cannot do; empty when it can do all, and for an engine without a table."""
    can, kind = ENGINES.get(wish.engine), wish.engine
    if can is None:
        return ()
    found: list[Inability] = []
    stages = wish.pipeline_parallel or 1
    if wish.nodes > 1 and not can.multi_node:
        why = f"{kind} runs on one node, the profile asks for {wish.nodes}"
        found.append(Inability("nodes", why, "Remove it, or use an engine that spans nodes: vllm or sglang."))
    if stages > 1 and not can.pipeline_parallel:
        why = f"{kind} has no pipeline parallelism, the profile asks for {stages} stages"
        found.append(Inability("pipeline_parallel", why, "Remove it, or use vllm or sglang."))
    if wish.data_parallel > 1:
        found += _copies(wish, can)
    if wish.expert_parallel and not can.expert_parallel:
        why = f"{kind} has no expert parallelism"
        found.append(Inability("expert_parallel", why, "Remove it, or use vllm or sglang."))
    if wish.devices in ((), ("cpu",)) and not can.cpu:
        why = f"{kind} needs devices, the profile runs on `cpu`"
        found.append(Inability("devices", why, "Name device classes, or use llama.cpp or vllm."))
    allowed_by = can.deprecated_methods.get(wish.quantization or "")
    if allowed_by is not None and allowed_by not in wish.args:
        why = f"{kind} is about to drop quantization {wish.quantization} and refuses it"
        found.append(Inability("quantization", why, f"Use another method, or add `{allowed_by}` to `args`."))
    unused = (name for name in can.ignored if getattr(wish, name, None))
    found += [Inability(name, f"{kind} has no use for {name}", "Remove it from the profile.") for name in unused]
    return tuple(found)


def _copies(wish: Wish, can: Abilities) -> list[Inability]:
    """Copies inside a replica meet at ports of one node, and each has devices of its own."""
    why = None
    if not can.data_parallel:
        why = f"{wish.engine} keeps one copy of a model in a replica, the profile asks for {wish.data_parallel}"
    elif wish.nodes > 1:
        why = f"data_parallel {wish.data_parallel} over {wish.nodes} nodes is not supported"
    elif wish.devices in ((), ("cpu",)):
        why = f"data_parallel {wish.data_parallel} needs devices, the profile runs on `cpu`"
    fix = "Remove it: more replicas of the service do the same."
    return [] if why is None else [Inability("data_parallel", why, fix)]

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
    found = []
    stages = wish.pipeline_parallel or 1
    if wish.nodes > 1 and not can.multi_node:
        why = f"{kind} runs on one node, the profile asks for {wish.nodes}"
        found.append(Inability("nodes", why, "Remove it, or use an engine that spans nodes: vllm or sglang."))
    if stages > 1 and not can.pipeline_parallel:
        why = f"{kind} has no pipeline parallelism, the profile asks for {stages} stages"
        found.append(Inability("pipeline_parallel", why, "Remove it, or use vllm or sglang."))
    if wish.devices in ((), ("cpu",)) and not can.cpu:
        why = f"{kind} needs devices, the profile runs on `cpu`"
        found.append(Inability("devices", why, "Name device classes, or use llama.cpp or vllm."))
    unused = (name for name in can.ignored if getattr(wish, name, None))
    found += [Inability(name, f"{kind} has no use for {name}", "Remove it from the profile.") for name in unused]
    return tuple(found)

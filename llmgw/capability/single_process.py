# SPDX-License-Identifier: Apache-2.0
"""What the engines can do of which every member is one process: llama.cpp (domain.md C), on one node, and the
simulator, which stands in for vLLM also over several.

llama.cpp spreads layers over all devices of its process, whatever they are, so that no floor is known for it.
"""

from __future__ import annotations

from llmgw.capability.abilities import Abilities

LLAMA_CPP = Abilities(
    key_variable="LLAMA_API_KEY",
    pipeline_parallel=False,
    multi_node=False,
    cpu=True,
    ignored=("quantization", "kv_cache_dtype", "memory_utilization", "lora"),
)

SIMULATOR = Abilities(
    key_variable="VLLM_API_KEY",
    pipeline_parallel=True,
    multi_node=True,
    cpu=True,
    ignored=("quantization", "kv_cache_dtype", "memory_utilization", "lora", "threads"),
)

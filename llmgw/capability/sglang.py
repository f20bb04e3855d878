# SPDX-License-Identifier: Apache-2.0
"""What SGLang can do, and its floors. Source: domain.md B, read in SGLang 0.5.23; for its FP8 KV cache the rule of C5.

What its packages hold code for and which CUDA they need is not known here.
"""

from __future__ import annotations

from llmgw.capability.abilities import Abilities, Floor

_FP8 = Floor("8.9", "8.0", "weights stay in FP8 and Marlin computes in 16 bits: memory is saved, speed is not")
_FP8_CACHE = Floor("8.9", "8.0", "the cache is kept in FP8 and computed with in 16 bits, where a backend has it at all")

_QUANTIZATION = {
    "fp8": _FP8,
    "w8a8_fp8": Floor("8.9"),
    "modelopt": _FP8,
    "modelopt_fp8": _FP8,
    "modelopt_fp4": Floor("10.0"),
    "nvfp4_online": Floor("10.0"),
    "w4afp8": Floor("9.0"),
    "mxfp4": Floor("8.0"),
    "awq_marlin": Floor("8.0"),
    "gptq_marlin": Floor("8.0"),
    "moe_wna16": Floor("8.0"),
}

ABILITIES = Abilities(
    pipeline_parallel=True,
    multi_node=True,
    cpu=False,
    own_options={
        "--model-path": "model",
        "--tp-size": "tensor_parallel",
        "--tensor-parallel-size": "tensor_parallel",
        "--tp": "tensor_parallel",
        "--pp-size": "pipeline_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "--nnodes": "nodes",
        "--node-rank": "nodes",
        "--dist-init-addr": "nodes",
        "--nccl-init-addr": "nodes",
        "--base-gpu-id": "devices",
        "--gpu-id-step": "devices",
        "--quantization": "quantization",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--context-length": "max_model_len",
        "--mem-fraction-static": "memory_utilization",
        "--max-running-requests": "parallel_requests",
        "--revision": "revision",
        "--enable-lora": "lora",
        "--lora-paths": "lora",
    },
    quantization=_QUANTIZATION,
    kv_cache={"fp8": _FP8_CACHE, "bf16": Floor("8.0"), "bfloat16": Floor("8.0")},
    other_methods=(
        "auto-round",
        "awq",
        "bitsandbytes",
        "compressed-tensors",
        "gguf",
        "gptq",
        "modelopt_mixed",
        "mxfp8",
        "petit_nvfp4",
        "quark",
        "w8a8_int8",
    ),
    other_cache_types=("auto", "fp4"),
    dtype={"bfloat16": Floor("8.0")},
)

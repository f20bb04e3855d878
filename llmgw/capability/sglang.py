# SPDX-License-Identifier: Apache-2.0
"""What SGLang can do, and its floors. Source: the wheels of SGLang 0.5.23 and sglang-kernel 0.4.10 (each method's
`get_min_capability`, code sections of the libraries, dependencies); for its FP8 KV cache the rule of C5.
"""

from __future__ import annotations

from llmgw.capability.abilities import Abilities, Floor, Release, Wheel

_FP8 = Floor("8.9", "8.0", "weights stay in FP8 and Marlin computes in 16 bits: memory is saved, speed is not")
_FP8_CACHE = Floor("8.9", "8.0", "the cache is kept in FP8 and computed with in 16 bits, where a backend has it at all")

_NVFP4 = Floor("10.0", "8.0", "weights stay in FP4 and Marlin computes in 16 bits: memory is saved, speed is not")

_QUANTIZATION = {
    "fp8": _FP8,
    "w8a8_fp8": Floor("8.9"),
    "modelopt": Floor("8.9"),
    "modelopt_fp8": Floor("8.9"),
    "modelopt_fp4": _NVFP4,
    "modelopt_mixed": _NVFP4,
    "nvfp4_online": Floor("10.0"),
    "mxfp8": Floor("10.0"),
    "w4afp8": Floor("9.0"),
    "mxfp4": Floor("8.0"),
    "awq_marlin": Floor("8.0"),
    "gptq_marlin": Floor("8.0"),
}

ABILITIES = Abilities(
    pipeline_parallel=True,
    multi_node=True,
    data_parallel=True,
    expert_parallel=True,
    cpu=False,
    own_options={
        "--model-path": "model",
        "--tp-size": "tensor_parallel",
        "--tensor-parallel-size": "tensor_parallel",
        "--tp": "tensor_parallel",
        "--pp-size": "pipeline_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "--dp-size": "data_parallel",
        "--data-parallel-size": "data_parallel",
        "--dp": "data_parallel",
        "--ep-size": "expert_parallel",
        "--expert-parallel-size": "expert_parallel",
        "--ep": "expert_parallel",
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
        "auto-round-int8",
        "awq",
        "bitsandbytes",
        "compressed-tensors",
        "gguf",
        "gptq",
        "humming",
        "mlx_q4",
        "mlx_q8",
        "modelslim",
        "moe_wna16",
        "mxfp_w4a8",
        "petit_nvfp4",
        "quark",
        "quark_int4fp8_moe",
        "quark_mxfp4",
        "unquant",
        "w8a8_int8",
    ),
    other_cache_types=("auto", "fp4", "mxfp8", "nvfp4"),
    dtype={"bfloat16": Floor("8.0")},
    wheel=Wheel("SGLang's kernel package", ("8.0", "8.9", "9.0", "10.0", "12.0")),
    release=Release(
        newest=(0, 5, 23),
        since=(0, 5, 20),
        why="older ones have no /ready, by which it is seen that requests are taken",
    ),
    cuda=(((0, 4), 12), ((0, 5, 11), 13)),
)

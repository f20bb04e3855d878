# SPDX-License-Identifier: Apache-2.0
"""What vLLM can do, and its floors. Source: domain.md A1 to A3, read in the wheel of vLLM 0.33.0.

Methods that keep weights small and compute in 16 bits by nature (AWQ, GPTQ, MXFP4 of gpt-oss) have no slow path: what
runs is what their names say. `compressed-tensors` and `quark` name a container whose scheme is in the weights, so only
the container's floor is known here.
"""

from __future__ import annotations

from llmgw.capability.abilities import Abilities, Floor, Release, Wheel

_FP8 = Floor("8.9", "7.5", "weights stay in FP8 and Marlin computes in 16 bits: memory is saved, speed is not")
_FP8_FROM_80 = Floor("8.9", "8.0", _FP8.instead)
_NVFP4 = Floor("10.0", "7.5", "weights stay in FP4 and Marlin computes in 16 bits: memory is saved, speed is not")
_FP8_CACHE = Floor(
    "8.9", "8.0", "only FlashInfer has it there, and a model that FlashInfer does not take fails to load"
)

_QUANTIZATION = {
    "fp8": _FP8,
    "fp8_per_tensor": _FP8,
    "fp8_per_block": _FP8,
    "fp8_per_channel": _FP8,
    "fbgemm_fp8": _FP8_FROM_80,
    "modelopt": _FP8_FROM_80,
    "modelopt_fp4": _NVFP4,
    "nvfp4_per_token": _NVFP4,
    "modelopt_mxfp8": Floor("8.0"),
    "mxfp8": Floor("7.5"),
    "mxfp4": Floor("8.0"),
    "gpt_oss_mxfp4": Floor("8.0"),
    "awq": Floor("7.5"),
    "auto_awq": Floor("7.5"),
    "awq_marlin": Floor("7.5"),
    "gptq": Floor("6.0"),
    "auto_gptq": Floor("6.0"),
    "gptq_marlin": Floor("7.5"),
    "compressed-tensors": Floor("7.0"),
    "quark": Floor("7.0"),
    "moe_wna16": Floor("7.0"),
    "experts_int8": Floor("8.0"),
    "torchao": Floor("7.5"),
    "humming": Floor("7.5"),
    "inc": Floor("6.0"),
    "fp_quant": Floor("10.0"),
}

_KV_CACHE = {
    "fp8": _FP8_CACHE,
    "nvfp4": Floor("8.0"),
    "bfloat16": Floor("8.0"),
}

ABILITIES = Abilities(
    pipeline_parallel=True,
    multi_node=True,
    data_parallel=True,
    key_variable="VLLM_API_KEY",
    expert_parallel=True,
    cpu=True,
    own_options={
        "--tensor-parallel-size": "tensor_parallel",
        "-tp": "tensor_parallel",
        "--pipeline-parallel-size": "pipeline_parallel",
        "-pp": "pipeline_parallel",
        "--nnodes": "nodes",
        "-n": "nodes",
        "--node-rank": "nodes",
        "-r": "nodes",
        "--master-addr": "nodes",
        "--master-port": "nodes",
        "--headless": "nodes",
        "--data-parallel-size": "data_parallel",
        "-dp": "data_parallel",
        "--data-parallel-rpc-port": "data_parallel",
        "-dpp": "data_parallel",
        "--enable-expert-parallel": "expert_parallel",
        "-ep": "expert_parallel",
        "--device-ids": "devices",
        "--quantization": "quantization",
        "-q": "quantization",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--max-model-len": "max_model_len",
        "--gpu-memory-utilization": "memory_utilization",
        "--max-num-seqs": "parallel_requests",
        "--revision": "revision",
        "--enable-lora": "lora",
        "--lora-modules": "lora",
    },
    quantization=_QUANTIZATION,
    kv_cache=_KV_CACHE,
    other_methods=("deepseek_v4_fp8", "int8_per_channel_weight_only", "modelopt_mixed", "online"),
    other_cache_types=("float16", "int4", "int8", "octave", "turboquant", "ultraquant"),
    deprecated_methods={
        "fbgemm_fp8": "--allow-deprecated-quantization",
        "fp_quant": "--allow-deprecated-quantization",
    },
    dtype={"bfloat16": Floor("8.0")},
    wheel=Wheel("vLLM's wheel", ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"), ("8.0",)),
    release=Release(
        newest=(0, 33, 0),
        since=(0, 18),
        why="older ones do not know --shutdown-timeout, without which stopping cuts off what is being answered",
        devices_since=(0, 24),
        devices_why="older ones take no UUIDs in CUDA_VISIBLE_DEVICES",
    ),
    cuda=(((0, 9), 12), ((0, 20), 13)),
)

# SPDX-License-Identifier: Apache-2.0
"""Filesystems of the showcase and the weights that lie on them."""

from __future__ import annotations

import json
from dataclasses import replace

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config import read_config
from llmgw.nodekit import contract
from tests.support.real_models import MODELS
from tests.support.showcase.invented import GB, between, commit

LUSTRE = contract.Filesystem(
    "/lustre",
    "10.60.0.5@o2ib:10.60.0.6@o2ib:/models",
    "lustre",
    total_bytes=1_800_000 * GB,
    free_bytes=412_000 * GB,
    shared=True,
    read_only=False,
    transport="rdma",
    remote=True,
    answers=True,
    directories=("/lustre/models",),
)
SIZES_GB: dict[str, tuple[float, int]] = {
    "BAAI/bge-m3": (2.3, 1),
    "BAAI/bge-reranker-v2-m3": (2.3, 1),
    "Qwen/Qwen2.5-Coder-32B-Instruct": (65.5, 14),
    "Qwen/Qwen2.5-VL-72B-Instruct": (146.8, 38),
    "Qwen/Qwen3-14B": (29.5, 8),
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": (236.0, 24),
    "Qwen/Qwen3-32B": (65.5, 17),
    "Qwen/Qwen3-8B": (16.4, 5),
    "Qwen/Qwen3-Embedding-8B": (15.1, 4),
    "RedHatAI/Llama-3.1-405B-Instruct-FP8-dynamic": (410.1, 87),
    "deepseek-ai/DeepSeek-R1": (688.6, 163),
    "deepseek-ai/DeepSeek-V3.2": (689.5, 163),
    "google/gemma-3-27b-it": (54.9, 12),
    "meta-llama/Llama-3.3-70B-Instruct": (141.1, 30),
    "meta-llama/Llama-Guard-3-8B": (16.1, 4),
    "microsoft/phi-4": (29.3, 6),
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": (48.0, 10),
    "moonshotai/Kimi-K2-Instruct": (1029.2, 61),
    "openai/gpt-oss-120b": (65.2, 15),
    "openai/whisper-large-v3": (3.1, 1),
}
"""Size of the safetensors files in GB, and how many there are: near the real ones."""
_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_CONFIGS: dict[str, tuple[str, dict[str, object]]] = {
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": (
        "Qwen3-235B-A22B",
        {"quantization_config": _FP8, "max_position_embeddings": 262144},
    ),
    "Qwen/Qwen3-32B": ("Qwen3-32B", {}),
    "deepseek-ai/DeepSeek-R1": ("DeepSeek-V3", {}),
    "deepseek-ai/DeepSeek-V3.2": ("DeepSeek-V3.2", {}),
    "google/gemma-3-27b-it": ("Gemma-3-27B", {}),
    "meta-llama/Llama-3.3-70B-Instruct": ("Llama-3.1-70B", {}),
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": ("Mistral-Small-24B", {"max_position_embeddings": 131072}),
    "openai/gpt-oss-120b": ("gpt-oss-120b", {}),
}
"""The model of `real_models` that has the same layers, and the values that differ. What a config.json says of the
others is left unknown.
"""
ON_LUSTRE = (
    "Qwen/Qwen2.5-Coder-32B-Instruct",
    "Qwen/Qwen2.5-VL-72B-Instruct",
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-R1",
    "meta-llama/Llama-3.3-70B-Instruct",
)


def local(node: str, terabytes: float = 7.7, free: float | None = None) -> tuple[contract.Filesystem, ...]:
    """The system's disk and the one for models; `free` GB are left on the latter."""
    system = contract.Filesystem(
        "/",
        "/dev/nvme0n1p2",
        "ext4",
        total_bytes=943 * GB,
        free_bytes=between(610, 840, node, "root") * GB,
        shared=False,
        read_only=False,
        transport="pcie",
        remote=False,
        answers=True,
        directories=("/", "/var/lib/llmgw"),
    )
    models = replace(
        system,
        mount_point="/srv/models",
        source="/dev/nvme1n1",
        type="xfs",
        total_bytes=round(terabytes * 1000) * GB,
        free_bytes=round((between(35, 80, node, "models") * terabytes * 10) if free is None else free) * GB,
        directories=("/srv/models",),
    )
    return (system, models)


def on_lustre() -> tuple[contract.Weights, ...]:
    """What every machine that mounts the share sees there."""
    return tuple(weights(model, "/lustre/models", LUSTRE) for model in ON_LUSTRE)


def weights(
    model: str, root: str, filesystem: contract.Filesystem, missing: int = 0, revision: int = 1
) -> contract.Weights:
    """A repository in the layout of the Hugging Face cache; without its last `missing` files it is not complete."""
    size_gb, files = SIZES_GB[model]
    found = commit(model, revision)
    size = round(size_gb * GB * (files - missing) / files)
    named = [f"model-{number:05d}-of-{files:05d}.safetensors" for number in range(files - missing + 1, files + 1)]
    return contract.Weights(
        model,
        f"{root}/models--{model.replace('/', '--')}/snapshots/{found}",
        layout="hf-cache",
        revision=found,
        size_bytes=size,
        complete=not missing,
        missing=tuple(named[:8]),
        missing_count=missing or None,
        files=files - missing,
        tensor_bytes=size - (files - missing) * 12_288,
        mount_point=filesystem.mount_point,
        shared=filesystem.shared,
        format="safetensors",
        refs=("main",),
        architecture=_architecture(model),
    )


def _architecture(model: str) -> contract.ModelArchitecture | None:
    if model not in _CONFIGS:
        return None
    like, changed = _CONFIGS[model]
    return read_config(json.dumps({**MODELS[like].config, **changed}))


def gguf(name: str, size_gb: float, filesystem: contract.Filesystem, repository: str) -> contract.Weights:
    """One GGUF file in the model directory."""
    return contract.Weights(
        name,
        f"/srv/models/{name}",
        layout="gguf",
        size_bytes=round(size_gb * GB),
        complete=True,
        files=1,
        tensor_bytes=round(size_gb * GB) - 6_291_456,
        mount_point=filesystem.mount_point,
        shared=filesystem.shared,
        format="gguf",
        repository=repository,
    )

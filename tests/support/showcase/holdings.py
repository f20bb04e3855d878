# SPDX-License-Identifier: Apache-2.0
"""Which weights lie on which machine of the showcase."""

from __future__ import annotations

from llmgw.nodekit import contract
from tests.support.showcase import disks

_HELD: dict[str, tuple[str, ...]] = {
    "h200-1": ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",),
    "h200-3": ("RedHatAI/Llama-3.1-405B-Instruct-FP8-dynamic", "meta-llama/Llama-3.3-70B-Instruct"),
    "h200-4": ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "openai/gpt-oss-120b"),
    "l40s-1": ("Qwen/Qwen3-8B", "openai/whisper-large-v3"),
    "l40s-2": ("Qwen/Qwen3-8B", "microsoft/phi-4"),
    "l40s-3": ("Qwen/Qwen3-14B", "Qwen/Qwen3-8B", "microsoft/phi-4"),
    "l40s-4": ("Qwen/Qwen3-8B", "openai/whisper-large-v3"),
    "l40s-5": ("Qwen/Qwen3-8B", "microsoft/phi-4"),
    "l40s-6": ("Qwen/Qwen3-8B",),
    "a100-mig-1": ("BAAI/bge-m3", "BAAI/bge-reranker-v2-m3", "Qwen/Qwen3-Embedding-8B", "meta-llama/Llama-Guard-3-8B"),
    "a100-mig-2": ("BAAI/bge-m3", "Qwen/Qwen3-Embedding-8B", "meta-llama/Llama-Guard-3-8B"),
    "a100-mig-3": ("BAAI/bge-m3", "BAAI/bge-reranker-v2-m3"),
    **{f"gb200-{tray:02d}": ("deepseek-ai/DeepSeek-V3.2",) for tray in (1, 2, 3, 4, 7, 9, 10, 11, 13, 14)},
    **{f"gb200-{tray:02d}": ("moonshotai/Kimi-K2-Instruct",) for tray in (5, 6, 8, 12)},
}
_PARTIAL = {"h200-2": ("RedHatAI/Llama-3.1-405B-Instruct-FP8-dynamic", 31)}
_SMOL = ("SmolLM2-1.7B-Instruct-Q4_K_M.gguf", 1.06, "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF")
_QWEN = ("Qwen3-30B-A3B-Q5_K_M.gguf", 21.7, "Qwen/Qwen3-30B-A3B-GGUF")


def weights_on(name: str, models: contract.Filesystem, *, lustre: bool, small: bool) -> tuple[contract.Weights, ...]:
    """What a machine that looks finds: on the share, or on its own disk `models`, where that is not too small."""
    if lustre:
        return disks.on_lustre()
    found = [disks.weights(model, "/srv/models", models) for model in _HELD.get(name, ())]
    if name in _PARTIAL:
        model, missing = _PARTIAL[name]
        found.append(disks.weights(model, "/srv/models", models, missing))
    if name.startswith("cpu-"):
        named = (_QWEN, _SMOL) if not small else (_SMOL,)
        found += [disks.gguf(file, size, models, repository) for file, size, repository in named]
    return tuple(sorted(found, key=lambda one: one.path))

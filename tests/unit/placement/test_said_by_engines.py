# SPDX-License-Identifier: Apache-2.0
"""Estimates against what real engines said in logs that people put into public issues (P13)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.nodekit import contract
from llmgw.placement.memory.estimate import Estimate, estimate
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.parameters import tensor_bytes
from llmgw.placement.memory.span import Span, exactly
from llmgw.placement.memory.weight_bytes import Tensors
from tests.support.memory_models import H100_MIB, architecture, profile

TEXT = (Path(__file__).parents[3] / "docs/reference/memory-estimate.md").read_text(encoding="utf-8")
GIB = 1024
RTX_4090_MIB = 24564
GPT_OSS = Tensors(exactly(65_248_815_744), architecture("gpt-oss-120b"))
QWEN_14B = replace(
    architecture("Qwen3-32B"),
    layers=48,
    full_layers=48,
    attention_heads=40,
    intermediate_size=13824,
    vocab_size=152064,
)


def fp8(model: contract.ModelArchitecture) -> Tensors:
    model = replace(model, quantization="fp8", weight_bits=8)
    size = tensor_bytes(model)
    assert size is not None
    return Tensors(exactly(size.likely), model)


@dataclass(frozen=True)
class Said:
    """`weights`: GiB on a device; `room`: GiB for the KV cache; `tokens`: in it, all as the engine said."""

    where: str
    tensors: Tensors
    total_mib: int
    how: dict[str, Any]
    weights: float | None = None
    room: float | None = None
    tokens: int | None = None


LOGS = {
    "gpt-oss-120b, vLLM, one H100, 0.90": Said(
        "vllm-project/vllm#23278", GPT_OSS, H100_MIB, {"memory_utilization": 0.9}, weights=65.9651, room=-2.14
    ),
    "gpt-oss-120b, vLLM, one H100, 0.95": Said(
        "vllm-project/vllm#27508", GPT_OSS, H100_MIB, {"memory_utilization": 0.95}, room=1.71
    ),
    "Qwen3-235B-A22B-FP8, vLLM, tp 4, H100, 0.90": Said(
        "vllm-project/vllm#21348",
        fp8(architecture("Qwen3-235B-A22B")),
        H100_MIB,
        {"tp": 4, "memory_utilization": 0.9},
        room=8.11,
        tokens=178_880,
    ),
    "Qwen3-235B-A22B-FP8, SGLang, tp 4, H100, 0.93": Said(
        "vllm-project/vllm#21348",
        fp8(architecture("Qwen3-235B-A22B")),
        H100_MIB,
        {"tp": 4, "engine": "sglang", "memory_utilization": 0.93},
        room=16.46,
        tokens=367_404,
    ),
    "DeepSeek-R1-Distill-Qwen-14B, vLLM, tp 2, RTX 4090, 0.98": Said(
        "vllm-project/vllm#13061",
        Tensors(exactly(29_540_067_328), QWEN_14B),
        RTX_4090_MIB,
        {"tp": 2, "memory_utilization": 0.98},
        weights=13.9476,
        room=8.69,
    ),
}


def of(said: Said) -> Estimate:
    found = estimate(profile(**said.how), KnownModel(said.tensors), said.total_mib)
    assert found is not None
    return found


def weights_of(said: Said) -> Span:
    weights = of(said).weights
    assert weights is not None
    return weights * (1 / GIB)


def room_of(said: Said) -> Span:
    room = of(said).room(said.total_mib)
    assert room is not None
    return room * (1 / GIB)


@pytest.mark.parametrize("name", sorted(name for name, said in LOGS.items() if said.weights is not None))
def test_weights_were_within_the_bounds_and_near_the_likely(name: str) -> None:
    said = LOGS[name]
    found = weights_of(said)
    assert said.weights is not None
    assert found.low <= said.weights <= found.high
    assert found.likely == pytest.approx(said.weights, rel=0.02)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_room_for_the_cache_was_within_the_bounds(name: str) -> None:
    said = LOGS[name]
    found = room_of(said)
    assert said.room is not None
    assert found.low <= said.room <= found.high
    assert found.likely == pytest.approx(said.room, abs=0.05 * said.total_mib / GIB)


@pytest.mark.parametrize("name", sorted(name for name, said in LOGS.items() if said.tokens is not None))
def test_a_token_took_what_is_reckoned(name: str) -> None:
    said, cost = LOGS[name], of(LOGS[name]).cost
    assert cost is not None
    assert said.room is not None
    assert said.tokens is not None
    assert said.room * 2**30 / said.tokens == pytest.approx(cost.likely.token, rel=0.025)


def test_llama_cpp_took_for_two_contexts_what_is_reckoned() -> None:
    # ollama/ollama#16480: 18 layers with 9216 MiB for 2 sequences of 131072 tokens; windows had 90 MiB.
    found = estimate(
        profile(1, engine="llama.cpp", max_model_len=131072, parallel_requests=2), KnownModel(GPT_OSS), H100_MIB
    )
    assert found is not None
    assert found.kv is not None
    assert found.kv.likely == 9216 + 2 * 18 * 2048 * (128 + 512) / 2**20
    assert found.kv.low <= 9216 + 90 <= found.kv.high


@pytest.mark.parametrize("name", sorted(LOGS))
def test_the_reference_has_the_row(name: str) -> None:
    said = LOGS[name]
    words = []
    if said.weights is not None:
        words.append((f"weights {said.weights:.1f} GiB", weights_of(said)))
    words.append((f"room for the cache {said.room:.1f} GiB", room_of(said)))
    told = ", ".join(word for word, _span in words)
    spans = "; ".join(f"{span.low:.1f}, {span.likely:.1f}, {span.high:.1f}" for _word, span in words)
    assert f"| {name} ({said.where}) | {told} | {spans} |" in TEXT

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import EngineMemory
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.memory import memory
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.progress import progress

LOGS = Path(__file__).parents[2] / "fixtures" / "engine-logs"


def log(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def up_to(name: str, words: str) -> str:
    text = log(name)
    return text[: text.index(words) + len(words)]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("vllm-0.33-one-card", "vllm", EngineMemory(15350, 55552, 444416, 594, "vllm 0.33.0")),
        ("vllm-0.32-cpu", "vllm", EngineMemory(None, 1792, 1839104, None, "vllm 0.32.0")),
        ("vllm-0.11-two-cards", "vllm", EngineMemory(67314, 4209, 26336, 1096, "vllm 0.11.0")),
        ("vllm-0.8-v0-engine", "vllm", EngineMemory(15319, 56381, None, 236, "vllm 0.8.1")),
        ("sglang-0.5-two-cards", "sglang", EngineMemory(67768, 54600, 349376, 768, "sglang")),
        ("sglang-0.4-mla", "sglang", EngineMemory(30935, 35594, 1200000, 1679, "sglang")),
        ("llama-cpp-cuda", "llama.cpp", EngineMemory(7602, 3968, 32768, None, "llama.cpp")),
        ("llama-cpp-cpu", "llama.cpp", EngineMemory(92, 45, 2048, None, "llama.cpp")),
    ],
)
def test_the_first_ranks_memory_is_read_from_a_start_log(name: str, kind: str, said: EngineMemory) -> None:
    assert memory(kind, log(name)) == said


def test_the_version_that_the_caller_knows_stands_in_the_source() -> None:
    said = memory("sglang", log("sglang-0.4-mla"), "0.4.3")
    assert said is not None
    assert said.source == "sglang 0.4.3"


def test_tokens_of_data_parallel_engines_are_of_the_whole_replica() -> None:
    lines = [
        f"(EngineCore_DP{rank} pid=9) INFO [kv_cache_utils.py:1] GPU KV cache size: 1,000 tokens" for rank in (0, 1)
    ]
    said = memory("vllm", "\n".join(lines))
    assert said is not None
    assert said.kv_cache_tokens == 2000


def test_a_draft_model_that_is_loaded_after_the_model_does_not_count() -> None:
    said = memory(
        "vllm", "Model loading took 10.00 GiB memory and 1.0 s\nModel loading took 1.00 GiB memory and 1.0 s\n"
    )
    assert said is not None
    assert said.weights_mib == 10240


def test_a_pool_of_several_parts_has_no_size_of_its_own() -> None:
    part = "[2026-01-01 00:00:00 TP0] KV Cache is allocated. #tokens: 9, K size: 1.00 GB, V size: 1.00 GB\n"
    said = memory("sglang", part * 2 + "max_total_num_tokens=9,")
    assert said == EngineMemory(kv_cache_tokens=9, source="sglang")


def test_a_pool_that_is_sized_after_the_capture_counts_as_it_ended() -> None:
    before = "[2026-01-01 00:00:00] KV Cache is allocated. dtype: bf16, #tokens: 9, K size: 1.00 GB, V size: 1.00 GB\n"
    after = "Post-capture KV sizing: KV cache allocated. dtype: bf16, #tokens: 7, KV size: 3.00 GB, avail mem=1.00 GB\n"
    said = memory("sglang", before + after)
    assert said is not None
    assert said.kv_cache_mib == 3072


def test_slots_that_share_one_cache_do_not_multiply_it() -> None:
    said = memory("llama.cpp", "load_model: initializing, n_slots = 4, n_ctx_slot = 1024, kv_unified = 'true'")
    assert said is not None
    assert said.kv_cache_tokens == 1024


def test_the_last_start_in_a_log_counts() -> None:
    first = log("vllm-0.33-one-card")
    second = first.replace("444,416", "222,208").replace("14.99 GiB", "7.50 GiB")
    said = memory("vllm", first + second)
    assert said is not None
    assert (said.kv_cache_tokens, said.weights_mib) == (222208, 7680)


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llama.cpp", "sim", "other", None])
def test_a_log_without_figures_says_nothing(kind: str | None) -> None:
    assert memory(kind, "hello\n") is None
    assert progress(kind, "hello\n") is None


@pytest.mark.parametrize(
    ("name", "kind", "last", "words", "fraction"),
    [
        ("vllm-0.33-one-card", "vllm", "version 0.33.0", "starting", 0.0),
        ("vllm-0.32-cpu", "vllm", "version 0.32.0", "starting", 0.0),
        ("vllm-0.32-cpu", "vllm", "Warming up model for the compilation", "compiling", 0.65),
        ("vllm-0.32-cpu", "vllm", "29.41 s", "engine is built", 0.97),
        ("vllm-0.33-one-card", "vllm", "50% Completed", "loading weights, 50 %", 0.325),
        ("vllm-0.33-one-card", "vllm", "Dynamo bytecode transform", "compiling", 0.65),
        ("vllm-0.33-one-card", "vllm", "tokens per request", "sizing the KV cache", 0.8),
        ("vllm-0.33-one-card", "vllm", "PIECEWISE):  40%|", "capturing CUDA graphs, 40 %", 0.86),
        ("vllm-0.33-one-card", "vllm", "startup complete", "opening its port", 0.99),
        ("sglang-0.5-two-cards", "sglang", "43% Completed", "loading weights, 43 %", 0.286),
        ("sglang-0.5-two-cards", "sglang", "GB):  50%|", "capturing CUDA graphs, 50 %", 0.85),
        ("sglang-0.5-two-cards", "sglang", "The server is fired up", "ready", 1.0),
        ("llama-cpp-cuda", "llama.cpp", "." * 30, "loading weights, 30 %", 0.284),
        ("llama-cpp-cpu", "llama.cpp", "load_tensors: loading model tensors", "loading weights", 0.02),
        ("llama-cpp-cpu", "llama.cpp", "n_slots = 2", "making its slots", 0.95),
        ("llama-cpp-cpu", "llama.cpp", "model loaded", "ready", 1.0),
    ],
)
def test_progress_is_the_furthest_phase_that_the_log_has_reached(
    name: str, kind: str, last: str, words: str, fraction: float
) -> None:
    found = progress(kind, up_to(name, last))
    assert found is not None
    assert (found.words, found.fraction) == (words, fraction)


def test_progress_begins_anew_with_a_restart() -> None:
    text = log("vllm-0.33-one-card") + "\n".join("." * 30) + "\n" + up_to("vllm-0.33-one-card", "25% Completed")
    found = progress("vllm", text)
    assert found is not None
    assert found.words == "loading weights, 25 %"


def test_a_progress_bar_that_overwrites_itself_is_read_to_its_end() -> None:
    bar = "\r".join(f"Loading safetensors checkpoint shards: {n}% Completed" for n in (0, 20, 60))
    found = progress("vllm", "\x1b[36mvLLM server version 0.33.0\x1b[0m\n" + bar)
    assert found is not None
    assert found.words == "loading weights, 60 %"

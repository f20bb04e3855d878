# SPDX-License-Identifier: Apache-2.0
"""What a rank keeps of a sequence, by the kind of each layer; real models against what is known of them (P13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.placement.memory.kv import Cut, sequence_cost
from tests.support.memory_models import architecture
from tests.support.real_models import MODELS

FAR = 10_000_000
KIB = 1024


def tokens_kib(name: str, first: int, last: int, cut: Cut | None = None, kind: str | None = None) -> float:
    cost = sequence_cost(architecture(name), cut or Cut(), kind)
    assert cost is not None
    return (cost.low.bytes(last) - cost.low.bytes(first)) / (last - first) / KIB


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_token_of_a_real_model_takes_what_is_known_of_it(name: str) -> None:
    assert tokens_kib(name, 0, 64) == pytest.approx(MODELS[name].kib_a_token, abs=0.01)
    assert tokens_kib(name, FAR, FAR + 64) == pytest.approx(MODELS[name].kib_of_far_tokens, abs=0.01)


@pytest.mark.parametrize(("tp", "kib"), [(1, 320), (2, 160), (8, 40), (16, 40), (3, 120)])
def test_ranks_share_out_heads_and_each_has_one_at_least(tp: int, kib: float) -> None:
    assert tokens_kib("Llama-3.1-70B", 0, 64, Cut(tp)) == kib


@pytest.mark.parametrize("tp", [1, 8, 16])
def test_a_latent_row_is_on_every_rank(tp: int) -> None:
    assert tokens_kib("DeepSeek-V3", 0, 64, Cut(tp)) == pytest.approx(68.625)


def test_only_context_parallelism_shares_out_latent_rows() -> None:
    assert tokens_kib("DeepSeek-V3", 0, 64, Cut(8, 1, 4)) == pytest.approx(68.625 / 4)


@pytest.mark.parametrize(
    ("kind", "kib"), [("fp8", 160), ("fp8_e4m3", 160), ("auto", 320), ("bfloat16", 320), ("q8_0", 170), ("q4_0", 90)]
)
def test_a_type_of_the_cache_has_its_size(kind: str, kib: float) -> None:
    assert tokens_kib("Llama-3.1-70B", 0, 64, kind=kind) == kib


def test_the_rows_of_deepseek_in_its_own_format_have_656_bytes() -> None:
    assert tokens_kib("DeepSeek-V3", 0, 64, kind="fp8_ds_mla") == pytest.approx(61 * 656 / KIB)


def test_a_type_that_is_not_known_has_no_size() -> None:
    assert sequence_cost(architecture("Llama-3.1-70B"), Cut(), "turboquant_3bit") is None


def test_weights_that_were_made_for_an_8_bit_cache_get_one() -> None:
    found = sequence_cost(replace(architecture("Llama-3.1-70B"), kv_cache_bits=8), Cut())
    assert found is not None
    assert found.likely.token == 160 * KIB


def test_a_window_bounds_what_is_kept_unless_pages_are_of_one_size() -> None:
    found = sequence_cost(architecture("gpt-oss-120b"), Cut(), in_flight=1000)
    assert found is not None
    kept = found.bytes(100_000)
    full = 36 * KIB * 100_000
    assert kept.low == full + 36 * KIB * 128
    assert kept.likely == full + 36 * KIB * 1128
    assert kept.high == 2 * full


def test_a_state_is_paid_once_a_sequence() -> None:
    found = sequence_cost(architecture("Nemotron-3-Nano-30B-A3B"), Cut())
    assert found is not None
    state = 23 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 2 * 8 * 128) * 2)
    assert found.likely.bytes(0) == state
    assert found.likely.bytes(1000) - found.likely.bytes(0) == 6 * KIB * 1000


def test_the_largest_stage_counts() -> None:
    found = sequence_cost(replace(architecture("Llama-3.1-70B"), full_layers=81, layers=81), Cut(1, 4))
    assert found is not None
    assert found.likely.token == 21 * 4 * KIB
    assert found.low.token == pytest.approx(81 / 4 * 4 * KIB)


@pytest.mark.parametrize("lost", ["full_layers", "kv_heads", "head_dim"])
def test_what_is_not_all_known_has_no_cost(lost: str) -> None:
    assert sequence_cost(replace(architecture("Llama-3.1-70B"), **{lost: None}), Cut()) is None

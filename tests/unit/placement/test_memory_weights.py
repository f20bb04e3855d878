# SPDX-License-Identifier: Apache-2.0
"""What of a model's weights lies on one rank, and how large they are by their configuration alone (P13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.placement.memory.kv import Cut
from llmgw.placement.memory.parameters import tensor_bytes
from llmgw.placement.memory.span import Span, exactly
from llmgw.placement.memory.weight_bytes import Tensors, on_a_device, on_a_rank
from tests.support.memory_models import LLAMA_70B_BYTES, architecture
from tests.support.real_models import MODELS

GB = 10**9
COUNTED = sorted(name for name, model in MODELS.items() if model.parameters is not None)


def tensors(name: str, size: float) -> Tensors:
    return Tensors(exactly(size), architecture(name))


@pytest.mark.parametrize("name", COUNTED)
def test_a_configuration_alone_tells_the_size_of_a_real_model_within_a_twentieth(name: str) -> None:
    found = tensor_bytes(architecture(name))
    assert found is not None
    assert found.likely == pytest.approx((MODELS[name].parameters or 0) * 2, rel=0.05)
    assert found.low <= (MODELS[name].parameters or 0) * 2 <= found.high


@pytest.mark.parametrize(("name", "gigabytes"), [("DeepSeek-V3", 688.6), ("gpt-oss-120b", 65.2)])
def test_quantized_weights_are_reckoned_by_their_bits(name: str, gigabytes: float) -> None:
    found = tensor_bytes(architecture(name))
    assert found is not None
    assert found.likely == pytest.approx(gigabytes * GB, rel=0.05)


@pytest.mark.parametrize("name", ["Nemotron-3-Nano-30B-A3B", "Kimi-K3", "Falcon-H1-0.5B"])
def test_a_model_with_layers_of_two_kinds_or_narrow_experts_has_no_size_by_its_configuration(name: str) -> None:
    assert tensor_bytes(architecture(name)) is None


def test_bits_that_are_not_known_make_the_size_unknown() -> None:
    found = replace(architecture("Llama-3.1-8B"), quantization="something-new", weight_bits=None)
    assert tensor_bytes(found) is None


def test_a_rank_of_eight_has_an_eighth_and_a_little_more() -> None:
    found = on_a_rank(tensors("Llama-3.1-70B", LLAMA_70B_BYTES), Cut(8))
    assert found.low < LLAMA_70B_BYTES / 8 < found.likely < LLAMA_70B_BYTES / 8 * 1.03


def test_with_more_ranks_than_heads_of_keys_each_has_a_copy_of_one() -> None:
    whole = tensors("Llama-3.1-70B", LLAMA_70B_BYTES)
    keys = 80 * 8192 * 8 * 256 * 2
    found = on_a_rank(whole, Cut(16)).likely / 1.01
    assert found == pytest.approx((LLAMA_70B_BYTES - keys) / 16 + keys / 8, rel=1e-6)


def test_projections_into_latent_rows_and_routers_are_on_every_rank() -> None:
    size = 688.6 * GB
    whole = 61 * 7168 * (1536 + 512 + 64) + 58 * 256 * 7168 * 2
    found = on_a_rank(tensors("DeepSeek-V3", size), Cut(8)).likely / 1.01 / (61 / 62)
    assert found == pytest.approx((size - whole) / 8 + whole, rel=1e-6)


def test_layers_for_prediction_are_not_counted_on() -> None:
    size = 688.6 * GB
    without = replace(architecture("DeepSeek-V3"), predict_layers=None)
    found = on_a_rank(tensors("DeepSeek-V3", size), Cut(8))
    all_of_it = on_a_rank(Tensors(exactly(size), without), Cut(8))
    assert found.low < all_of_it.low
    assert found.high == all_of_it.high


def test_experts_that_are_whole_are_shared_out_in_whole_numbers() -> None:
    size = 61.06 * GB
    model = replace(architecture("Qwen3-235B-A22B"), experts=10)
    parts = on_a_rank(Tensors(exactly(size), model), Cut(4))
    whole = on_a_rank(Tensors(exactly(size), model), Cut(4), experts_whole=True)
    assert whole.likely > parts.likely


def test_copies_share_the_experts_and_repeat_the_rest() -> None:
    size = 688.6 * GB
    mixture = tensors("DeepSeek-V3", size)
    cut, copied = (
        on_a_rank(mixture, Cut(8), experts_whole=True),
        on_a_rank(mixture, Cut(1), experts_whole=True, copies=8),
    )
    assert cut.likely < copied.likely < 2 * cut.likely
    assert copied.likely < 0.2 * size
    dense = tensors("Llama-3.1-70B", LLAMA_70B_BYTES)
    assert on_a_rank(dense, Cut(2), copies=4) == on_a_rank(dense, Cut(2))


def test_the_first_stage_has_the_embeddings() -> None:
    found = on_a_rank(tensors("Llama-3.1-70B", LLAMA_70B_BYTES), Cut(1, 2)).likely / 1.01
    outside = 2 * 128256 * 8192 * 2
    assert found == pytest.approx((LLAMA_70B_BYTES - outside) / 2 + outside / 2, rel=1e-6)
    tied = Tensors(exactly(LLAMA_70B_BYTES), replace(architecture("Llama-3.1-70B"), tie_embeddings=True))
    table = outside / 2
    assert on_a_rank(tied, Cut(1, 2)).likely / 1.01 == pytest.approx((LLAMA_70B_BYTES - table) / 2 + table, rel=1e-6)


def test_an_engine_that_quantizes_as_it_loads_makes_them_smaller() -> None:
    whole = tensors("Llama-3.1-70B", LLAMA_70B_BYTES)
    as_is, fp8 = on_a_rank(whole, Cut(1)), on_a_rank(whole, Cut(1), quantization="fp8")
    assert as_is.likely * 0.5 < fp8.likely < as_is.likely * 0.55
    unknown = on_a_rank(whole, Cut(1), quantization="something-new")
    assert (unknown.low < fp8.low, unknown.likely, unknown.high) == (True, as_is.likely, as_is.high)


def test_weights_that_are_quantized_already_stay_as_they_are() -> None:
    stored = tensors("DeepSeek-V3", 688 * GB)
    assert on_a_rank(stored, Cut(8), quantization="fp8") == on_a_rank(stored, Cut(8))


def test_a_model_of_unknown_architecture_has_wider_bounds() -> None:
    known = on_a_rank(tensors("Llama-3.1-70B", LLAMA_70B_BYTES), Cut(8, 2))
    unknown = on_a_rank(Tensors(exactly(LLAMA_70B_BYTES)), Cut(8, 2))
    assert unknown.low <= known.low
    assert unknown.high > known.high


def test_whole_layers_go_to_devices_and_the_host_may_keep_the_embeddings() -> None:
    found = on_a_device(tensors("Llama-3.1-70B", 40 * GB), 2)
    assert found == Span(40 * GB * 0.8 / 2, 20 * GB, 20 * GB + 40 * GB / 80)

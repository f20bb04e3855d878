# SPDX-License-Identifier: Apache-2.0
"""What holds for every memory estimate (P13), and proof that a wrong one would be noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.nodekit import contract
from llmgw.placement.memory import estimate as memory
from llmgw.placement.memory import kv
from llmgw.placement.memory import weight_bytes as memory_weights
from llmgw.placement.memory.estimate import Estimate, estimate
from llmgw.placement.memory.kv import Cut
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.span import Span, exactly
from llmgw.placement.memory.weight_bytes import Tensors
from tests.support.memory_models import H100_MIB, architecture, profile
from tests.support.real_models import MODELS

TP = (1, 2, 4, 8, 16)
models = st.sampled_from(sorted(MODELS)).map(architecture)
sizes = st.integers(min_value=10**8, max_value=10**12)
contexts = st.integers(min_value=1, max_value=2_000_000)
engines = st.sampled_from(["vllm", "sglang", "llama.cpp"])


def of(model: contract.ModelArchitecture | None, size: int, tp: int, **more: object) -> Estimate:
    found = estimate(profile(tp, **more), KnownModel(Tensors(exactly(size), model)), H100_MIB)  # type: ignore[arg-type]
    assert found is not None
    return found


def amounts(found: Estimate) -> list[Span]:
    return [span for span in (found.weights, found.kv, found.needs) if span is not None]


def bounds_are_in_order(model: contract.ModelArchitecture, size: int, tokens: int, engine: str) -> None:
    for tp in TP:
        found = of(model, size, tp, engine=engine, max_model_len=tokens)
        spans = [*amounts(found), found.longest(H100_MIB), found.concurrency(H100_MIB, tokens)]
        for span in spans:
            assert span is None or 0 <= span.low <= span.likely <= span.high


def more_ranks_need_no_more(model: contract.ModelArchitecture, size: int, tokens: int) -> None:
    found = [of(model, size, tp, max_model_len=tokens) for tp in TP]
    for fewer, more in pairwise(found):
        for before, after in zip(amounts(fewer), amounts(more), strict=True):
            assert after.low <= before.low + 1e-6
            assert after.likely <= before.likely + 1e-6
            assert after.high <= before.high + 1e-6


def longer_contexts_need_no_less(model: contract.ModelArchitecture, size: int, tokens: int) -> None:
    short, long = of(model, size, 2, max_model_len=tokens), of(model, size, 2, max_model_len=tokens + 1000)
    for before, after in zip(amounts(short), amounts(long), strict=True):
        assert after.low >= before.low
        assert after.likely >= before.likely
        assert after.high >= before.high


@given(models, sizes, contexts, engines)
def test_low_is_never_above_likely_nor_likely_above_high(
    model: contract.ModelArchitecture, size: int, tokens: int, engine: str
) -> None:
    bounds_are_in_order(model, size, tokens, engine)


@given(models, sizes, contexts)
def test_more_tensor_parallelism_never_needs_more_memory_a_rank(
    model: contract.ModelArchitecture, size: int, tokens: int
) -> None:
    more_ranks_need_no_more(model, size, tokens)


@given(models, sizes, contexts)
def test_a_longer_context_never_needs_less(model: contract.ModelArchitecture, size: int, tokens: int) -> None:
    longer_contexts_need_no_less(model, size, tokens)


@given(models, sizes, st.sampled_from(TP), st.integers(min_value=1, max_value=8))
def test_all_ranks_together_hold_the_whole_model(
    model: contract.ModelArchitecture, size: int, tp: int, pp: int
) -> None:
    found = memory_weights.on_a_rank(Tensors(exactly(size), replace(model, predict_layers=None)), Cut(tp, pp))
    assert found.likely * tp * pp >= size


@given(models, sizes, st.sampled_from(TP))
def test_knowing_less_never_makes_the_least_larger_by_much(
    model: contract.ModelArchitecture, size: int, tp: int
) -> None:
    known, unknown = of(model, size, tp).weights, of(None, size, tp).weights
    assert known is not None
    assert unknown is not None
    predicted = (model.predict_layers or 0) * 1.5 / ((model.layers or 1) + 1)
    assert unknown.low * (1 - predicted) <= known.low * (1 + 1e-9)


def _grown(cut: Cut) -> Cut:
    return replace(cut, tensor=1) if cut.tensor > 4 else cut


DEFECTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "heads that grow with the ranks": (
        lambda patch: patch.setattr(kv, "_heads", lambda heads, cut: heads * cut.tensor),
        lambda: more_ranks_need_no_more(architecture("Qwen3-32B"), 10**10, 1000),
    ),
    "weights that are not shared out beyond four ranks": (
        lambda patch: patch.setattr(
            memory, "on_a_rank", lambda one, cut, **_more: memory_weights.on_a_rank(one, _grown(cut))
        ),
        lambda: more_ranks_need_no_more(architecture("Qwen3-32B"), 10**10, 1000),
    ),
    "a window that shrinks what is kept": (
        lambda patch: patch.setattr(kv.Rate, "bytes", lambda rate, tokens: max(0.0, rate.token * (5000 - tokens))),
        lambda: longer_contexts_need_no_less(architecture("Qwen3-32B"), 10**10, 1000),
    ),
    "a likely amount above the high one": (
        lambda patch: patch.setattr(memory_weights, "_PADDED", 1.5),
        lambda: bounds_are_in_order(architecture("Qwen3-32B"), 10**10, 1000, "vllm"),
    ),
}


@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_a_wrong_estimate_would_be_noticed(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, check = DEFECTS[defect]
    check()
    seed(monkeypatch)
    with pytest.raises(AssertionError):
        check()

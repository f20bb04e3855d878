# SPDX-License-Identifier: Apache-2.0
"""What is proposed for a class of device: the fewest that hold the context, one MIG instance or none (P13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.ids import DeviceClass
from llmgw.placement.memory.fit import Fit, Offer, fit
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.span import exactly
from llmgw.placement.memory.weight_bytes import Tensors
from tests.support.memory_models import H100, H100_MIB, LLAMA_70B_BYTES, architecture, known, llama_70b, profile

OFFER = Offer(H100, H100_MIB, "9.0")


def of(model: KnownModel, offer: Offer = OFFER, stored_as: str | None = None, **wishes: Any) -> Fit:
    return fit(profile(1, **wishes), model, offer, stored_as)


def cut(found: Fit) -> tuple[int, int, int, int] | None:
    way = found.proposal
    return None if way is None else (way.tensor_parallel, way.pipeline_parallel, way.nodes, way.gpus)


@pytest.mark.parametrize(("tokens", "tp"), [(None, 4), (8192, 2), (20000, 4), (131072, 4), (16, 2)])
def test_the_fewest_devices_that_hold_the_context_are_proposed(tokens: int | None, tp: int) -> None:
    found = of(llama_70b(), max_model_len=tokens)
    assert (cut(found), found.enough) == ((tp, 1, 1, tp), True)


def test_a_context_that_nothing_holds_gets_the_longest_there_is() -> None:
    found = of(llama_70b(), replace(OFFER, per_node=2), max_model_len=10**7)
    assert found.proposal is not None
    assert found.proposal.longest is not None
    assert not found.enough
    assert found.proposal.nodes == 4
    assert found.proposal.longest.likely < 10**7


def test_several_nodes_have_a_stage_each() -> None:
    small = Offer(DeviceClass("l4-23g"), 23034, "8.9")
    found = of(llama_70b(), small)
    assert cut(found) == (8, 2, 2, 8)


def test_tensor_parallelism_divides_the_heads_and_stages_take_the_rest_of_the_node() -> None:
    model = replace(architecture("Llama-3.1-70B"), attention_heads=20)
    found = of(KnownModel(Tensors(exactly(LLAMA_70B_BYTES * 2), model)))
    assert cut(found) == (4, 2, 1, 8)


@pytest.mark.parametrize(("size", "fits"), [(16 * 10**9, True), (141 * 10**9, False)])
def test_a_mig_class_gets_one_instance_or_none(size: int, *, fits: bool) -> None:
    offer = Offer(DeviceClass("h100-80g-mig-3g.40gb"), 40448, "9.0", mig=True)
    found = of(known("Llama-3.1-8B", size), offer)
    assert cut(found) == ((1, 1, 1, 1) if fits else None)
    assert (found.refused is None) is fits


def test_what_does_not_fit_is_told_with_amounts() -> None:
    found = of(known("DeepSeek-V3", 688 * 10**9), Offer(DeviceClass("t4-15g"), 15360, "7.5", per_node=1))
    assert found.proposal is None
    assert found.refused is not None
    assert "of 4, it gives 13.8" in found.refused


def test_a_floor_of_the_hardware_refuses_and_a_slow_path_is_told() -> None:
    refused = of(llama_70b(), Offer(DeviceClass("v100-32g"), 32510, "7.0"))
    assert refused.proposal is None
    assert "compute capability" in (refused.refused or "")
    slow = of(llama_70b(), Offer(DeviceClass("a100-80g"), 81251, "8.0"), quantization="fp8")
    assert slow.proposal is not None
    assert [short.field for short in slow.floors] == ["quantization"]


def test_weights_that_are_quantized_already_have_floors_too() -> None:
    a100 = Offer(DeviceClass("a100-80g"), 81251, "8.0")
    assert of(llama_70b(), a100, stored_as="fp8").floors
    assert not of(llama_70b(), a100, stored_as="awq").floors


def test_an_unknown_cache_still_has_a_proposal_for_the_weights() -> None:
    found = of(KnownModel(Tensors(exactly(LLAMA_70B_BYTES))))
    assert cut(found) == (2, 1, 1, 2)
    assert found.proposal is not None
    assert (found.proposal.longest, found.proposal.tokens, found.proposal.at_once) == (None, None, None)


def test_llama_cpp_takes_devices_and_no_parallelism() -> None:
    found = of(known("Llama-3.1-70B", 141 * 10**9), engine="llama.cpp", max_model_len=8192)
    assert cut(found) == (1, 1, 1, 2)

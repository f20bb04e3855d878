# SPDX-License-Identifier: Apache-2.0
"""The memory that one device of a replica needs: all parts together, what is unknown, and what engines do (P13)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.model.ids import DeviceClass
from llmgw.placement.memory.estimate import Estimate, estimate
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.span import exactly
from llmgw.placement.memory.weight_bytes import Tensors
from tests.support.memory_models import H100, H100_MIB, LLAMA_70B_BYTES, architecture, known, llama_70b, profile

GIB = 1024


def of(*args: object, **more: object) -> Estimate:
    found = estimate(*args, **more)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_weights_cache_and_reserve_make_up_the_needs() -> None:
    found = of(profile(4), llama_70b(), H100_MIB)
    needs, weights, kv = found.needs, found.weights, found.kv
    assert needs is not None
    assert weights is not None
    assert kv is not None
    assert (needs.likely, kv.likely) == (weights.likely + kv.likely + found.spare.likely, 80 * GIB / 8)
    assert weights.likely == pytest.approx(LLAMA_70B_BYTES / 4 / 2**20, rel=0.02)
    assert found.spare.likely == pytest.approx(0.06 * H100_MIB)


def test_models_with_experts_need_more_room_to_work_in() -> None:
    assert of(profile(8), known("DeepSeek-V3", 688 * 10**9), H100_MIB).spare.likely == pytest.approx(0.09 * H100_MIB)


def test_the_context_is_the_models_own_unless_the_profile_names_one() -> None:
    assert of(profile(4), llama_70b()).tokens == 131072
    assert of(profile(4, max_model_len=4096), llama_70b()).tokens == 4096


def test_the_longest_context_is_what_just_fits() -> None:
    found = of(profile(2), llama_70b(), H100_MIB)
    longest = found.longest(H100_MIB)
    room = found.room(H100_MIB)
    assert longest is not None
    assert room is not None
    assert found.cost is not None
    assert found.cost.likely.bytes(int(longest.likely)) <= room.likely * 2**20
    assert found.cost.likely.bytes(int(longest.likely) + 16) > room.likely * 2**20
    assert longest.low <= longest.likely <= longest.high


def test_the_longest_context_is_never_above_what_was_asked_for() -> None:
    longest = of(profile(8), llama_70b(), H100_MIB).longest(H100_MIB, 5000)
    assert longest is not None
    assert (longest.low, longest.likely, longest.high) == (5000, 5000, 5000)


def test_weights_that_do_not_fit_leave_no_context() -> None:
    longest = of(profile(1), llama_70b(), H100_MIB).longest(H100_MIB)
    assert longest is not None
    assert longest.high == 0


def test_requests_at_once_are_what_the_cache_holds() -> None:
    found = of(profile(4), llama_70b(), H100_MIB)
    whole, half = found.concurrency(H100_MIB, 131072), found.concurrency(H100_MIB, 65536)
    assert whole is not None
    assert half is not None
    assert half.likely == pytest.approx(2 * whole.likely)
    assert whole.likely == pytest.approx(3.53, abs=0.01)


@pytest.mark.parametrize(("given", "share"), [(None, 0.92), (0.8, 0.8)])
def test_an_engine_gets_its_share_of_the_memory_and_no_more(given: float | None, share: float) -> None:
    found = of(profile(4, memory_utilization=given), llama_70b(), H100_MIB)
    room = found.room(H100_MIB)
    assert room is not None
    assert found.weights is not None
    assert room.likely == pytest.approx(H100_MIB * share - found.weights.likely - found.spare.likely)
    assert found.most == share


def test_sglang_takes_what_else_it_needs_out_of_the_rest() -> None:
    found = of(profile(4, engine="sglang"), llama_70b(), H100_MIB)
    assert (found.spare.low, found.spare.high, found.share, found.most) == (0, 3 * GIB, 0.88, 0.95)


def test_sglang_starts_with_a_cache_below_the_longest_context_unless_one_is_asked_for() -> None:
    assert not of(profile(4, engine="sglang"), llama_70b()).must_hold
    assert of(profile(4, engine="sglang", max_model_len=8192), llama_70b()).must_hold


def test_llama_cpp_takes_the_cache_of_all_requests_at_once_and_whole_layers() -> None:
    gguf = known("Llama-3.1-70B", 40 * 10**9)
    found = of(profile(2, engine="llama.cpp", max_model_len=8192, parallel_requests=4), gguf, H100_MIB)
    assert found.kv is not None
    assert found.weights is not None
    assert found.kv.likely == 4 * 8192 * 320 / GIB / 2
    assert found.weights.likely == pytest.approx(20 * 10**9 / 2**20)
    smaller = profile(2, engine="llama.cpp", max_model_len=8192, args=("-ctk", "q8_0"))
    assert of(smaller, gguf).kv == of(replace(smaller, args=("--cache-type-k=q8_0",)), gguf).kv
    assert of(smaller, gguf).kv != of(replace(smaller, args=()), gguf).kv


@pytest.mark.parametrize(
    ("engine", "argument"),
    [
        ("vllm", "--cpu-offload-gb"),
        ("vllm", "--kv-cache-memory-bytes=1"),
        ("vllm", "--data-parallel-size"),
        ("sglang", "--max-total-tokens"),
        ("llama.cpp", "-ngl"),
        ("llama.cpp", "--n-cpu-moe"),
    ],
)
def test_options_that_move_memory_make_the_needs_unknown(engine: str, argument: str) -> None:
    found = of(profile(4, engine=engine, args=(argument, "8")), llama_70b(), H100_MIB)
    assert (found.least, found.needs) == (None, None)
    assert argument.partition("=")[0] in found.unknown[0]


def test_an_option_that_only_begins_alike_moves_nothing() -> None:
    assert of(profile(4, engine="llama.cpp", args=("-cb",)), llama_70b()).least is not None


def test_context_parallelism_and_expert_parallelism_are_read_from_the_arguments() -> None:
    deepseek = known("DeepSeek-V3", 688 * 10**9)
    plain = of(profile(8), deepseek).kv
    cut = of(profile(8, args=("--decode-context-parallel-size", "8")), deepseek).kv
    assert plain is not None
    assert cut is not None
    assert cut.likely == pytest.approx(plain.likely / 8)
    odd = replace(architecture("DeepSeek-V3"), experts=250)
    model = KnownModel(Tensors(exactly(688 * 10**9), odd))
    whole, parts = of(profile(8, args=("-ep",)), model).weights, of(profile(8), model).weights
    assert whole is not None
    assert parts is not None
    assert whole.likely > parts.likely


def test_unknown_weights_are_said_to_be_unknown() -> None:
    found = of(profile(4), KnownModel(), H100_MIB)
    assert (found.weights, found.needs, found.least, found.longest(H100_MIB)) == (None, None, None, None)
    assert any("the size of the weights" in word for word in found.unknown)


def test_an_unknown_architecture_leaves_the_weights_as_the_least() -> None:
    found = of(profile(4), KnownModel(Tensors(exactly(LLAMA_70B_BYTES))), H100_MIB)
    assert (found.kv, found.needs) == (None, None)
    assert found.least == pytest.approx(LLAMA_70B_BYTES / 4 / 2**20 * 0.97 + 512)
    assert any("config.json" in word for word in found.unknown)


def test_layers_that_are_not_understood_are_named() -> None:
    strange = KnownModel(Tensors(exactly(10**10), replace(architecture("Llama-3.1-8B"), full_layers=None, name="New")))
    assert any("New has layers" in word for word in of(profile(1), strange).unknown)


@pytest.mark.parametrize("engine", ["sim", "nobody"])
def test_an_engine_of_unknown_habits_has_no_estimate(engine: str) -> None:
    assert estimate(profile(4, engine=engine), llama_70b(), H100_MIB) is None


def test_a_profile_on_cpu_has_no_estimate() -> None:
    assert estimate(profile(1, devices=(), gpus=0), llama_70b(), None, DeviceClass(H100)) is None

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.capability.abilities import Wheel
from llmgw.capability.driver import cuda_needed
from llmgw.capability.engines import ENGINES, inabilities
from llmgw.capability.shortfall import option, runs_on, shortfall, version
from llmgw.model.replica import ProfileSpec
from tests.support.fleets import profile

FLOORS = sorted((engine, method) for engine, can in ENGINES.items() for method in can.quantization)
CAPABILITIES = ["6.0", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"]


def asks(engine: str = "vllm", **fields: Any) -> ProfileSpec:
    return profile("p", engine, ("some-1g",), 1, **fields)


@pytest.mark.parametrize(
    ("fields", "capability", "needs"),
    [
        ({"quantization": "fp8"}, "8.9", None),
        ({"quantization": "fp8"}, "8.6", "8.9"),
        ({"quantization": "fp8", "allow_slow_path": ("quantization",)}, "7.5", None),
        ({"quantization": "fp8", "allow_slow_path": ("kv_cache_dtype",)}, "8.0", "8.9"),
        ({"quantization": "fbgemm_fp8", "allow_slow_path": ("quantization",)}, "7.5", "8.0"),
        ({"quantization": "modelopt_fp4"}, "9.0", "10.0"),
        ({"quantization": "modelopt_fp4"}, "12.0", None),
        ({"quantization": "mxfp4"}, "9.0", None),
        ({"quantization": "awq"}, "7.5", None),
        ({"quantization": "a-method-of-tomorrow"}, "7.5", None),
        ({"kv_cache_dtype": "fp8"}, "8.9", None),
        ({"kv_cache_dtype": "fp8_e5m2"}, "8.6", "8.9"),
        ({"kv_cache_dtype": "fp8_e4m3", "allow_slow_path": ("kv_cache_dtype",)}, "8.0", None),
        ({"kv_cache_dtype": "fp8_e4m3", "allow_slow_path": ("kv_cache_dtype",)}, "7.5", "8.0"),
        ({"kv_cache_dtype": "auto"}, "7.5", None),
        ({"args": ("--dtype", "bfloat16")}, "7.5", "8.0"),
        ({"args": ("--dtype=bfloat16", "--dtype", "half")}, "7.5", None),
        ({}, "7.0", "7.5"),
        ({}, "10.3", None),
        ({"engine": "sglang", "quantization": "w8a8_fp8", "allow_slow_path": ("quantization",)}, "8.0", "8.9"),
        ({"engine": "sglang", "quantization": "modelopt_fp4"}, "9.0", "10.0"),
        ({"engine": "sglang", "quantization": "modelopt_fp4", "allow_slow_path": ("quantization",)}, "8.0", None),
        ({"engine": "sglang", "quantization": "modelopt_fp8", "allow_slow_path": ("quantization",)}, "8.6", "8.9"),
        ({"engine": "sglang"}, "7.5", "8.0"),
        ({"engine": "sglang"}, "8.6", None),
        ({"engine": "sglang"}, "10.3", None),
        ({"engine": "llama.cpp"}, "3.0", None),
        ({"engine": "an-engine-of-tomorrow", "quantization": "fp8"}, "3.0", None),
        ({"quantization": "fp8"}, None, None),
        ({"quantization": "fp8"}, "gfx942", None),
    ],
)
def test_what_is_below_its_floor_is_told_with_what_it_needs(
    fields: dict[str, Any], capability: str | None, needs: str | None
) -> None:
    found = shortfall(asks(**fields), capability)
    assert (found.needs if found else None) == needs


def test_the_sentence_says_what_to_do() -> None:
    cache = shortfall(asks(kv_cache_dtype="fp8"), "8.0", "a100-80g")
    assert cache is not None
    assert cache.sentence == (
        "kv_cache_dtype fp8 of vllm needs compute capability 8.9, a100-80g has 8.0; use a class of 8.9 or higher, or "
        "ask for the slow path by `allow_slow_path: [kv_cache_dtype]` (only FlashInfer has it there, and a model that "
        "FlashInfer does not take fails to load)"
    )


@given(st.sampled_from(FLOORS), st.sampled_from(CAPABILITIES), st.sampled_from(CAPABILITIES), st.booleans())
def test_a_newer_device_is_never_refused_what_an_older_one_may(
    method: tuple[str, str],
    one: str,
    other: str,
    allowed: bool,
) -> None:
    older, newer = sorted((one, other), key=lambda each: version(each) or (0, 0))
    wish = asks(method[0], quantization=method[1], allow_slow_path=("quantization",) if allowed else ())
    if shortfall(wish, older) is None:
        assert shortfall(wish, newer) is None


@given(st.sampled_from(FLOORS), st.sampled_from(CAPABILITIES))
def test_whoever_follows_the_advice_is_not_refused_again(method: tuple[str, str], capability: str) -> None:
    found = shortfall(asks(method[0], quantization=method[1]), capability)
    if found is not None:
        assert shortfall(asks(method[0], quantization=method[1]), found.needs) is None
        if found.slow_path:
            again = asks(method[0], quantization=method[1], allow_slow_path=(found.field,))
            assert shortfall(again, capability) is None


def test_machine_code_runs_on_its_major_version_and_intermediate_code_on_all_that_follow() -> None:
    wheel = Wheel("w", ("7.5", "9.0"), ("8.0",))
    reached = [one for one in CAPABILITIES if runs_on(wheel, version(one) or (0, 0))]
    assert reached == ["7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"]
    assert not runs_on(Wheel("w", ("9.0",)), (8, 9))


def test_the_last_of_two_options_counts() -> None:
    assert option(("--dtype", "a", "--dtype=b"), "--dtype") == "b"
    assert option(("--seed", "1"), "--dtype") is None
    assert option(("--dtype",), "--dtype") is None


@pytest.mark.parametrize(
    ("engine", "version_there", "cuda"),
    [
        ("vllm", "0.33.0", 13),
        ("vllm", "0.34.1.dev3", 13),
        ("vllm", "1.0", 13),
        ("vllm", "0.20.0", 13),
        ("vllm", "0.19.1", 12),
        ("vllm", "0.8.5", None),
        ("vllm", "0.33.0+cu129", 12),
        ("vllm", "0.31.0+precompiled.cu128", 12),
        ("sglang", "0.5.23", 13),
        ("sglang", "0.5.11", 13),
        ("sglang", "0.5.10.post1", 12),
        ("sglang", "0.3.6", None),
        ("sglang", "0.5.23+cu129", 12),
        ("vllm", None, None),
        ("vllm", "unknown", None),
    ],
)
def test_which_cuda_an_engine_is_built_for(engine: str, version_there: str | None, cuda: int | None) -> None:
    assert cuda_needed(engine, version_there) == cuda


@pytest.mark.parametrize(
    ("wish", "fields"),
    [
        (asks("vllm", nodes=2, pipeline_parallel=2), []),
        (asks("llama.cpp", nodes=2, pipeline_parallel=2), ["nodes", "pipeline_parallel"]),
        (asks("sim", quantization="fp8", threads=2), ["quantization", "threads"]),
        (asks("sim", nodes=2, pipeline_parallel=2), []),
        (asks("vllm", data_parallel=4, expert_parallel=True), []),
        (asks("sglang", data_parallel=4, expert_parallel=True), []),
        (asks("llama.cpp", data_parallel=4, expert_parallel=True), ["data_parallel", "expert_parallel"]),
        (asks("vllm", data_parallel=2, nodes=2), ["data_parallel"]),
        (profile("p", "vllm", data_parallel=2), ["data_parallel"]),
        (asks("vllm", quantization="fp_quant"), ["quantization"]),
        (asks("vllm", quantization="fp_quant", args=("--allow-deprecated-quantization",)), []),
        (profile("p", "sglang"), ["devices"]),
        (profile("p", "vllm"), []),
        (asks("an-engine-of-tomorrow", nodes=9), []),
    ],
)
def test_what_an_engine_cannot_do(wish: ProfileSpec, fields: list[str]) -> None:
    assert [one.field for one in inabilities(wish)] == fields

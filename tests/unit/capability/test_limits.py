# SPDX-License-Identifier: Apache-2.0
"""Limits beside compute capability: MIG numbers, unified memory, ports in a row, weights stored quantized."""

from __future__ import annotations

import pytest

from llmgw.capability import derived_ports, unified_memory
from llmgw.capability.mig import vllm_cannot_find
from llmgw.capability.shortfall import shortfall
from llmgw.capability.stored import stored_method
from tests.support.fleets import GB, profile


@pytest.mark.parametrize(
    ("engine", "index", "cards", "refused"),
    [
        ("vllm", 1000, 1, False),
        ("vllm", 1001, 1, True),
        ("vllm", 1103, 4, False),
        ("vllm", 1104, 4, True),
        ("vllm", 3, 1, False),
        ("vllm", 1001, None, False),
        ("sglang", 1001, 1, False),
        ("llama.cpp", 1001, 1, False),
    ],
)
def test_vllm_gets_no_mig_instance_whose_number_no_card_has(
    engine: str, index: int, cards: int | None, refused: bool
) -> None:
    assert (vllm_cannot_find(engine, index, cards) is not None) is refused


def test_the_refusal_of_an_instance_names_it_as_every_view_does() -> None:
    said = vllm_cannot_find("vllm", 1205, 4)
    assert said is not None
    assert "MIG instance 2/mig5" in said
    assert "number below 4" in said


def test_on_unified_memory_an_engines_share_and_the_hosts_must_fit_together() -> None:
    assert unified_memory.shortage("vllm", 0.8, 20 * GB, 128 * GB) is None
    assert unified_memory.shortage("vllm", 0.9, 20 * GB, 128 * GB) == (128 * GB, int(128 * GB * 0.9) + 20 * GB)
    assert unified_memory.shortage("vllm", None, 20 * GB, 128 * GB) is not None
    assert unified_memory.shortage("vllm", None, None, 128 * GB) is None
    assert unified_memory.shortage("llama.cpp", None, 120 * GB, 128 * GB) is None


def test_an_engine_that_takes_all_of_unified_memory_by_itself_is_doubted() -> None:
    said = unified_memory.doubt("vllm", None)
    assert said is not None
    assert "92%" in said
    assert unified_memory.doubt("sglang", 0.8) is None
    assert unified_memory.doubt("llama.cpp", None) is None


@pytest.mark.parametrize(
    ("engine", "args", "ports"),
    [
        ("sglang", ("--attn-dp-size", "8"), 14),
        ("sglang", ("--attention-data-parallel-size=8",), 14),
        ("sglang", ("--enable-dp-attention",), 14),
        ("sglang", ("--attention-backend", "fa3"), 0),
        ("vllm", ("--attn-dp-size", "8"), 0),
    ],
)
def test_attention_copies_of_sglang_take_ports_in_a_row(engine: str, args: tuple[str, ...], ports: int) -> None:
    assert derived_ports.ports_from_the_meeting(engine, args) == ports


@pytest.mark.parametrize(
    ("engine", "method", "bits", "found"),
    [
        ("vllm", "fp8", None, "fp8"),
        ("vllm", "modelopt", 8, "modelopt"),
        ("vllm", "modelopt", 4, "modelopt_fp4"),
        ("sglang", "modelopt", 4, "modelopt_fp4"),
        ("vllm", "bitsandbytes", 4, None),
        ("llama.cpp", "fp8", 8, None),
        ("vllm", None, None, None),
    ],
)
def test_engines_take_the_method_that_weights_are_stored_with(
    engine: str, method: str | None, bits: int | None, found: str | None
) -> None:
    assert stored_method(engine, method, bits) == found


def test_weights_that_are_stored_quantized_are_held_to_their_floor() -> None:
    silent = profile("p", "vllm", ("a100-80g",), 1)
    told = shortfall(silent, "8.0", "a100-80g", stored="fp8")
    assert told is not None
    assert told.sentence.startswith("the weights' own quantization fp8 of vllm needs compute capability 8.9")
    assert "allow_slow_path: [quantization]" in told.sentence
    asked = profile("p", "vllm", ("a100-80g",), 1, allow_slow_path=("quantization",))
    assert shortfall(asked, "8.0", stored="fp8") is None
    named = profile("p", "vllm", ("a100-80g",), 1, quantization="awq")
    assert shortfall(named, "8.0", stored="fp8") is None
    below = shortfall(silent, "7.5", stored="fp_quant")
    assert below is not None
    assert "serve other weights of the model" in below.fix

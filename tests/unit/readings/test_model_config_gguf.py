# SPDX-License-Identifier: Apache-2.0
"""What the metadata of a GGUF file says of its model (P13)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import gguf
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.gguf import GgufHeader
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_gguf import read_metadata
from tests.support import model_files

KINDS = ("full", "sliding", "chunked", "mla", "state")
LLAMA = {
    "block_count": 32,
    "context_length": 8192,
    "embedding_length": 4096,
    "feed_forward_length": 14336,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
}


def read(architecture: str, numbers: dict[str, Any]) -> ModelArchitecture:
    header = GgufHeader(architecture, None, None, None, None, 1, 0, 0, 0, numbers)
    found = read_metadata(header)
    assert found is not None
    return found


def counts(found: ModelArchitecture) -> dict[str, int | None]:
    counted = {kind: getattr(found, f"{kind}_layers") for kind in KINDS}
    return {kind: count for kind, count in counted.items() if count != 0}


def test_a_files_own_numbers_are_read_without_its_vocabulary() -> None:
    content = model_files.gguf(numbers={**LLAMA, "attention.head_count_kv": [8, 0, 8]}, words=3000)
    numbers = gguf.read_header(io.BytesIO(content)).numbers
    assert numbers == {**LLAMA, "attention.head_count_kv": [8, 0, 8]}


def test_a_list_that_is_longer_than_any_model_is_passed_over() -> None:
    content = model_files.gguf(numbers={"block_count": 1, "long": list(range(2000)), "last": 7})
    header = gguf.read_header(io.BytesIO(content))
    assert (header.numbers, header.least_bytes) == ({"block_count": 1, "last": 7}, len(content))


def test_a_plain_model_keeps_the_whole_context_in_every_layer() -> None:
    found = read("llama", LLAMA)
    assert counts(found) == {"full": 32}
    assert (found.name, found.head_dim, found.kv_heads, found.max_position) == ("llama", 128, 8, 8192)


def test_a_head_has_the_size_that_is_named() -> None:
    found = read("qwen3", {**LLAMA, "attention.key_length": 256, "attention.value_length": 192})
    assert (found.head_dim, found.v_head_dim) == (256, 192)


@pytest.mark.parametrize(
    ("architecture", "more", "layers"),
    [
        ("gemma2", {}, {"full": 16, "sliding": 16}),
        ("gemma3", {}, {"full": 5, "sliding": 27}),
        ("gpt-oss", {}, {"full": 16, "sliding": 16}),
        ("phi3", {}, {"full": 32}),
        ("gemma3n", {"attention.sliding_window_pattern": [1, 1, 1, 0] * 8}, {"full": 8, "sliding": 24}),
        ("new", {"attention.sliding_window_pattern": 4}, {"full": 8, "sliding": 24}),
        ("llama4", {"attention.chunk_size": 8192}, {"full": 8, "chunked": 24}),
    ],
)
def test_windows_are_in_the_layers_that_llama_cpp_has_them_in(
    architecture: str, more: dict[str, Any], layers: dict[str, int]
) -> None:
    assert counts(read(architecture, {**LLAMA, "attention.sliding_window": 1024, **more})) == layers


def test_a_window_of_an_unknown_pattern_leaves_the_layers_unknown() -> None:
    found = read("new", {**LLAMA, "attention.sliding_window": 1024})
    assert set(counts(found).values()) == {None}


def test_latent_rows_are_kept_by_files_that_know_of_them_alone() -> None:
    numbers = {**LLAMA, "attention.kv_lora_rank": 512, "rope.dimension_count": 64, "attention.key_length": 192}
    assert counts(read("deepseek2", numbers)) == {"full": 32}
    found = read("deepseek2", {**numbers, "attention.key_length_mla": 192})
    assert counts(found) == {"mla": 32}
    assert (found.kv_lora_rank, found.qk_rope_head_dim) == (512, 64)


STATE = {"ssm.inner_size": 8192, "ssm.state_size": 128, "ssm.conv_kernel": 4, "ssm.group_count": 8}


def test_layers_without_heads_of_keys_have_the_state() -> None:
    found = read("jamba", {**LLAMA, **STATE, "attention.head_count_kv": [0, 0, 0, 8] * 8})
    assert counts(found) == {"full": 8, "state": 24}
    assert (found.kv_heads, found.state_values, found.conv_values) == (8, 8192 * 128, 3 * (8192 + 2 * 8 * 128))
    assert found.state_dtype == "float32"


def test_layers_that_are_dense_alone_have_neither() -> None:
    numbers = {**LLAMA, **STATE, "attention.head_count_kv": [0, 0, 8, 0] * 8, "feed_forward_length": [0, 99, 0, 0] * 8}
    assert counts(read("nemotron_h", numbers)) == {"full": 8, "state": 16}


def test_every_fourth_layer_of_qwen3_next_sees_everything() -> None:
    assert counts(read("qwen3next", {**LLAMA, **STATE})) == {"full": 8, "state": 24}


@pytest.mark.parametrize(
    ("architecture", "more"),
    [
        ("rwkv7", {}),
        ("deci", {"attention.head_count_kv": [8, 4] * 16}),
        ("plamo2", STATE),
        ("minicpm3", {"attention.kv_lora_rank": 256}),
    ],
)
def test_what_is_not_understood_has_no_counts(architecture: str, more: dict[str, Any]) -> None:
    assert set(counts(read(architecture, {**LLAMA, **more})).values()) == {None}


def test_experts_are_told() -> None:
    numbers = {**LLAMA, "expert_count": 128, "expert_used_count": 8, "leading_dense_block_count": 3}
    found = read("deepseek2", numbers)
    assert (found.experts, found.experts_per_token, found.moe_layers) == (128, 8, 29)


@pytest.mark.parametrize("numbers", [{}, {"block_count": 0}, {"block_count": [1, 2]}, {"block_count": 1.5}])
def test_a_file_that_does_not_say_how_many_layers_there_are_says_nothing(numbers: dict[str, Any]) -> None:
    assert read_metadata(GgufHeader("llama", None, None, None, None, 1, 0, 0, 0, numbers)) is None

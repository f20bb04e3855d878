# SPDX-License-Identifier: Apache-2.0
"""config.json of models: the values of real ones, aliases, and what is not understood (P13)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config import read_config
from tests.support.real_models import MODELS

KINDS = ("full", "sliding", "chunked", "mla", "state")
PLAIN = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
    "vocab_size": 1000,
}
COUNTS = tuple(f"{kind}_layers" for kind in KINDS)


def read(document: Any) -> ModelArchitecture:
    return read_config(json.dumps(document).encode())


def counts(found: ModelArchitecture) -> dict[str, int | None]:
    return {kind: getattr(found, name) for kind, name in zip(KINDS, COUNTS, strict=True) if getattr(found, name) != 0}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_layers_of_real_models_are_of_the_kinds_that_they_have(name: str) -> None:
    assert counts(read(MODELS[name].config)) == MODELS[name].layers


@pytest.mark.parametrize("name", sorted(MODELS))
def test_real_models_tell_their_heads_width_and_name(name: str) -> None:
    config = MODELS[name].config
    found, text = read(config), config.get("text_config", config)
    assert found.name == config["architectures"][0]
    assert found.attention_heads == text["num_attention_heads"]
    assert found.hidden_size == text["hidden_size"]
    assert found.layers == text["num_hidden_layers"]
    assert found.head_dim


def test_what_a_class_takes_for_silence_is_known() -> None:
    found = read(MODELS["Gemma-3-27B"].config)
    assert (found.vocab_size, found.max_position, found.window, found.tie_embeddings) == (262208, 131072, 1024, True)


def test_heads_of_keys_are_as_many_as_heads_where_no_fewer_are_named() -> None:
    found = read({name: value for name, value in PLAIN.items() if name != "num_key_value_heads"})
    assert (found.kv_heads, found.head_dim) == (8, 64)


def test_a_head_has_the_size_that_is_named_and_not_a_share_of_the_width() -> None:
    assert read({**PLAIN, "head_dim": 128}).head_dim == 128


@pytest.mark.parametrize(
    ("values", "name", "value"),
    [
        ({"n_layer": 6, "n_head": 4, "n_embd": 256, "vocab_size": 9}, "layers", 6),
        ({"num_layers": 6, "num_attention_heads": 4, "multi_query_group_num": 2, "kv_channels": 128}, "kv_heads", 2),
        ({"num_layers": 6, "num_attention_heads": 4, "multi_query_group_num": 2, "kv_channels": 128}, "head_dim", 128),
        ({"num_hidden_layers": 6, "num_attention_heads": 71, "multi_query": True}, "kv_heads", 1),
        ({**PLAIN, "n_positions": 1024}, "max_position", 1024),
        ({**PLAIN, "torch_dtype": "torch.float16"}, "dtype", "float16"),
        ({**PLAIN, "dtype": "bfloat16"}, "dtype", "bfloat16"),
        ({**PLAIN, "num_nextn_predict_layers": 1}, "predict_layers", 1),
    ],
)
def test_other_words_for_the_same_are_known(values: dict[str, Any], name: str, value: object) -> None:
    assert getattr(read(values), name) == value


@pytest.mark.parametrize("within", ["text_config", "llm_config", "language_config"])
def test_a_model_that_also_sees_has_its_language_model_inside(within: str) -> None:
    found = read({"architectures": ["SeesForConditionalGeneration"], within: PLAIN, "dtype": "bfloat16"})
    assert (found.name, found.layers, found.dtype) == ("SeesForConditionalGeneration", 4, "bfloat16")


def test_a_window_that_is_switched_off_is_none() -> None:
    off = {**PLAIN, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    assert counts(read(off)) == {"full": 4}
    on = {**off, "use_sliding_window": True, "max_window_layers": 3}
    assert counts(read(on)) == {"full": 3, "sliding": 1}


def test_longcat_has_latent_rows_twice_in_each_layer() -> None:
    found = read({"model_type": "longcat_flash", "num_layers": 28, "kv_lora_rank": 512, "qk_rope_head_dim": 64})
    assert counts(found) == {"mla": 56}


def test_layers_that_share_the_keys_of_earlier_ones_keep_nothing() -> None:
    shared = {**PLAIN, "layer_types": ["full_attention"] * 4, "num_kv_shared_layers": 1}
    assert counts(read(shared)) == {"full": 3}


@pytest.mark.parametrize(
    "strange",
    [
        {"layer_types": ["full_attention", "full_attention", "full_attention", "telepathy"]},
        {"layer_types": ["full_attention"] * 3},
        {"hybrid_override_pattern": "M*X-"},
        {"kv_lora_rank": 512, "qk_rope_head_dim": 64},
        {"rwkv_version": 7},
        {"compress_ratios": [4, 4]},
        {"block_configs": [{"attention": {"no_op": True}}]},
        {"num_key_value_heads": [2, 2, 4, 4]},
        {"is_encoder_decoder": True},
        {"sliding_window": 4096, "model_type": "nobody_knows"},
        {"layer_types": ["sliding_attention"] * 4},
        {"sparse_attention_config": {"sparse_block_size": 64}},
    ],
)
def test_what_is_not_understood_has_no_counts(strange: dict[str, Any]) -> None:
    found = read({**PLAIN, **strange})
    assert {getattr(found, name) for name in COUNTS} == {None}
    assert found.hidden_size == 512


def test_states_have_the_sizes_that_their_kinds_have() -> None:
    gated = read(MODELS["Qwen3-Next-80B-A3B"].config)
    assert (gated.state_values, gated.conv_values) == (32 * 128 * 128, 3 * (2 * 16 * 128 + 32 * 128))
    mamba2 = read(MODELS["Nemotron-3-Nano-30B-A3B"].config)
    assert (mamba2.state_values, mamba2.conv_values) == (64 * 64 * 128, 3 * (64 * 64 + 2 * 8 * 128))
    assert mamba2.state_dtype == "float32"
    delta = read(MODELS["Kimi-K3"].config)
    assert (delta.state_values, delta.conv_values) == (96 * 128 * 128, 3 * 3 * 96 * 128)


def test_jamba_has_attention_in_every_eighth_layer_and_a_state_in_the_others() -> None:
    found = read(
        {
            **PLAIN,
            "model_type": "jamba",
            "num_hidden_layers": 32,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "mamba_d_state": 16,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "num_experts": 16,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
        }
    )
    assert counts(found) == {"full": 4, "state": 28}
    assert (found.state_values, found.conv_values, found.moe_layers) == (1024 * 16, 3 * 1024, 16)


@pytest.mark.parametrize(
    ("config", "method", "bits", "cache"),
    [
        ({"quant_method": "awq", "bits": 4}, "awq", 4, None),
        ({"quant_method": "fp8"}, "fp8", 8, None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt_fp4", 4, None),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "modelopt", None, None),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "modelopt", 8, 8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4}}},
                "kv_cache_scheme": {"num_bits": 8},
            },
            "compressed-tensors",
            4,
            8,
        ),
        ({"quant_method": "something-new"}, "something-new", None, None),
    ],
)
def test_how_weights_are_quantized_is_told(
    config: dict[str, Any], method: str, bits: int | None, cache: int | None
) -> None:
    found = read({**PLAIN, "quantization_config": config})
    assert (found.quantization, found.weight_bits, found.kv_cache_bits) == (method, bits, cache)


@pytest.mark.parametrize(
    ("name", "moe", "shared"),
    [("DeepSeek-V3", 58, 1), ("Qwen3-235B-A22B", 94, None), ("MiMo-V2-Flash", 47, None), ("Llama-4-Scout", 48, None)],
)
def test_layers_with_experts_are_counted(name: str, moe: int, shared: int | None) -> None:
    found = read(MODELS[name].config)
    assert (found.moe_layers, found.shared_experts) == (moe, shared)


@pytest.mark.parametrize("content", [b"", b"[1]", b"not json", b'"text"', b"{" * 100_000, b"\xff\xfe\x00"])
def test_what_is_no_configuration_is_said_to_be_none(content: bytes) -> None:
    with pytest.raises(Unreadable):
        read_config(content)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(st.sampled_from(sorted(MODELS)), st.data())
def test_no_value_of_another_type_breaks_the_reading(name: str, data: st.DataObject) -> None:
    config = dict(MODELS[name].config)
    inner = dict(config["text_config"]) if "text_config" in config else config
    inner[data.draw(st.sampled_from(sorted(inner)))] = data.draw(JUNK)
    if inner is not config:
        config["text_config"] = inner
    found = read(config)
    assert all(value is None or isinstance(value, (int, str)) for value in vars(found).values())

# SPDX-License-Identifier: BSD-2-Clause
"""Reads a model's config.json: the few values that tell how much memory it needs (P13).

Private to llmgw and pure. The words are those of the makers' classes, and there are several for most things. A model
that also sees or hears has its language model's values in an object of their own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, List, Mapping, Optional, Union

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_layers import read_layers
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_states import read_state
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_values import Values

CONFIG_LIMIT = 1024 * 1024
"""Bytes that are read: the longest have lists of modules that are not quantized, some hundred thousand bytes."""
_NAME_LIMIT = 100
_WITHIN = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_NARROW = ("moe_latent_size", "routed_expert_hidden_size")
"""Experts that work on less than the model's width: their size is not told by the usual values alone."""
_BITS = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "modelopt_fp4": 4, "modelopt": 8}


def read_config(content: Union[bytes, str]) -> ModelArchitecture:
    """What the file says of the model; what it does not say is None. Raises Unreadable for what is no JSON object."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise Unreadable("config.json is no JSON") from None
    if not isinstance(document, dict):
        raise Unreadable("config.json is no JSON object")
    outer, values = Values(document), Values(_language(document))
    found = _shape(values)
    method, bits, kv_bits = _quantization(outer, values)
    tied = values.flag("tie_word_embeddings")
    return replace(
        found,
        name=_name(outer, values),
        vocab_size=found.vocab_size or outer.whole("vocab_size"),
        tie_embeddings=outer.flag("tie_word_embeddings") if tied is None else tied,
        dtype=_dtype(values) or _dtype(outer),
        quantization=method,
        weight_bits=bits,
        kv_cache_bits=kv_bits,
    )


def _language(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that describes the language model: the outermost one that has layers."""
    if any(name in document for name in _LAYERS):
        return document
    for name in _WITHIN:
        inner = document.get(name)
        if isinstance(inner, dict):
            return _language(inner)
    return document


def _shape(values: Values) -> ModelArchitecture:
    layers = values.whole(*_LAYERS) or len(values.each("layers_block_type") or ()) or None
    heads, hidden = values.whole("num_attention_heads", "n_head", "n_heads"), values.whole("hidden_size", "n_embd")
    kinds = read_layers(values, layers) if layers else None
    state = read_state(values) if kinds is not None and kinds.state else None
    head = values.whole("head_dim", "kv_channels", "attention_head_dim")
    if head is None and heads and hidden:
        head = hidden // heads
    kv_heads = _kv_heads(values, heads)
    wide, wide_kv = values.whole("global_head_dim"), values.whole("num_global_key_value_heads")
    found = ModelArchitecture(
        layers=layers,
        attention_heads=heads,
        kv_heads=wide_kv or kv_heads,
        head_dim=wide or head,
        v_head_dim=values.whole("v_head_dim"),
        sliding_kv_heads=values.whole("swa_num_key_value_heads") or (kv_heads if wide_kv else None),
        sliding_head_dim=values.whole("swa_head_dim") or (head if wide else None),
        hidden_size=hidden,
        intermediate_size=values.whole("intermediate_size", "ffn_hidden_size", "n_inner"),
        vocab_size=values.whole("vocab_size", "padded_vocab_size"),
        max_position=values.whole("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length"),
        kv_lora_rank=values.whole("kv_lora_rank"),
        q_lora_rank=values.whole("q_lora_rank"),
        qk_rope_head_dim=values.whole("qk_rope_head_dim"),
        qk_nope_head_dim=values.whole("qk_nope_head_dim"),
        index_head_dim=values.whole("index_head_dim"),
        state_values=None if state is None else state.recurrent,
        conv_values=None if state is None else state.convolution,
        predict_layers=values.whole("num_nextn_predict_layers", "mtp_num_hidden_layers"),
        state_dtype=values.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype"),
    )
    if kinds is not None:
        found = replace(
            found,
            full_layers=kinds.full,
            sliding_layers=kinds.sliding,
            chunked_layers=kinds.chunked,
            mla_layers=kinds.mla,
            state_layers=kinds.state,
            window=kinds.window,
        )
    return _with_experts(found, values)


def _kv_heads(values: Values, heads: Optional[int]) -> Optional[int]:
    """Heads of keys and values; as many as heads that ask where no fewer are named."""
    if any(isinstance(values.get(name), list) for name in _KV_HEADS):
        return None
    if values.flag("multi_query") and not values.flag("new_decoder_architecture"):
        return 1
    if values.flag("multi_query_attention") is False:
        return heads
    found = values.whole(*_KV_HEADS)
    return heads if found is None else found


def _with_experts(found: ModelArchitecture, values: Values) -> ModelArchitecture:
    experts = values.whole(
        "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts"
    )
    if not experts or experts == 1:
        return found
    shared = values.whole("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
    if shared is None and values.whole("shared_expert_intermediate_size", "shared_intermediate_size"):
        shared = 1
    return replace(
        found,
        experts=experts,
        experts_per_token=values.whole("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"),
        shared_experts=shared,
        expert_intermediate_size=None
        if values.whole(*_NARROW)
        else values.whole("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size"),
        moe_layers=_moe_layers(values, found.layers),
    )


def _moe_layers(values: Values, layers: Optional[int]) -> Optional[int]:
    """Layers with experts; the others are dense."""
    if layers is None:
        return None
    pattern = values.text("hybrid_override_pattern")
    if pattern is not None:
        return pattern.count("E")
    named = values.each("layers_block_type")
    if named is not None and "moe" in named:
        return named.count("moe")
    listed = values.each("moe_layer_freq")
    if listed is not None:
        return sum(1 for one in listed if one)
    dense: List[Any] = values.each("mlp_only_layers") or []
    first = values.whole("first_k_dense_replace", "moe_layer_start_index") or 0
    offset = values.whole("expert_layer_offset")
    step = values.whole("decoder_sparse_step", "interleave_moe_layer_step", "expert_layer_period", "moe_layer_freq")
    step = step or 1
    if offset is None:
        offset = step - 1
    return sum(1 for at in range(first, layers) if at % step == offset % step and at not in dense)


def _quantization(outer: Values, values: Values) -> tuple[Optional[str], Optional[int], Optional[int]]:
    """The method that the weights are stored by, bits of one of their values, and of one in the KV cache."""
    for holder in (outer, values):
        for name in ("quantization_config", "compression_config"):
            config = holder.inner(name)
            if not config.document:
                continue
            algorithm = (config.text("quant_algo") or "").upper()
            method = config.text("quant_method") or ("modelopt" if algorithm else None)
            if algorithm == "NVFP4":
                method = "modelopt_fp4"
            bits = config.whole("bits", "w_bit", "num_bits") or _group_bits(config) or _BITS.get(method or "")
            if algorithm.startswith("MIXED"):
                bits = None
            kv_bits = config.inner("kv_cache_scheme").whole("num_bits")
            if kv_bits is None and (config.text("kv_cache_quant_algo") or "").upper() == "FP8":
                kv_bits = 8
            return None if method is None else method[:_NAME_LIMIT], bits, kv_bits
    return None, None, None


def _group_bits(config: Values) -> Optional[int]:
    """Bits of the groups of a compressed-tensors configuration; the most, where they differ."""
    found = []
    for name in config.inner("config_groups").document:
        bits = config.inner("config_groups").inner(name).inner("weights").whole("num_bits")
        if bits is not None:
            found.append(bits)
    return max(found, default=None)


def _dtype(values: Values) -> Optional[str]:
    word = values.text("dtype", "torch_dtype")
    return None if word is None else word.rpartition(".")[2][:_NAME_LIMIT]


def _name(outer: Values, values: Values) -> Optional[str]:
    named = outer.each("architectures") or values.each("architectures") or [None]
    name = named[0] if isinstance(named[0], str) and named[0] else values.kind or outer.kind
    return name[:_NAME_LIMIT] or None

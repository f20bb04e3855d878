# SPDX-License-Identifier: BSD-2-Clause
"""What a memory estimate needs to know of a model (P13), from the metadata of its GGUF file.

Private to llmgw and pure. The counts are those of what llama.cpp keeps. Rules that no metadata tell are its own, by the
name of the architecture.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Mapping, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ModelArchitecture
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.gguf import GgufHeader
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_values import is_whole

_NAME_LIMIT = 100
# Every so manieth layer sees the whole context, the others a window.
_WINDOWED = {"cohere2": 4, "gemma2": 2, "gemma3": 6, "gpt-oss": 2}
_CHUNKED = {"llama4": 4}
_CHUNK = 8192
_FULL_INTERVAL = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
# These have a window in their metadata that llama.cpp does not use.
_WHOLE = frozenset({"llama", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "starcoder2", "mistral3"})
_MLA = frozenset({"deepseek2"})
_STATE_BESIDE = frozenset({"falcon-h1"})
_NO_ATTENTION = frozenset({"mamba", "mamba2", "rwkv6", "rwkv7", "arwkv7", "rwkv6qwen2"})


def read_metadata(header: GgufHeader) -> Optional[ModelArchitecture]:
    """The model that a GGUF file holds, or the part of it that has the metadata; None when it says nothing."""
    numbers = header.numbers
    layers = _whole(numbers, "block_count")
    if header.architecture is None or not layers:
        return None
    heads, hidden = _most(numbers, "attention.head_count"), _whole(numbers, "embedding_length")
    head = _whole(numbers, "attention.key_length")
    if head is None and heads and hidden:
        head = hidden // heads
    kv_heads = _most(numbers, "attention.head_count_kv")
    found = ModelArchitecture(
        name=header.architecture[:_NAME_LIMIT],
        layers=layers,
        attention_heads=heads,
        kv_heads=heads if kv_heads is None else kv_heads,
        head_dim=head,
        v_head_dim=_whole(numbers, "attention.value_length"),
        sliding_head_dim=_whole(numbers, "attention.key_length_swa"),
        hidden_size=hidden,
        intermediate_size=_most(numbers, "feed_forward_length"),
        vocab_size=_whole(numbers, "vocab_size"),
        max_position=_whole(numbers, "context_length"),
        predict_layers=_whole(numbers, "nextn_predict_layers"),
        experts=_whole(numbers, "expert_count") or None,
        experts_per_token=_whole(numbers, "expert_used_count") or None,
        shared_experts=_whole(numbers, "expert_shared_count"),
        expert_intermediate_size=_whole(numbers, "expert_feed_forward_length"),
    )
    if found.experts:
        found = replace(found, moe_layers=layers - (_whole(numbers, "leading_dense_block_count") or 0))
    return _with_layers(found, numbers, layers)


def _with_layers(found: ModelArchitecture, numbers: Mapping[str, Any], layers: int) -> ModelArchitecture:
    architecture = found.name or ""
    rank, mla_head = _whole(numbers, "attention.kv_lora_rank"), _whole(numbers, "attention.key_length_mla")
    if rank:
        rope = _whole(numbers, "rope.dimension_count")
        found = replace(found, kv_lora_rank=rank, qk_rope_head_dim=rope)
        # Files made before llama.cpp knew latent rows have whole keys and values.
        if architecture not in _MLA or (mla_head is not None and rope is None):
            return found
        found = _counted(found, mla=layers) if mla_head is not None else _counted(found, full=layers)
        return replace(found, v_head_dim=None) if mla_head is not None else found
    if architecture in _NO_ATTENTION or _differ(numbers, "attention.head_count_kv"):
        return found
    states = _state_layers(architecture, numbers, layers)
    if states is None:
        return found
    found = _with_state(found, numbers) if states else found
    full = layers if architecture in _STATE_BESIDE else _with_keys(numbers, layers, states)
    return _windows(found, numbers, full, states)


def _windows(found: ModelArchitecture, numbers: Mapping[str, Any], attention: int, states: int) -> ModelArchitecture:
    """The layers that have keys and values, with or without a window."""
    architecture = found.name or ""
    window = _whole(numbers, "attention.sliding_window")
    if architecture in _CHUNKED:
        wide = attention // _CHUNKED[architecture]
        chunk = window or _whole(numbers, "attention.chunk_size") or _CHUNK
        return replace(_counted(found, full=wide, chunked=attention - wide, state=states), window=chunk)
    if not window or architecture in _WHOLE:
        return _counted(found, full=attention, state=states)
    pattern = numbers.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        sliding = sum(1 for one in pattern if one) if len(pattern) == attention else None
    else:
        every = pattern if is_whole(pattern) and pattern else _WINDOWED.get(architecture)
        sliding = None if every is None else attention - attention // every
    if sliding is None:
        return found
    return replace(_counted(found, full=attention - sliding, sliding=sliding, state=states), window=window)


def _state_layers(architecture: str, numbers: Mapping[str, Any], layers: int) -> Optional[int]:
    """Layers with a state; None when there are some and their number is unknown."""
    heads = numbers.get("attention.head_count_kv")
    if architecture in _STATE_BESIDE:
        return layers
    if architecture in _FULL_INTERVAL:
        return layers - layers // (_whole(numbers, "full_attention_interval") or _FULL_INTERVAL[architecture])
    has_state = any(name.startswith(("ssm.", "wkv.", "kda.", "shortconv.")) for name in numbers)
    if not has_state:
        return 0
    if not isinstance(heads, list) or len(heads) != layers:
        return None
    # Of the layers without keys and values, those without a dense part beside them have the state.
    dense = numbers.get("feed_forward_length")
    silent: List[int] = [at for at, one in enumerate(heads) if one == 0]
    if architecture.startswith("nemotron_h") and isinstance(dense, list) and len(dense) == layers:
        return sum(1 for at in silent if dense[at] == 0)
    return len(silent)


def _with_keys(numbers: Mapping[str, Any], layers: int, states: int) -> int:
    heads = numbers.get("attention.head_count_kv")
    return sum(1 for one in heads if one) if isinstance(heads, list) else layers - states


def _with_state(found: ModelArchitecture, numbers: Mapping[str, Any]) -> ModelArchitecture:
    """The sizes of a state as llama.cpp keeps it, which is in 32 bits."""
    width, size = _whole(numbers, "ssm.inner_size"), _whole(numbers, "ssm.state_size")
    kernel, groups = _whole(numbers, "ssm.conv_kernel"), _whole(numbers, "ssm.group_count") or 0
    short = _whole(numbers, "shortconv.l_cache")
    if short and found.hidden_size:
        return replace(found, state_values=0, conv_values=(short - 1) * found.hidden_size, state_dtype="float32")
    if not width or not size or not kernel:
        return found
    convolution = (kernel - 1) * (width + 2 * groups * size)
    return replace(found, state_values=width * size, conv_values=convolution, state_dtype="float32")


def _counted(
    found: ModelArchitecture, *, full: int = 0, sliding: int = 0, chunked: int = 0, mla: int = 0, state: int = 0
) -> ModelArchitecture:
    return replace(
        found,
        full_layers=full,
        sliding_layers=sliding,
        chunked_layers=chunked,
        mla_layers=mla,
        state_layers=state,
    )


def _whole(numbers: Mapping[str, Any], name: str) -> Optional[int]:
    value = numbers.get(name)
    return value if isinstance(value, int) and is_whole(value) else None


def _most(numbers: Mapping[str, Any], name: str) -> Optional[int]:
    """A number, or the largest of a list with one a layer."""
    value = numbers.get(name)
    if isinstance(value, list):
        return max((one for one in value if is_whole(one)), default=None)
    return _whole(numbers, name)


def _differ(numbers: Mapping[str, Any], name: str) -> bool:
    """Whether layers that have it have different numbers of it: there is no one number for the model then."""
    value = numbers.get(name)
    return isinstance(value, list) and len({one for one in value if one}) > 1

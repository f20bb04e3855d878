# SPDX-License-Identifier: BSD-2-Clause
"""How many layers of a model keep what of a sequence (P13): the whole of it, a window, a latent row, a state.

Private to llmgw and pure. Most files name the kind of each layer; older ones have a rule that only their class knows.
What is not understood is not guessed at: a model with something unheard of has no counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_values import Values, is_whole

_FULL, _SLIDING, _CHUNKED, _STATE = "full", "sliding", "chunked", "state"
_BOTH, _NONE = "both", "none"
_WORDS = {
    "full_attention": _FULL,
    "attention": _FULL,
    "sliding_attention": _SLIDING,
    "chunked_attention": _CHUNKED,
    "linear_attention": _STATE,
    "mamba": _STATE,
    "mamba2": _STATE,
    "conv": _STATE,
    "hybrid": _BOTH,
    "mlp": _NONE,
    "moe": _NONE,
}
_LETTERS = {"M": _STATE, "*": _FULL, "-": _NONE, "E": _NONE}
_LATENT = frozenset(
    {
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "glm4_moe_lite",
        "glm_moe_dsa",
        "kimi_k2",
        "kimi_linear",
        "longcat_flash",
        "pangu_ultra_moe",
    }
)
"""Classes whose engines keep the latent row alone. Others with such a projection keep whole keys and values."""
# Classes that have the window which they name in every layer. With others it may be some layers' alone.
_ALL_WINDOWED = frozenset({"mistral", "mixtral", "phi3", "phimoe", "starcoder2"})
# Parts of names that speak of layers which keep something else than keys and values.
_STRANGE = (
    "mamba",
    "ssm",
    "rwkv",
    "recurrent",
    "retention",
    "linear_attn",
    "linear_attention",
    "linear_num",
    "lightning",
    "delta_net",
    "compress_rat",
    "cross_attention_layers",
    "block_configs",
    "layer_group_size",
    "attn_layer",
    "attn_type",
    "hybrid",
    "use_cla",
    "swa_",
    "per_layer_config",
    "sparse_attention",
)


@dataclass(frozen=True)
class Layers:
    """Counts by kind, and the tokens of the window."""

    full: int = 0
    sliding: int = 0
    chunked: int = 0
    mla: int = 0
    state: int = 0
    window: Optional[int] = None


def read_layers(values: Values, layers: int) -> Optional[Layers]:
    """The kinds of a model's layers; None where one is not understood."""
    if values.whole("kv_lora_rank"):
        return _latent(values, layers)
    kinds = _kinds(values, layers)
    if kinds is None:
        return None
    # The last layers of such a model use what earlier ones keep.
    own = kinds[: max(0, layers - (values.whole("num_kv_shared_layers") or 0))]
    count = own.count
    window = values.whole("sliding_window", "sliding_window_size") if count(_SLIDING) else None
    if count(_CHUNKED):
        window = values.whole("attention_chunk_size")
    if (count(_SLIDING) or count(_CHUNKED)) and not window:
        return None
    both = count(_BOTH)
    return Layers(count(_FULL) + both, count(_SLIDING), count(_CHUNKED), 0, count(_STATE) + both, window)


def _latent(values: Values, layers: int) -> Optional[Layers]:
    if values.kind not in _LATENT:
        return None
    if values.kind == "longcat_flash":
        # Each of its layers has attention twice.
        return Layers(mla=2 * layers)
    linear = values.inner("linear_attn_config").each("kda_layers")
    return Layers(mla=layers - len(linear), state=len(linear)) if linear else Layers(mla=layers)


def _kinds(values: Values, layers: int) -> Optional[List[str]]:
    """The kind of each layer."""
    named = values.each("layer_types") or values.each("layers_block_type")
    if named is not None:
        return _each(named, _WORDS, layers)
    pattern = values.text("hybrid_override_pattern")
    if pattern is not None:
        return _each(pattern, _LETTERS, layers)
    numbered = values.each("attn_type_list")
    if numbered is not None:
        return _each(numbered, {0: _STATE, 1: _FULL}, layers)
    windowed = values.each("hybrid_layer_pattern")
    if windowed is not None:
        return _each(windowed, {0: _FULL, 1: _SLIDING}, layers)
    rule = _RULES.get(values.kind)
    if rule is not None:
        return rule(values, layers)
    if _is_strange(values):
        return None
    return _windows(values, layers)


def _each(named: Iterable[object], words: Mapping[Any, str], layers: int) -> Optional[List[str]]:
    kinds = [words.get(one) if isinstance(one, (str, int)) else None for one in named]
    found = [kind for kind in kinds if kind is not None]
    return found if len(found) == len(kinds) == layers else None


def _is_strange(values: Values) -> bool:
    if values.flag("is_encoder_decoder") or isinstance(values.get("num_key_value_heads"), list):
        return True
    return any(part in name for name, value in values.document.items() if value for part in _STRANGE)


def _windows(values: Values, layers: int) -> Optional[List[str]]:
    """Attention with or without a window, where nothing else is named."""
    window = values.whole("sliding_window")
    if not window or values.flag("use_sliding_window") is False:
        return [_FULL] * layers
    every = values.whole("sliding_window_pattern", "_sliding_window_pattern")
    if every is not None:
        return _every(every, _FULL, _SLIDING, layers)
    first = values.whole("max_window_layers")
    if values.flag("use_sliding_window") and first is not None:
        return [_SLIDING if at >= first else _FULL for at in range(layers)]
    return [_SLIDING] * layers if values.kind in _ALL_WINDOWED else None


def _every(period: Optional[int], one: str, others: str, layers: int) -> Optional[List[str]]:
    """Each `period`-th layer of the one kind."""
    if not period:
        return None
    return [one if (at + 1) % period == 0 else others for at in range(layers)]


def _alternating(_values: Values, layers: int) -> Optional[List[str]]:
    return [_FULL if at % 2 else _SLIDING for at in range(layers)]


def _llama4(values: Values, layers: int) -> Optional[List[str]]:
    """Layers that know positions look at a chunk; every fourth does not, and sees everything."""
    if not values.whole("attention_chunk_size"):
        return [_FULL] * layers
    with_positions = values.each("no_rope_layers")
    if with_positions is not None:
        return _each(with_positions, {0: _FULL, 1: _CHUNKED}, layers)
    return _every(values.whole("no_rope_layer_interval") or 4, _FULL, _CHUNKED, layers)


def _jamba(values: Values, layers: int) -> Optional[List[str]]:
    period, offset = values.whole("attn_layer_period"), values.whole("attn_layer_offset")
    if not period or offset is None:
        return None
    return [_FULL if at % period == offset else _STATE for at in range(layers)]


def _bamba(values: Values, layers: int) -> Optional[List[str]]:
    full = values.each("attn_layer_indices")
    if full is None or not all(is_whole(at) and at < layers for at in full):
        return None
    return [_FULL if at in full else _STATE for at in range(layers)]


def _interval(values: Values, layers: int) -> Optional[List[str]]:
    return _every(values.whole("full_attention_interval"), _FULL, _STATE, layers)


def _parallel(_values: Values, layers: int) -> Optional[List[str]]:
    return [_BOTH] * layers


_RULES: Dict[str, Callable[[Values, int], Optional[List[str]]]] = {
    "bamba": _bamba,
    "falcon_h1": _parallel,
    "gemma2": _alternating,
    "gpt_oss": _alternating,
    "jamba": _jamba,
    "llama4_text": _llama4,
    "qwen3_next": _interval,
    "qwen3_5_text": _interval,
    "qwen3_5_moe_text": _interval,
}
"""What classes do whose files name no kinds."""

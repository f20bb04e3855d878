# SPDX-License-Identifier: Apache-2.0
"""The bytes of a model's weights where only its configuration is there (P13): a reckoning from widths and counts.

Norms, biases, routers and the parts that see or hear are left out, so that it is low by some hundredths for a language
model, and by more for one that is more than that. Weights that are there are measured instead.
"""

from __future__ import annotations

from llmgw.nodekit import contract
from llmgw.placement.memory.span import Span

_GATED = 3
"""Matrices of a dense part or an expert: up, gate and down."""
_SCALES = 1.07
"""A block of 16 or 32 quantized values has a scale beside it."""
_SIXTEEN_BITS_BYTES = 2
_LOW, _HIGH = 0.90, 1.15
_STATE_MATRICES = 4
"""Of the width of the model squared, about: what layers with a state project in and out."""


def tensor_bytes(architecture: contract.ModelArchitecture) -> Span | None:
    """All weights of the model, as they would lie on disk; None where a width or a count that matters is unknown."""
    hidden, layers = architecture.hidden_size, architecture.layers
    attention, dense = _attention(architecture), _feed_forward(architecture)
    if not hidden or not layers or not architecture.vocab_size or attention is None or dense is None:
        return None
    if architecture.quantization is not None and architecture.weight_bits is None:
        return None
    value = float(_SIXTEEN_BITS_BYTES)
    if architecture.weight_bits is not None:
        value = architecture.weight_bits / 8 * (_SCALES if architecture.weight_bits < 8 else 1)  # noqa: PLR2004 - a byte
    tables = (1 if architecture.tie_embeddings else 2) * architecture.vocab_size * hidden * _SIXTEEN_BITS_BYTES
    likely = tables + (attention + dense) * value
    # Of quantized models some linear layers often stay as they were.
    more = attention * (_SIXTEEN_BITS_BYTES - value) if architecture.quantization else 0.0
    return Span(likely * _LOW, likely, (likely + more) * _HIGH)


def _attention(architecture: contract.ModelArchitecture) -> float | None:
    """Values of everything that looks at other tokens."""
    hidden, heads = architecture.hidden_size or 0, architecture.attention_heads or 0
    if architecture.full_layers is None:
        return None
    latent = _latent(architecture, hidden, heads)
    kinds = (architecture.full_layers, architecture.sliding_layers, architecture.chunked_layers)
    whole = sum(count or 0 for count in kinds)
    others = (architecture.mla_layers or 0) + (architecture.state_layers or 0)
    # Where a layer is of two kinds, or of none, its dense part is not the usual one either.
    if whole + others != architecture.layers:
        return None
    if (architecture.mla_layers and latent is None) or (
        whole and not (architecture.head_dim and architecture.kv_heads)
    ):
        return None
    head, kv_heads = architecture.head_dim or 0, architecture.kv_heads or 0
    each = hidden * head * heads * 2 + hidden * kv_heads * (head + (architecture.v_head_dim or head))
    states = (architecture.state_layers or 0) * _STATE_MATRICES * hidden * hidden
    return float((architecture.mla_layers or 0) * (latent or 0) + whole * each + states)


def _latent(architecture: contract.ModelArchitecture, hidden: int, heads: int) -> int | None:
    """Values of one layer with latent rows."""
    rank, rope, nope = architecture.kv_lora_rank, architecture.qk_rope_head_dim, architecture.qk_nope_head_dim
    value = architecture.v_head_dim
    if rank is None or rope is None or nope is None or value is None:
        return None
    asks = heads * (nope + rope)
    query = (hidden + asks) * architecture.q_lora_rank if architecture.q_lora_rank else hidden * asks
    return query + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden


def _feed_forward(architecture: contract.ModelArchitecture) -> float | None:
    """Values of dense parts and experts."""
    hidden, layers = architecture.hidden_size or 0, architecture.layers or 0
    if architecture.experts is None:
        width = architecture.intermediate_size
        return None if width is None else float(layers * _GATED * hidden * width)
    width, count = architecture.expert_intermediate_size, architecture.moe_layers
    if width is None or count is None:
        return None
    experts = count * (architecture.experts + (architecture.shared_experts or 0)) * _GATED * hidden * width
    return float(experts + max(0, layers - count) * _GATED * hidden * (architecture.intermediate_size or 0))

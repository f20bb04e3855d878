# SPDX-License-Identifier: BSD-2-Clause
"""How many values a layer with a state keeps of one sequence (P13). Private to llmgw and pure.

Each has two parts: the recurrent state, and the last inputs of a short convolution before it.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.model_config_values import Values


class State(NamedTuple):
    """Values of one layer and sequence, before they are shared out among devices."""

    recurrent: int
    convolution: int


def read_state(values: Values) -> Optional[State]:
    """The state of a model's layers that have one; None when its sizes are not all known."""
    for reader in (_gated_delta, _mamba2, _mamba1, _delta_attention, _lightning, _short_convolution):
        state = reader(values)
        if state is not None:
            return state
    return None


def _gated_delta(values: Values) -> Optional[State]:
    """Qwen3-Next and its successors."""
    keys, key = values.whole("linear_num_key_heads"), values.whole("linear_key_head_dim")
    heads, value = values.whole("linear_num_value_heads"), values.whole("linear_value_head_dim")
    kernel = values.whole("linear_conv_kernel_dim")
    if not keys or not key or not heads or not value or not kernel:
        return None
    return State(heads * key * value, (kernel - 1) * (2 * keys * key + heads * value))


def _mamba2(values: Values) -> Optional[State]:
    """Bamba, Falcon-H1, Granite, Nemotron-H, Zamba2."""
    heads = values.whole("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    size = values.whole("mamba_d_state", "ssm_state_size")
    kernel = values.whole("mamba_d_conv", "conv_kernel")
    groups = values.whole("mamba_n_groups", "mamba_ngroups", "n_groups")
    head = values.whole("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    expand, hidden = values.whole("mamba_expand", "expand"), values.whole("hidden_size")
    width = heads * head if heads and head else (expand or 0) * (hidden or 0) if heads else None
    if not width or not size or not kernel or not groups:
        return None
    return State(width * size, (kernel - 1) * (width + 2 * groups * size))


def _mamba1(values: Values) -> Optional[State]:
    """Jamba."""
    size, kernel = values.whole("mamba_d_state"), values.whole("mamba_d_conv")
    width = (values.whole("mamba_expand") or 0) * (values.whole("hidden_size") or 0)
    if not size or not kernel or not width:
        return None
    return State(width * size, (kernel - 1) * width)


def _delta_attention(values: Values) -> Optional[State]:
    """Kimi Linear."""
    inner = values.inner("linear_attn_config")
    heads, head, kernel = inner.whole("num_heads"), inner.whole("head_dim"), inner.whole("short_conv_kernel_size")
    if not heads or not head or not kernel:
        return None
    return State(heads * head * head, 3 * (kernel - 1) * heads * head)


def _lightning(values: Values) -> Optional[State]:
    """MiniMax-Text-01."""
    heads, head = values.whole("num_attention_heads"), values.whole("head_dim")
    if values.each("attn_type_list") is None or not heads or not head:
        return None
    return State(heads * head * head, 0)


def _short_convolution(values: Values) -> Optional[State]:
    """LFM2, which has nothing else."""
    kernel, hidden = values.whole("conv_L_cache"), values.whole("hidden_size")
    return State(0, kernel * hidden) if kernel and hidden else None

# SPDX-License-Identifier: Apache-2.0
"""What one rank keeps of one sequence: keys and values, latent rows and states, by the kind of each layer (P13).

The rules are those of domain.md J. Tensor parallelism shares out heads, and each rank keeps at least one; a latent row
(MLA) has no heads, so that every rank keeps it whole. A layer with a window keeps no more than the window; engines that
give all layers pages of one size keep more, at most the whole context. A state has one size whatever the context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmgw.nodekit import contract
from llmgw.placement.memory.span import Span

_SCALED_ROW_BYTES = 656
"""Of a latent row with its scales in DeepSeek-V3.2's own format: 512 values of 8 bits, 4 scales, 64 of 16 bits."""
_SCALED_ROW_RANK = 512
_INDEX_SCALE_BYTES = 4
_ANY_WINDOW = math.inf

_BYTES: dict[str, float] = {
    "float16": 2,
    "half": 2,
    "f16": 2,
    "bfloat16": 2,
    "bf16": 2,
    "float32": 4,
    "f32": 4,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
    "fp8_ds_mla": 1,
    "fp8_per_token_head": 1,
    "int8": 1,
    "int8_per_token_head": 1,
    "int4_per_token_head": 0.5,
    "nvfp4": 0.5625,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""Of one value, by the engine's name of the type; scales that lie in blocks are counted in."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes of one sequence: for each token, for each token within `window`, and for the sequence as such."""

    token: float = 0.0
    windowed: float = 0.0
    window: float = _ANY_WINDOW
    constant: float = 0.0

    def bytes(self, tokens: int) -> float:
        """Of a sequence of that many tokens. Never fewer for a longer one."""
        return self.token * tokens + self.windowed * min(tokens, self.window) + self.constant


@dataclass(frozen=True, slots=True)
class SequenceCost:
    """The rates that bound what a rank keeps, and the one to plan with."""

    low: Rate
    likely: Rate
    high: Rate

    def bytes(self, tokens: int) -> Span:
        """Of a sequence of that many tokens."""
        return Span(self.low.bytes(tokens), self.likely.bytes(tokens), self.high.bytes(tokens))


@dataclass(frozen=True, slots=True)
class Cut:
    """How a replica is cut: ranks that share each layer, stages of layers, and ranks that share each context."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1


def value_bytes(kind: str | None, architecture: contract.ModelArchitecture) -> float | None:
    """Bytes of one value in the KV cache; None for a type that is not known here. Nothing, or `auto`: as the model
    says, which engines serve in 16 bits at most.
    """
    if kind is None or kind == "auto":
        return 1 if architecture.kv_cache_bits == 8 else 2  # noqa: PLR2004 - one byte
    return _BYTES.get(kind)


def sequence_cost(
    architecture: contract.ModelArchitecture, cut: Cut, kind: str | None = None, in_flight: int = 0
) -> SequenceCost | None:
    """What a rank keeps of a sequence; None where the kinds of layers or their sizes are not all known.

    `in_flight`: tokens beyond a window that the engine keeps while it works on a prompt.
    """
    value = value_bytes(kind, architecture)
    layers = architecture.full_layers
    if value is None or layers is None:
        return None
    latent, full = _latent(architecture, kind, value), _pair(architecture, cut, value)
    narrow, state = _narrow_pair(architecture, cut, value), _state(architecture, cut)
    with_window = (architecture.sliding_layers or 0) + (architecture.chunked_layers or 0)
    mla, states = architecture.mla_layers or 0, architecture.state_layers or 0
    counted = ((latent, mla), (full, layers), (narrow, with_window), (state, states))
    if any(amount is None and count for amount, count in counted) or (with_window and not architecture.window):
        return None
    latent, full, narrow, state = latent or 0.0, full or 0.0, narrow or 0.0, state or Span(0, 0, 0)
    if mla + layers + with_window + states == 0:
        return None
    window = architecture.window or 0

    def stage(count: int) -> int:
        return -(-count // cut.pipeline)

    token = (latent * mla + full * layers) / cut.pipeline / cut.context
    low = Rate(token, narrow * with_window / cut.pipeline / cut.context, window, state.low * states / cut.pipeline)
    token = (latent * stage(mla) + full * stage(layers)) / cut.context
    windowed = narrow * stage(with_window) / cut.context
    likely = Rate(token, windowed, window + in_flight, state.likely * stage(states))
    return SequenceCost(low, likely, Rate(token, windowed, _ANY_WINDOW, state.high * stage(states)))


def _latent(architecture: contract.ModelArchitecture, kind: str | None, value: float) -> float | None:
    """Bytes of a token in one layer with latent rows; no rank has less."""
    rank, rope = architecture.kv_lora_rank, architecture.qk_rope_head_dim
    if rank is None or rope is None:
        return None
    row = (rank + rope) * value
    if kind == "fp8_ds_mla" and rank == _SCALED_ROW_RANK:
        row = _SCALED_ROW_BYTES
    return row + (architecture.index_head_dim + _INDEX_SCALE_BYTES if architecture.index_head_dim else 0)


def _pair(architecture: contract.ModelArchitecture, cut: Cut, value: float) -> float | None:
    """Bytes of a token's keys and values in one layer of a rank."""
    heads, head = architecture.kv_heads, architecture.head_dim
    if not heads or not head:
        return None
    return _heads(heads, cut) * (head + (architecture.v_head_dim or head)) * value


def _narrow_pair(architecture: contract.ModelArchitecture, cut: Cut, value: float) -> float | None:
    """The same in a layer with a window, which has heads of its own in some models."""
    heads = architecture.sliding_kv_heads or architecture.kv_heads
    head = architecture.sliding_head_dim or architecture.head_dim
    if not heads or not head:
        return None
    return _heads(heads, cut) * (head + (architecture.v_head_dim or head)) * value


def _heads(heads: int, cut: Cut) -> int:
    return max(1, -(-heads // cut.tensor))


def _state(architecture: contract.ModelArchitecture, cut: Cut) -> Span | None:
    """Bytes of a sequence in one layer with a state, of 16 or 32 bits a value unless the model says which."""
    recurrent, convolution = architecture.state_values, architecture.conv_values
    if recurrent is None or convolution is None:
        return None
    least, most = {"float32": (4, 4), "bfloat16": (2, 2), "float16": (2, 2)}.get(architecture.state_dtype or "", (2, 4))
    low, high = (recurrent * least + convolution * 2), (recurrent + convolution) * most
    return Span(low, max(low, recurrent * most + convolution * 2), max(low, high) * 2) * (1 / cut.tensor)

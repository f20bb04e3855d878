# SPDX-License-Identifier: Apache-2.0
"""What of a model's weights lies on one rank (P13): what tensor parallelism shares out, what every rank has whole.

The rules are those of domain.md J. Shared out are linear layers, embeddings and experts. Every rank has whole: the
projections into latent rows (MLA), the routers, and its own copy of a head of keys and values where there are fewer
heads than ranks. Of pipeline stages the largest counts: the first has the embeddings, the last the output layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.nodekit import contract
from llmgw.placement.memory.kv import Cut
from llmgw.placement.memory.span import Span

_LOADED = 0.97
"""Share of the tensors that is loaded at least: some are for what an engine does not do, such as buffers."""
_PADDED, _PADDED_MOST = 1.01, 1.04
"""What is added to be divisible: vocabularies to a multiple, quantized blocks to tiles."""
_PADDED_BLOCKS = {"mxfp4": (1.07, 1.10)}
"""The same by method: gpt-oss-120b, 60.8 GiB of tensors, took 64.4 and 66.0 GiB (vllm-project/vllm 33155, 23278)."""
_REPLICATED_MOST = 0.08
"""Share of a model of unknown architecture that every rank has whole, at most."""
_UNCUT_MOST = 0.15
"""Share of a model of unknown architecture by which one stage is larger than the mean, at most."""
_ON_HOST = 0.2
"""Share of a GGUF file that stays in the host's memory, at most: the embeddings, which for small models are much."""
_SIXTEEN_BITS = 16
_SPREAD_OF_PREDICTION = 1.5
_BITS = {"fp8": 8, "fp8_per_tensor": 8, "fp8_per_block": 8, "fp8_per_channel": 8, "mxfp8": 8, "torchao": 4}
_LEAST_BITS = 4


@dataclass(frozen=True, slots=True)
class Tensors:
    """All tensors of a model in bytes, and what it is where that is known.

    `bytes` has bounds where several nodes hold different weights under one name, or where it was computed.
    """

    bytes: Span
    architecture: contract.ModelArchitecture | None = None


def on_a_rank(
    tensors: Tensors, cut: Cut, *, quantization: str | None = None, experts_whole: bool = False, copies: int = 1
) -> Span:
    """Bytes of the weights on the rank that has the most. `experts_whole`: expert parallelism, where each rank has some
    experts instead of a part of every one. `copies`: of the rest of the model, over whose ranks experts are spread.
    `quantization`: what the engine does to weights of 16 bits as it loads them.
    """
    total, architecture = tensors.bytes, tensors.architecture
    total = _as_loaded(total, architecture, quantization)
    if architecture is None or not architecture.layers or not architecture.hidden_size or not total.likely:
        return _of_unknown(total, cut)
    parts = _Parts.of(architecture, total.likely)
    ranks = cut.tensor
    heads = architecture.kv_heads or ranks
    repeated = max(1, -(-heads // ranks)) / heads
    sharing = ranks * copies
    experts = architecture.experts or sharing
    share = (-(-experts // sharing) / experts) if experts_whole else 1 / sharing
    body = parts.rest / ranks + parts.whole + parts.keys * repeated + parts.experts * share
    body /= total.likely - parts.outside or 1.0
    outside = parts.outside / total.likely / ranks
    inside = 1 - parts.outside / total.likely
    layers = architecture.layers
    stage = -(-layers // cut.pipeline) / layers
    # Embeddings and output layer are alone on their stages where there are several.
    most = inside * body * stage + (outside if cut.pipeline == 1 or not parts.separate else outside / 2)
    least = min(most, (inside * body + outside) / cut.pipeline)
    padded, padded_most = _PADDED_BLOCKS.get(architecture.quantization or "", (_PADDED, _PADDED_MOST))
    predicted = (architecture.predict_layers or 0) / (layers + (architecture.predict_layers or 0))
    return Span(
        total.low * least * _LOADED * max(0.0, 1 - _SPREAD_OF_PREDICTION * predicted),
        total.likely * most * (1 - predicted) * padded,
        total.high * most * padded_most,
    )


def on_a_device(tensors: Tensors, devices: int) -> Span:
    """Bytes on the device that has the most, where devices get whole layers and the host keeps the embeddings."""
    total, architecture = tensors.bytes, tensors.architecture
    layers = architecture.layers if architecture else None
    one_layer = total.high / layers if layers else total.high * _UNCUT_MOST
    return Span(
        total.low * (1 - _ON_HOST) / devices,
        total.likely / devices,
        total.high / devices + (one_layer if devices > 1 else 0.0),
    )


def _as_loaded(total: Span, architecture: contract.ModelArchitecture | None, quantization: str | None) -> Span:
    """The bytes after an engine has quantized them, which it does to linear layers of weights that are not yet."""
    stored = architecture.quantization if architecture else None
    if quantization is None or stored is not None:
        return total
    bits = _BITS.get(quantization)
    least = (bits or _LEAST_BITS) / _SIXTEEN_BITS
    # Embeddings and norms stay as they are; where the architecture is unknown so may everything.
    outside = _Parts.of(architecture, total.likely).outside / total.likely if architecture and total.likely else 0.0
    kept = least + (1 - least) * outside
    most = min(1.0, kept + _UNCUT_MOST) if bits else 1.0
    return Span(total.low * least, total.likely * (kept if bits else 1.0), total.high * most)


def _of_unknown(total: Span, cut: Cut) -> Span:
    each = 1 / cut.tensor / cut.pipeline
    whole = _REPLICATED_MOST * (1 - 1 / cut.tensor) / cut.pipeline
    uncut = _UNCUT_MOST * (1 - 1 / cut.pipeline) / cut.tensor
    return Span(
        total.low * each * _LOADED,
        total.likely * (each + whole / 4) * _PADDED,
        total.high * (each + whole + uncut) * _PADDED_MOST,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """Bytes of a model by how they are shared out. `outside`: embeddings and output layer; `separate`: they are two."""

    outside: float
    whole: float
    keys: float
    experts: float
    rest: float
    separate: bool

    @classmethod
    def of(cls, architecture: contract.ModelArchitecture, total: float) -> _Parts:
        """The parts as the architecture has them, none larger than what is left of the total."""
        left = total
        value = (architecture.weight_bits or _SIXTEEN_BITS) / 8
        hidden, layers = architecture.hidden_size or 0, architecture.layers or 0
        tables = 1 if architecture.tie_embeddings else 2
        outside = min(left, tables * (architecture.vocab_size or 0) * hidden * 2.0)
        left -= outside
        latent = (architecture.q_lora_rank or 0) + (architecture.kv_lora_rank or 0)
        if architecture.kv_lora_rank:
            latent += architecture.qk_rope_head_dim or 0
        router = (architecture.experts or 0) * (architecture.moe_layers or 0) * hidden * 2.0
        whole = min(left, latent * hidden * layers * value + router)
        left -= whole
        pair = (architecture.head_dim or 0) + (architecture.v_head_dim or architecture.head_dim or 0)
        attention = layers if architecture.full_layers is None else _with_keys(architecture)
        keys = min(left, attention * hidden * (architecture.kv_heads or 0) * pair * value)
        left -= keys
        width = architecture.expert_intermediate_size or 0
        count = (architecture.experts or 0) * (architecture.moe_layers or 0)
        experts = min(left, 3.0 * count * hidden * width * value)
        return cls(outside, whole, keys, experts, left - experts, not architecture.tie_embeddings)


def _with_keys(architecture: contract.ModelArchitecture) -> int:
    """Layers that project keys and values of whole heads."""
    kinds = (architecture.full_layers, architecture.sliding_layers, architecture.chunked_layers)
    return sum(count or 0 for count in kinds)

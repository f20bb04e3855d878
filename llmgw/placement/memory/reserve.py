# SPDX-License-Identifier: Apache-2.0
"""What a device holds besides weights and KV cache (P13): activations, CUDA graphs, the context, buffers of NCCL.

Nobody can compute it: it depends on the engine's version, its kernels and what it compiles. It is a stated reserve
(domain.md J): at least two gibibytes, and some hundredths of a large device for what grows with the batch, more where
experts need room to work in. Logs of vLLM in public issues left nine to ten hundredths of cards of 80 GB to models with
experts (vllm-project/vllm 21348, 23278, 27508), and half a gibibyte of small cards to a dense one (13061).
"""

from __future__ import annotations

from llmgw.placement.memory.span import Span

MIB = 2**20
_LEAST_MIB, _LIKELY_MIB, _MOST_MIB = 512.0, 2048.0, 4096.0
_DENSE_SHARES, _EXPERTS_SHARES = (0.06, 0.10), (0.09, 0.12)
_LAYERS_MIB = (300.0, 1024.0, 3072.0)
_OUTSIDE_MIB = (0.0, 1536.0, 3072.0)
"""Of what an engine counts as weights and KV cache: the context and buffers that were there before either."""


def reserve(total_mib: int | None, *, experts: bool = False, whole_layers: bool = False, outside: bool = False) -> Span:
    """Bytes of one device. `whole_layers`: an engine without graphs and collective calls, which needs less. `outside`:
    one whose share of the memory is for weights and KV cache, with activations and graphs in the rest.
    """
    if whole_layers or outside:
        low, likely, high = _OUTSIDE_MIB if outside else _LAYERS_MIB
        return Span(low * MIB, likely * MIB, high * MIB)
    total = float(total_mib or 0)
    likely_share, most_share = _EXPERTS_SHARES if experts else _DENSE_SHARES
    return Span(
        _LEAST_MIB * MIB,
        max(_LIKELY_MIB, total * likely_share) * MIB,
        max(_MOST_MIB, total * most_share) * MIB,
    )

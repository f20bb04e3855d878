# SPDX-License-Identifier: Apache-2.0
"""What a device holds besides weights and KV cache (P13): activations, CUDA graphs, the context, buffers of NCCL.

Nobody can compute it: it depends on the engine's version, its kernels and what it compiles. It is a stated reserve
(domain.md J): at least two gibibytes, from six to eight hundredths of the device for what grows with the batch.
"""

from __future__ import annotations

from llmgw.placement.span import Span

MIB = 2**20
_LEAST_MIB, _LIKELY_MIB, _MOST_MIB = 512.0, 2048.0, 4096.0
_LIKELY_SHARE, _MOST_SHARE = 0.06, 0.10
_LAYERS_MIB = (300.0, 1024.0, 3072.0)


def reserve(total_mib: int | None, *, whole_layers: bool = False) -> Span:
    """Bytes of one device. `whole_layers`: an engine without graphs and collective calls, which needs less."""
    if whole_layers:
        low, likely, high = _LAYERS_MIB
        return Span(low * MIB, likely * MIB, high * MIB)
    total = float(total_mib or 0)
    return Span(
        _LEAST_MIB * MIB,
        max(_LIKELY_MIB, total * _LIKELY_SHARE) * MIB,
        max(_MOST_MIB, total * _MOST_SHARE) * MIB,
    )

# SPDX-License-Identifier: Apache-2.0
"""What weights that are stored quantized need of a device, though their profile names no `quantization` (C5).

Engines read the method from the weights' own configuration, and take the same kernels as if it had been named.
"""

from __future__ import annotations

from llmgw.capability.engines import ENGINES

_MODELOPT = "modelopt"
_FOUR_BITS = 4


def stored_method(engine: str, method: str | None, weight_bits: int | None = None) -> str | None:
    """The value of `quantization` that an engine chooses for weights stored with a method, as `quantization_config`
    names it; None where that has no known floor. A container such as `compressed-tensors` says little: its scheme is
    in the weights.
    """
    can = ENGINES.get(engine)
    if method is None or can is None:
        return None
    name = f"{_MODELOPT}_fp4" if method == _MODELOPT and weight_bits == _FOUR_BITS else method
    return name if name in can.quantization else None

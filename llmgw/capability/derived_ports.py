# SPDX-License-Identifier: Apache-2.0
"""Ports that an engine opens at fixed distances from one that it is told."""

from __future__ import annotations

_ATTENTION_COPIES = frozenset({"--attn-dp-size", "--attention-data-parallel-size", "--enable-dp-attention"})
SGLANG_ROW = 14
"""With attention data parallelism SGLang meets at a port and opens six more after it on rank 0, and over several nodes
the thirteenth after it (`PortArgs.init_new`, `DP_ATTENTION_HANDSHAKE_PORT_DELTA` of 0.5.23).
"""


def ports_from_the_meeting(engine: str, args: tuple[str, ...]) -> int:
    """How many ports in a row the leader of a replica takes from the one where its ranks meet, that one included; 0:
    that one alone, if any. `args`: the profile's own, which alone ask for more.

    Without an address to meet at, SGLang takes the ports from 233 after its own on, which may be another replica's.
    """
    asked = {word.partition("=")[0] for word in args}
    return SGLANG_ROW if engine == "sglang" and asked & _ATTENTION_COPIES else 0

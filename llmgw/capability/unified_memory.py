# SPDX-License-Identifier: Apache-2.0
"""Devices whose memory is the host's (GB10, Jetson): what engines take of it, and what is then left for all else (C5).

There vLLM and SGLang take their share of the whole machine's memory, of which the operating system, the engine's own
processes and everything else live too. vLLM refuses to start when less is available (`request_memory` counts what the
kernel could free, on integrated devices).
"""

from __future__ import annotations

from llmgw.capability.memory_habits import habits_of

ADVISED_SHARE = 0.8
"""Of 128 GB it leaves 25 GB, which an engine's processes and pinned buffers fill by a half."""


def taken(engine: str, utilization: float | None, host_bytes: int) -> int | None:
    """Bytes of the host's memory that an engine takes on a unified device; None for one that takes what it needs.

    `utilization`: the profile's share, None: the engine's own.
    """
    habits = habits_of(engine)
    if habits is None or habits.whole_layers:
        return None
    return int(host_bytes * (habits.share if utilization is None else utilization))


def shortage(
    engine: str, utilization: float | None, min_memory_bytes: int | None, host_bytes: int
) -> tuple[int, int] | None:
    """(Bytes that are there, bytes that are needed) where the engine's share and the host memory that the profile asks
    for are more than the machine has; None where they fit.
    """
    share = taken(engine, utilization, host_bytes)
    if share is None or min_memory_bytes is None or share + min_memory_bytes <= host_bytes:
        return None
    return host_bytes, share + min_memory_bytes


def doubt(engine: str, utilization: float | None) -> str | None:
    """That an engine is left to take nearly all of a machine's memory, as a sentence; None where a share is named."""
    habits = habits_of(engine)
    if utilization is not None or habits is None or habits.whole_layers:
        return None
    return (
        f"the device's memory is the host's, and {engine} takes {habits.share:.0%} of it where `memory_utilization` "
        f"does not say otherwise: set it, {ADVISED_SHARE:g} leaves room for the host"
    )

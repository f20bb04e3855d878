# SPDX-License-Identifier: Apache-2.0
"""Limits of a unit's processes, and the NUMA node that they are kept on (P4)."""

from __future__ import annotations

from llmgw.units.member_unit import MemberUnit

OPEN_FILES = 65536
TASKS = 65536
_LOCKS_MEMORY = frozenset({"--mlock", "mlock"})
"""What tells llama.cpp to lock its weights into memory."""


def resources(unit: MemberUnit) -> list[str]:
    """Lines of [Service]: files, threads, locked memory, memory, and where on the machine."""
    lines = [f"LimitNOFILE={OPEN_FILES}", f"TasksMax={TASKS}"]
    if unit.member.devices or unit.member.hcas or _LOCKS_MEMORY.intersection(unit.launch.argv):
        lines.append("LimitMEMLOCK=infinity")
    if unit.profile.max_memory_bytes is not None:
        lines.append(f"MemoryMax={unit.profile.max_memory_bytes}")
    return [*lines, "OOMPolicy=kill", *_numa(unit)]


def _numa(unit: MemberUnit) -> list[str]:
    """The NUMA node of all its devices: a member without devices has none.

    Memory of the node is preferred and not demanded: pinned buffers of weights can be more than one node has.
    """
    member = unit.member
    if member.numa_node is None or not member.devices or not unit.profile.bind_numa:
        return []
    return ["NUMAPolicy=preferred", f"NUMAMask={member.numa_node}", "CPUAffinity=numa"]

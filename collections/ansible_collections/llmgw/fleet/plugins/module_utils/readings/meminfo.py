# SPDX-License-Identifier: BSD-2-Clause
"""Reads /proc/meminfo (proc(5)): how much memory there is, and how much is set aside.

Private to llmgw and pure. Numbers are as printed: kB, which are KiB, and counts of huge pages. The meminfo of a NUMA
node (/sys/devices/system/node/node0/meminfo) says `Node 0` before each name; of several nodes the first is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

_LINE = re.compile(
    r"[ \t]*(?:Node[ \t]+[0-9]{1,6}[ \t]+)?([A-Za-z][A-Za-z0-9_()]*):[ \t]*([0-9]{1,15})([ \t]+kB)?[ \t\r]*"
)
# Printed without a unit. Another number that lacks its kB in the last line was cut off in the middle.
_COUNTS = frozenset({"HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp"})


@dataclass(frozen=True)
class MemInfo:
    """What the text tells; None is what it does not. `mem_available_kb` came with Linux 3.14.

    Huge pages are part of the total and of no use to ordinary memory; `hugetlb_kb` are those of all sizes together.
    """

    mem_total_kb: Optional[int] = None
    mem_available_kb: Optional[int] = None
    mem_free_kb: Optional[int] = None
    buffers_kb: Optional[int] = None
    cached_kb: Optional[int] = None
    s_reclaimable_kb: Optional[int] = None
    shmem_kb: Optional[int] = None
    swap_total_kb: Optional[int] = None
    swap_free_kb: Optional[int] = None
    hugepages_total: Optional[int] = None
    hugepages_free: Optional[int] = None
    hugepagesize_kb: Optional[int] = None
    hugetlb_kb: Optional[int] = None


def read(text: str) -> MemInfo:
    """What the text tells. Raises Unreadable when not one line is `Name: number`."""
    found: Dict[str, int] = {}
    lines = text.rstrip().split("\n")
    for place, line in enumerate(lines, start=1):
        entry = _LINE.fullmatch(line)
        if entry is not None and (entry.group(3) is not None or entry.group(1) in _COUNTS or place < len(lines)):
            found.setdefault(entry.group(1), int(entry.group(2)))
    if not found:
        raise Unreadable("no line of meminfo: a name, a colon, a number, kB")
    return MemInfo(
        mem_total_kb=found.get("MemTotal"),
        mem_available_kb=found.get("MemAvailable"),
        mem_free_kb=found.get("MemFree"),
        buffers_kb=found.get("Buffers"),
        cached_kb=found.get("Cached"),
        s_reclaimable_kb=found.get("SReclaimable"),
        shmem_kb=found.get("Shmem"),
        swap_total_kb=found.get("SwapTotal"),
        swap_free_kb=found.get("SwapFree"),
        hugepages_total=found.get("HugePages_Total"),
        hugepages_free=found.get("HugePages_Free"),
        hugepagesize_kb=found.get("Hugepagesize"),
        hugetlb_kb=found.get("Hugetlb"),
    )

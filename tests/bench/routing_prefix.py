# SPDX-License-Identifier: Apache-2.0
"""The KV cache of a simulated engine: blocks of 16 tokens, shared by requests that begin alike, the oldest lost first.

As in vLLM: a block is known by its tokens and all before it; a request holds its blocks while it runs; afterwards they
stay until room is needed, and of one request's blocks the last goes first. Pure.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

BLOCK_TOKENS = 16
TOKEN_BYTES = 4
BLOCK_BYTES = BLOCK_TOKENS * TOKEN_BYTES

Chain = tuple[int, ...]


def chain(text: bytes) -> Chain:
    """One number a full block, which stands for the block and all before it."""
    before, found = 0, []
    for start in range(0, len(text) - BLOCK_BYTES + 1, BLOCK_BYTES):
        before = hash((before, text[start : start + BLOCK_BYTES]))
        found.append(before)
    return tuple(found)


@dataclass(slots=True)
class Lease:
    """The blocks of one running request: those that others may share, in order, and those that only it knows."""

    shared: list[int] = field(default_factory=list)
    own: int = 0


class BlockCache:
    """All blocks of one engine. `in_use`: those that running requests hold."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.in_use = 0
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    def take(self, wanted: Chain, most_cached: int, total: int) -> Lease | None:
        """Blocks for a request that needs `total`, of which at most the first `most_cached` come from the cache; None
        while there is no room.
        """
        cached = 0
        while cached < min(most_cached, len(wanted)) and wanted[cached] in self._holders:
            cached += 1
        woken = [block for block in wanted[:cached] if not self._holders[block]]
        if self.in_use + len(woken) + total - cached > self.blocks:
            return None
        for block in wanted[:cached]:
            self._holders[block] += 1
        for block in woken:
            del self._idle[block]
        self.in_use += len(woken) + total - cached
        while self.in_use + len(self._idle) > self.blocks:
            lost, _none = self._idle.popitem(last=False)
            del self._holders[lost]
        return Lease(list(wanted[:cached]), total - cached)

    def computed(self, lease: Lease, done: Chain) -> None:
        """From now on others find the blocks of `done`. What another request has computed meanwhile stays double."""
        for block in done[len(lease.shared) :]:
            if block in self._holders or not lease.own:
                break
            self._holders[block] = 1
            lease.shared.append(block)
            lease.own -= 1

    def give_back(self, lease: Lease) -> None:
        """The request is over."""
        self.in_use -= lease.own
        for block in reversed(lease.shared):
            self._holders[block] -= 1
            if not self._holders[block]:
                self._idle[block] = None
                self.in_use -= 1
        lease.shared, lease.own = [], 0

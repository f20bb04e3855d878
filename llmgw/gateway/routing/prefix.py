# SPDX-License-Identifier: Apache-2.0
"""Which prompts an endpoint has probably cached: chained hashes of raw prompt bytes, and an index of those seen (G4).

Clients send a conversation anew each turn, byte by byte as before with more at its end. Equal leading bytes therefore
stand for equal leading tokens, and no tokenizer or chat template is needed. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import accumulate, count
from operator import xor
from struct import Struct

BLOCK_BYTES = 256
BLOCK_TOKENS = 64
"""Of a block, at four bytes a token."""
MOST_BLOCKS = 2048
"""Of one prompt: its first 512 KiB. What follows counts as not cached."""
CAPACITY_BLOCKS = 16_384
"""Of one endpoint: 4 MiB of prompts, or a million tokens."""
BYTES_PER_BLOCK = 128
"""Most memory that a block takes in an index: an int of 32 bytes, and its place in a set that has just grown."""

_SEED_MASK = (1 << 60) - 1
"""Python hashes an int modulo 2**61 - 1: above that, two seeds could be one."""
_blocks = Struct(f"{BLOCK_BYTES}s").iter_unpack


def chain(seed: int, pieces: Sequence[bytes | memoryview]) -> tuple[int, ...]:
    """One number for each full block of the pieces, first to last: equal where all bytes up to there are equal.

    `seed` stands for whoever must not share a cache: model and key. Python's keyed hash makes the numbers, so they mean
    nothing in another process, and nobody outside can make two prompts collide. Each number is the exclusive or of
    the hashes of (place, block) up to it, which is a chain that needs no Python code per block.
    """
    data = pieces[0] if len(pieces) == 1 else b"\0".join(pieces)
    blocks = min(len(data) // BLOCK_BYTES, MOST_BLOCKS)
    placed = zip(count(seed & _SEED_MASK), _blocks(memoryview(data)[: blocks * BLOCK_BYTES]), strict=False)
    return tuple(accumulate(map(hash, placed), xor))


def home(seed: int, pieces: Sequence[bytes | memoryview]) -> int:
    """A number for the first block of the pieces that is the same in every process, also where the block is not full.

    By it, workers and gateways that share nothing send a prompt that none of them has seen to the same endpoint. `seed`
    as for `chain`, but stable.
    """
    value = seed & 0xFFFFFFFF
    room = BLOCK_BYTES
    for piece in pieces:
        value = zlib.crc32(piece[:room], value)
        room -= min(room, len(piece))
        if not room:
            break
    return value


class PrefixIndex:
    """Blocks that one endpoint has seen, the least recently used dropped first, and never more than `capacity_blocks`.

    Two generations instead of a list in order of use: what is touched goes into the young one; when that is half of the
    capacity, the old one is dropped whole and the young one takes its place. A touch costs a fifth of one that moves
    each block to the end of a list, and a block two fifths of the memory.

    Invariant: with a block, all blocks before it in its prompt are in the index. A touch puts a chain's beginning into
    one generation, and generations are dropped whole; so a binary search finds how deep a prompt is cached.
    """

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, capacity_blocks: int = CAPACITY_BLOCKS) -> None:
        self._half = max(1, capacity_blocks // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __len__(self) -> int:
        """Blocks held; those in both generations count twice, as they take the memory twice."""
        return len(self._young) + len(self._old)

    def match(self, chain: tuple[int, ...]) -> int:
        """How many blocks from the first on are in the index."""
        if not chain:
            return 0
        depth = _depth(self._young, chain, 0)
        return depth if depth == len(chain) else _depth(self._old, chain, depth)

    def touch(self, chain: tuple[int, ...]) -> None:
        """Takes the prompt in as the most recently used; its beginning, if it is longer than half the capacity."""
        if len(self._young) + len(chain) > self._half:
            self._old, self._young = self._young, set()
            chain = chain[: self._half]
        self._young.update(chain)

    def clear(self) -> None:
        """Forgets all: the engine that had it cached is gone."""
        self._young, self._old = set(), set()


def _depth(blocks: set[int], chain: tuple[int, ...], known: int) -> int:
    """How many of the chain are in `blocks`, or `known` where that is more. Those there are the chain's first ones."""
    end = len(chain)
    if chain[known] not in blocks:
        return known
    low = known + 1
    while low < end:
        middle = (low + end) // 2
        if chain[middle] in blocks:
            low = middle + 1
        else:
            end = middle
    return low

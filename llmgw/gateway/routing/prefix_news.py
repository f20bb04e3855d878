# SPDX-License-Identifier: Apache-2.0
"""What the workers of a gateway tell each other of the prompts that they sent to an endpoint (G4). Pure.

The turns of a conversation come to whichever worker has the connection. A worker that knows only its own prompts sends
them to other replicas than those that have them cached. The numbers of `prefix.chain` mean the same in all workers only
if all run with the same PYTHONHASHSEED.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

MOST_BLOCKS_KEPT = 65_536
"""Of one endpoint between two tellings: half a megabyte. What is more is not told; that costs a second reading."""
_NUMBER_BYTES = 8


class News:
    """Prompts of one endpoint since the last telling."""

    __slots__ = ("_blocks", "_chains")

    def __init__(self) -> None:
        self._chains: list[tuple[int, ...]] = []
        self._blocks = 0

    def add(self, chain: tuple[int, ...]) -> None:
        """Keeps one more, where there is room."""
        if self._blocks + len(chain) <= MOST_BLOCKS_KEPT:
            self._chains.append(chain)
            self._blocks += len(chain)

    def take(self) -> bytes | None:
        """All of them, to be told; None when there are none. Each is its length and its numbers, eight bytes each."""
        if not self._chains:
            return None
        numbers = array("q")
        for chain in self._chains:
            numbers.append(len(chain))
            numbers.extend(chain)
        self._chains, self._blocks = [], 0
        return numbers.tobytes()


def read_news(data: bytes) -> Iterator[tuple[int, ...]]:
    """The prompts that another worker told of. Ends at what is no news: it is a hint, and nothing rests on it."""
    numbers = array("q")
    numbers.frombytes(data[: len(data) // _NUMBER_BYTES * _NUMBER_BYTES])
    at = 0
    while at < len(numbers):
        end = at + 1 + numbers[at]
        if not at < end <= len(numbers):
            return
        yield tuple(numbers[at + 1 : end])
        at = end

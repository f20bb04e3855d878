# SPDX-License-Identifier: Apache-2.0
"""A replica over several nodes as vLLM has it without Ray: rank 0 holds the rendezvous, the others are headless.

Imitated are its limits too: neither side notices that the other is gone. When a follower dies, /health of rank 0 stays
200 and requests hang; when rank 0 dies, followers stay.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Callable

RENDEZVOUS_S = 600.0
"""How long vLLM waits for the other ranks; torch's own limit."""
RETRY_S = 0.2


class Ranks:
    """Rank 0's view of the others: `complete` once all have come, `lost` once one has gone after that."""

    def __init__(self, count: int) -> None:
        self.complete = asyncio.Event()
        self.lost = asyncio.Event()
        self._missing = set(range(1, count))
        if not self._missing:
            self.complete.set()

    async def open(self, address: str, port: int) -> None:
        """Takes the rendezvous' port, where there is anybody to wait for. Raises OSError."""
        if self._missing:
            self._server = await asyncio.start_server(self._joined, address, port)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rank = _number(await reader.readline())
        if rank in self._missing:
            self._missing.discard(rank)
            if not self._missing:
                self.complete.set()
            while await reader.read(1024):
                pass
            if self.complete.is_set():
                self.lost.set()
            else:
                self._missing.add(rank)
        writer.close()


async def follow(address: str, port: int, rank: int, say: Callable[[str], None]) -> None:
    """Joins rank 0, which may come later, and stays for ever. Raises asyncio.TimeoutError when it never comes."""
    say(f"SIMULATOR, rank {rank} without HTTP; joining rank 0 at {address}:{port}")
    reader, writer = await asyncio.wait_for(_reach(address, port), RENDEZVOUS_S)
    writer.write(b"%d\n" % rank)
    say(f"rank {rank} joined")
    while await reader.read(1024):
        pass
    say(f"rank {rank} hears no more of rank 0 and stays: vLLM does not notice either")
    await asyncio.Event().wait()


async def _reach(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        with contextlib.suppress(OSError):
            return await asyncio.open_connection(address, port)
        await asyncio.sleep(RETRY_S)


def _number(line: bytes) -> int | None:
    return int(line) if line.strip().isdigit() and len(line) < 10 else None  # noqa: PLR2004 - no rank is that long

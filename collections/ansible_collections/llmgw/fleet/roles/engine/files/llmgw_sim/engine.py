# SPDX-License-Identifier: Apache-2.0
"""The simulated engine: who runs, who waits, what the KV cache holds, and when each token comes."""

from __future__ import annotations

import asyncio
import collections
import itertools
import math
from dataclasses import dataclass
from typing import Callable

from llmgw_sim.metrics import Metrics

BLOCK_TOKENS = 16
"""Tokens in one KV block; vLLM's default."""


@dataclass(frozen=True)
class Pace:
    """How fast the engine is. Times in seconds; `prefill_rate` in uncached prompt tokens per second, 0: at once."""

    first_token_s: float
    next_token_s: float
    prefill_rate: float = 0


class Engine:
    """A running set bounded by sequences and KV blocks, a first-come queue, and a prefix cache of whole blocks.

    All blocks that a request may need are taken when it starts, so nothing is ever preempted.
    """

    def __init__(self, pace: Pace, max_sequences: int, kv_tokens: int) -> None:
        self.metrics = Metrics()
        self.running = 0
        self.hung = False
        self._pace = pace
        self._max_sequences = max_sequences
        self._blocks = kv_tokens // BLOCK_TOKENS
        self._blocks_used = 0
        self._waiting: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._cached: collections.OrderedDict[int, None] = collections.OrderedDict()
        self._progress: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    def exposition(self, model: str) -> str:
        """The text of /metrics at this moment."""
        gauges = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": round(self._blocks_used / self._blocks, 6),
        }
        return self.metrics.exposition(model, gauges, {"block_size": BLOCK_TOKENS, "num_gpu_blocks": self._blocks})

    def hang(self, hung: bool) -> None:
        """Stops all progress, or lets it go on; nothing that runs is lost."""
        self.hung = hung
        if not hung:
            for future in self._progress:
                if not future.done():
                    future.set_result(None)
            self._progress = []

    async def generate(self, prompt: list[str], count: int, reason: str, emit: Callable[[int], None]) -> int:
        """Calls `emit` for each of `count` tokens at the engine's pace; returns the prompt tokens found in the cache.

        Cancelling it is vLLM's abort. `reason` is what a request that reaches its end is counted under.
        """
        now = asyncio.get_running_loop().time
        arrived = now()
        blocks = math.ceil((len(prompt) + count) / BLOCK_TOKENS)
        outcome = "abort"
        try:
            await self._enter(blocks)
            try:
                self.metrics.queue_time.observe(now() - arrived)
                hits = self._look_up(prompt)
                prefill_s = (len(prompt) - hits) / self._pace.prefill_rate if self._pace.prefill_rate else 0
                due, last = now() + self._pace.first_token_s + prefill_s, arrived
                for index in range(count):
                    await self._until(due)
                    latency = self.metrics.inter_token_latency if index else self.metrics.time_to_first_token
                    latency.observe(now() - last)
                    last = now()
                    # A late token does not delay the ones after it, but for a pause longer than one interval.
                    due = max(due + self._pace.next_token_s, last)
                    self.metrics.generation_tokens += 1
                    emit(index)
            finally:
                self._leave(blocks)
            outcome = reason
            self.metrics.request_latency.observe(now() - arrived)
            return hits
        finally:
            self.metrics.finished[outcome] += 1

    async def _until(self, due: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0, due - loop.time()))
        while self.hung:
            future = loop.create_future()
            self._progress.append(future)
            await future

    async def _enter(self, blocks: int) -> None:
        """Waits for a place in the running set, and takes it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        item = (blocks, turn)
        self._waiting.append(item)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(item)
                self._admit()
            else:  # let in and cancelled in the same turn of the loop
                self._leave(blocks)
            raise

    def _admit(self) -> None:
        while self._waiting and self.running < self._max_sequences:
            blocks, turn = self._waiting[0]
            if turn.cancelled() or self._blocks_used + blocks > self._blocks:
                return
            self._waiting.popleft()
            self.running += 1
            self._blocks_used += blocks
            turn.set_result(None)

    def _leave(self, blocks: int) -> None:
        self.running -= 1
        self._blocks_used -= blocks
        self._admit()

    def _look_up(self, prompt: list[str]) -> int:
        """Tokens in the longest cached prefix of the prompt, which is cached as a whole from now on."""
        self.metrics.prompt_tokens += len(prompt)
        self.metrics.cache_queries += len(prompt)
        keys: list[int] = []
        # The last token is always computed: the first new token comes out of it.
        for start in range(0, (len(prompt) - 1) // BLOCK_TOKENS * BLOCK_TOKENS, BLOCK_TOKENS):
            keys.append(hash((keys[-1] if keys else 0, *prompt[start : start + BLOCK_TOKENS])))
        hits = BLOCK_TOKENS * len(list(itertools.takewhile(self._cached.__contains__, keys)))
        for key in reversed(keys):  # the tail is the first to go: what comes before it is shared by more prompts
            self._cached[key] = None
            self._cached.move_to_end(key)
        while len(self._cached) > self._blocks:
            self._cached.popitem(last=False)
        self.metrics.cache_hits += hits
        return hits

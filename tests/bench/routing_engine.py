# SPDX-License-Identifier: Apache-2.0
"""A simulated engine: how long its steps take, and which request has a token after which step. Pure; time is given.

Continuous batching as in vLLM: a step writes one token for each request whose prompt has been read, and reads prompts
with what is left of STEP_TOKENS, first come, first served; it takes

    max(step_s, tokens of prompts / prefill_tps) + requests that write x request_s

Simplified: a request waits until the cache has room for its prompt and its whole answer, and so is never preempted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.bench.routing_prefix import BLOCK_TOKENS, BlockCache, Chain, Lease

STEP_TOKENS = 2048
MOST_RUNNING = 256


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a model of 8 billion parameters in 16 bits does on one card.

    `step_s`: reading the weights once; `request_s`: what one more request that writes adds to a step, for its cache of
    some 2,500 tokens.
    """

    device_class: str
    prefill_tps: float
    step_s: float
    request_s: float
    kv_tokens: int


# Half of the card's dense 16-bit peak for prompts; weights and caches at the speed of its memory and 3 ms for the rest;
# the cache is what 90 % of memory leaves beside weights and activations, at 128 KB a token.
FAST = Hardware("h100-80g", 28_000, 0.008, 0.000_10, 400_000)
MIDDLE = Hardware("l40s-48g", 7_000, 0.021, 0.000_37, 190_000)
SLOW = Hardware("a10-24g", 3_500, 0.030, 0.000_53, 28_000)
FLEET = (FAST, FAST, FAST, MIDDLE, MIDDLE, MIDDLE, SLOW, SLOW)


@dataclass(slots=True, eq=False)
class Job:
    """One request. `chain`: of its prompt; `whole_chain`: of prompt and answer."""

    prompt_tokens: int
    answer_tokens: int
    chain: Chain
    whole_chain: Chain
    cached_tokens: int = 0
    read: int = 0
    written: int = 0
    reading: int = 0
    """Tokens of the prompt that the present step reads."""
    lease: Lease = field(default_factory=Lease)

    @property
    def unread(self) -> int:
        """Tokens of the prompt that no step has read yet."""
        return self.prompt_tokens - self.read


class Engine:
    """One engine. `begin` and `end` alternate, as long as there is work."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.cache = BlockCache(hardware.kv_tokens // BLOCK_TOKENS)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.hits = self.queries = self.prompt_tokens = self.generated_tokens = 0
        self._gone: list[Job] = []

    def submit(self, job: Job) -> None:
        """A request comes in."""
        self.waiting.append(job)

    def leave(self, job: Job) -> None:
        """A client has gone: its request is dropped with the next step."""
        if job in self.waiting:
            self.waiting.remove(job)
        elif job in self.running:
            self._gone.append(job)

    def begin(self) -> float | None:
        """Chooses what the next step does; its duration in seconds, None where there is nothing to do."""
        for job in self._gone:
            if job in self.running:
                self._release(job)
        self._gone.clear()
        writers = sum(not job.unread for job in self.running)
        left = STEP_TOKENS - writers
        for job in self.running:
            job.reading = min(job.unread, left)
            left -= job.reading
        while self.waiting and left > 0 and len(self.running) < MOST_RUNNING:
            if not self._admit(self.waiting[0]):
                break
            job = self.waiting.popleft()
            self.running.append(job)
            job.reading = min(job.unread, left)
            left -= job.reading
        if not self.running:
            return None
        reading = STEP_TOKENS - writers - left
        hardware = self.hardware
        return max(hardware.step_s, reading / hardware.prefill_tps) + writers * hardware.request_s

    def end(self) -> list[Job]:
        """The step is over: the requests that have a token more; those with all of them hold nothing any more."""
        progressed = []
        for job in tuple(self.running):
            if job.unread:
                job.read += job.reading
                self.prompt_tokens += job.reading
                if job.unread:
                    continue
                self.cache.computed(job.lease, job.chain)
            job.written += 1
            self.generated_tokens += 1
            progressed.append(job)
            if job.written >= job.answer_tokens:
                self.cache.computed(job.lease, job.whole_chain)
                self._release(job)
        return progressed

    def _admit(self, job: Job) -> bool:
        """Takes blocks for all its tokens. The prompt's last token is always computed: the answer follows from it."""
        total = -(-(job.prompt_tokens + job.answer_tokens) // BLOCK_TOKENS)
        lease = self.cache.take(job.chain, (job.prompt_tokens - 1) // BLOCK_TOKENS, total)
        if lease is None:
            return False
        job.lease = lease
        job.cached_tokens = job.read = len(lease.shared) * BLOCK_TOKENS
        self.hits += job.cached_tokens
        self.queries += job.prompt_tokens
        return True

    def _release(self, job: Job) -> None:
        self.running.remove(job)
        self.cache.give_back(job.lease)

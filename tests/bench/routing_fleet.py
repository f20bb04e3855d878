# SPDX-License-Identifier: Apache-2.0
"""A simulator, not an engine: eight simulated engines of unlike hardware, each on a port of its own, in one program.

    routing_fleet.py PORT PORT PORT PORT PORT PORT PORT PORT

They speak vLLM's HTTP as far as a router needs it: health, models, metrics, streamed chat answers. Time is real: a step
that the model says takes 8 ms ends 8 ms after it began, also where the machine was late to notice.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Final

import msgspec
import uvloop

from tests.bench.gateway_engine import HEAD, LAST, LAST_CHUNK, MODELS, OTHER_PAGE, chunk, whole
from tests.bench.routing_engine import FLEET, Engine, Job
from tests.bench.routing_prefix import TOKEN_BYTES, chain
from tests.bench.routing_traffic import answer, prompt

TOKENS_PER_EVENT: Final = 8
TOO_LONG = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
NO_LENGTH = b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Message(msgspec.Struct):
    """One message of a question."""

    role: str
    content: str


class Question(msgspec.Struct):
    """What is read of a chat request."""

    messages: list[Message]


READ: Final = msgspec.json.Decoder(Question)


class Clock:
    """Runs one engine's steps. `late_s`: how late the machine noticed the ends of steps, at most and in all."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.most_late_s = self.all_late_s = 0.0
        self.steps = 0
        self._loop = asyncio.get_running_loop()
        self._writers: dict[Job, Asked] = {}
        self._busy = False

    def submit(self, job: Job, asked: Asked) -> None:
        """A request comes in."""
        self._writers[job] = asked
        self.engine.submit(job)
        if not self._busy:
            self._begin(self._loop.time())

    def leave(self, job: Job) -> None:
        """A client has gone."""
        if self._writers.pop(job, None) is not None:
            self.engine.leave(job)

    def _begin(self, now: float) -> None:
        duration = self.engine.begin()
        self._busy = duration is not None
        if duration is not None:
            self._loop.call_at(now + duration, self._end, now + duration)

    def _end(self, due: float) -> None:
        late = self._loop.time() - due
        self.steps += 1
        self.all_late_s += late
        self.most_late_s = max(self.most_late_s, late)
        for job in self.engine.end():
            asked = self._writers.get(job)
            if asked is None:
                continue
            if job.written >= job.answer_tokens:
                del self._writers[job]
                asked.write(job, last=True)
            elif job.written % TOKENS_PER_EVENT == 1:
                asked.write(job, last=False)
        self._begin(due)

    def metrics(self) -> bytes:
        """vLLM's page, as far as routers read it, and how late the simulator was."""
        engine = self.engine
        values = {
            "vllm:num_requests_running": len(engine.running),
            "vllm:num_requests_waiting": len(engine.waiting),
            "vllm:kv_cache_usage_perc": engine.cache.in_use / engine.cache.blocks,
            "vllm:prefix_cache_hits_total": engine.hits,
            "vllm:prefix_cache_queries_total": engine.queries,
            "vllm:prompt_tokens_total": engine.prompt_tokens,
            "vllm:generation_tokens_total": engine.generated_tokens,
            "sim:late_seconds_max": self.most_late_s,
            "sim:late_seconds_mean": self.all_late_s / max(self.steps, 1),
        }
        return "".join(f'{name}{{model_name="m"}} {value}\n' for name, value in values.items()).encode()


class Asked(asyncio.Protocol):
    """One connection. Requests come one at a time."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock, self._name = clock, name
        self._buffer = b""
        self._job: Job | None = None
        self._answer = ""
        self._sent = 0
        self._began = self._ttft_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        """The engine drops what was asked here."""
        del exc
        if self._job is not None:
            self._clock.leave(self._job)

    def data_received(self, data: bytes) -> None:
        """Answers, or begins to, once the request is there."""
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        method, path = head.split(b" ", 2)[:2]
        _, named, rest = head.lower().partition(b"\r\ncontent-length:")
        if method == b"POST" and not named:
            self._transport.write(NO_LENGTH)
            self._transport.close()
            return
        if named and len(body) < int(rest.partition(b"\r\n")[0]):
            return
        self._buffer = b""
        if method == b"POST":
            self._begin(body)
        elif path == b"/metrics":
            self._transport.write(whole(self._clock.metrics(), b"text/plain"))
        else:
            self._transport.write(whole(MODELS) if path == b"/v1/models" else OTHER_PAGE)

    def _begin(self, body: bytes) -> None:
        messages = [(one.role, one.content) for one in READ.decode(body).messages]
        read = prompt(messages)
        self._answer = answer(read)
        written = self._answer.encode()
        job = Job(len(read) // TOKEN_BYTES, len(written) // TOKEN_BYTES, chain(read), chain(read + written))
        if job.prompt_tokens + job.answer_tokens > self._clock.engine.hardware.kv_tokens:
            self._transport.write(TOO_LONG)
            return
        self._job, self._sent = job, 0
        self._began = time.perf_counter()
        self._clock.submit(job, self)

    def write(self, job: Job, *, last: bool) -> None:
        """Sends the tokens that have been written since the last event."""
        text = self._answer[self._sent * TOKEN_BYTES : job.written * TOKEN_BYTES]
        data = b""
        if not self._sent:
            self._ttft_s = time.perf_counter() - self._began
            data = HEAD
        self._sent = job.written
        event: dict[str, object] = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "system_fingerprint": self._name,
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop" if last else None}],
        }
        if last:
            event["usage"] = {
                "prompt_tokens": job.prompt_tokens,
                "completion_tokens": job.answer_tokens,
                "prompt_tokens_details": {"cached_tokens": job.cached_tokens},
                "engine_ttft_s": self._ttft_s,
            }
            self._job = None
        data += chunk(b"data: " + msgspec.json.encode(event) + b"\n\n")
        self._transport.write(data + chunk(LAST) + LAST_CHUNK if last else data)


async def main() -> None:
    """Serves until killed."""
    loop = asyncio.get_running_loop()
    servers = []
    for number, (hardware, port) in enumerate(zip(FLEET, sys.argv[1:], strict=True)):
        clock, name = Clock(Engine(hardware)), f"{hardware.device_class}/{number}"
        servers.append(
            await loop.create_server(
                lambda clock=clock, name=name: Asked(clock, name),  # type: ignore[misc]
                "127.0.0.1",
                int(port),
                backlog=1024,
            )
        )
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(main())

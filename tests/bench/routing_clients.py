# SPDX-License-Identifier: Apache-2.0
"""The conversations of the routing benchmark, held with a gateway; what came of each question.

    routing_clients.py PORT SEED SECONDS PER_SECOND

Prints one JSON line a question.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import httptools
import uvloop

from tests.bench.gateway_bundle import KEY, MODEL
from tests.bench.gateway_load import PATH
from tests.bench.routing_traffic import Conversation, traffic

PATIENCE_S = 60.0
BEGINS_IN_S = 0.5


@dataclass(slots=True)
class Outcome:
    """What came of one question. Times in seconds; `ttft_s` None: nothing came. `engine_ttft_s`: the engine's part of
    it. `late_s`: how late it was asked because this program was busy.
    """

    at: float
    status: int = 0
    ttft_s: float | None = None
    took_s: float = 0.0
    complete: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0
    engine: str = ""
    engine_ttft_s: float = 0.0
    late_s: float = 0.0
    error: str = ""


class Answer:
    """Reads one answer off its connection, called by httptools."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.over = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        """More bytes."""
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        """Keeps the status."""
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """Keeps the body."""
        self.body += data

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self.over = True


async def ask(port: int, messages: list[dict[str, str]], session: str, outcome: Outcome) -> str:
    """Asks one question on a connection of its own; the text of the answer. Fills `outcome`."""
    body = json.dumps({"model": MODEL, "messages": messages, "stream": True}).encode()
    headers = f"host: 127.0.0.1\r\ncontent-type: application/json\r\nauthorization: Bearer {KEY}\r\n"
    head = f"POST {PATH} HTTP/1.1\r\n{headers}x-session-id: {session}\r\ncontent-length: {len(body)}\r\n\r\n"
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode() + body)
        answer = Answer()
        while not answer.over:
            data = await reader.read(1 << 16)
            if not data:
                break
            answer.feed(data)
            outcome.status = answer.status
            if answer.body and outcome.ttft_s is None and answer.status == 200:
                outcome.ttft_s = time.perf_counter() - began
    finally:
        outcome.took_s = time.perf_counter() - began
        writer.close()
    return read(answer.body.decode(), outcome) if outcome.status == 200 and answer.over else ""


def read(events: str, outcome: Outcome) -> str:
    """The text in the events of a whole answer, and what its last one says of tokens."""
    text = ""
    for line in events.splitlines():
        if not line.startswith("data: {"):
            continue
        event: dict[str, Any] = json.loads(line.removeprefix("data: "))
        text += event["choices"][0]["delta"].get("content", "")
        outcome.engine = event["system_fingerprint"]
        usage = event.get("usage")
        if usage:
            outcome.prompt_tokens = usage["prompt_tokens"]
            outcome.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"]
            outcome.engine_ttft_s = usage["engine_ttft_s"]
            outcome.answer_tokens = usage["completion_tokens"]
            outcome.complete = True
    return text


async def hold(port: int, conversation: Conversation, begin: float, outcomes: list[Outcome]) -> None:
    """One conversation to its end; where a question fails, what follows is not asked, and counts as failed too."""
    messages = [{"role": "system", "content": conversation.system}]
    text = ""
    for place, turn in enumerate(conversation.turns):
        outcome = Outcome(turn.at)
        outcomes.append(outcome)
        if place and not text:
            outcome.error = "not asked: the turn before it failed"
            continue
        messages += [{"role": "assistant", "content": text}] if place else []
        messages.append({"role": "user", "content": turn.question})
        wait = begin + turn.at - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
            outcome.late_s = time.perf_counter() - begin - turn.at
        text = ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                text = await ask(port, messages, conversation.name, outcome)
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            outcome.error = type(error).__name__


async def main() -> None:
    """Holds all conversations and prints."""
    port, seed, seconds, per_second = (
        kind(text) for kind, text in zip((int, int, float, float), sys.argv[1:], strict=True)
    )
    conversations = traffic(int(seed), seconds, per_second)
    begin = time.perf_counter() + BEGINS_IN_S
    outcomes: list[Outcome] = []
    await asyncio.gather(*(hold(int(port), one, begin, outcomes) for one in conversations))
    for outcome in outcomes:
        print(json.dumps(asdict(outcome)))  # noqa: T201 - its result


if __name__ == "__main__":
    uvloop.run(main())

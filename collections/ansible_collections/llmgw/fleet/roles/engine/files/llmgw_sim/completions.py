# SPDX-License-Identifier: Apache-2.0
"""/v1/chat/completions and /v1/completions."""

from __future__ import annotations

import time
import uuid
from typing import Any

from llmgw_sim import answers
from llmgw_sim.generation import Generator
from llmgw_sim.web import Connection


class Completions:
    """Answers both paths in the name of one model."""

    def __init__(self, generator: Generator, model: str) -> None:
        self._generator = generator
        self._model = model

    async def chat(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/chat/completions."""
        await self._generate(body, answers.chat_tokens(body.get("messages")), connection, chat=True)

    async def text(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/completions."""
        prompt = body.get("prompt")
        if isinstance(prompt, list) and len(prompt) == 1 and not answers.is_number(prompt[0]):
            prompt = prompt[0]
        await self._generate(body, answers.prompt_tokens(prompt, "prompt"), connection, chat=False)

    async def _generate(self, body: dict[str, Any], prompt: list[str], connection: Connection, *, chat: bool) -> None:
        ident = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        generation = answers.Generation.of(body, chat, ident, int(time.time()), self._model)
        self._generator.check(prompt, generation.count)
        words: list[str] = []
        stream = bool(body.get("stream"))

        def said(word: str) -> None:
            if stream:
                if not words and chat:
                    connection.event(generation.first_chunk())
                connection.event(generation.token_chunk(word))
            words.append(word)

        if stream:
            connection.start_events()
        cached = await self._generator.say(prompt, generation.count, generation.reason, connection, said)
        used = answers.usage(len(prompt), generation.count, cached)
        if not stream:
            connection.reply_json(generation.whole("".join(words), used))
            return
        connection.event(generation.last_chunk())
        if (body.get("stream_options") or {}).get("include_usage"):
            connection.event(generation.usage_chunk(used))
        connection.end_events()

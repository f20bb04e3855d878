# SPDX-License-Identifier: Apache-2.0
"""/v1/responses: OpenAI's newer shape, whole or as events that have names. Nothing is stored."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

from llmgw_sim import answers
from llmgw_sim.generation import Generator
from llmgw_sim.web import Connection, bad_request


class Responses:
    """Answers the path in the name of one model."""

    def __init__(self, generator: Generator, model: str) -> None:
        self._generator = generator
        self._model = model

    async def create(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/responses."""
        for name in ("previous_response_id", "background"):
            if body.get(name):
                raise bad_request(f"the simulator stores no responses: {name} means nothing to it", name)
        prompt = _instructions(body) + _input_tokens(body.get("input"))
        count, reason = answers.length(body.get("max_output_tokens"), body, "max_output_tokens")
        self._generator.check(prompt, count)
        response = _Response(body, self._model, reason)
        words: list[str] = []
        if not body.get("stream"):
            cached = await self._generator.say(prompt, count, reason, connection, words.append)
            connection.reply_json(response.ended("".join(words), len(prompt), count, cached))
            return

        numbers = itertools.count()

        def event(name: str, **fields: Any) -> None:
            connection.event({"type": name, "sequence_number": next(numbers), **fields}, name)

        where = {"output_index": 0, "item_id": response.item_id}
        connection.start_events(named=True)
        event("response.created", response=response.document("in_progress"))
        event("response.in_progress", response=response.document("in_progress"))

        def said(word: str) -> None:
            if not words:
                event("response.output_item.added", output_index=0, item=response.item("in_progress"))
                event("response.content_part.added", **where, content_index=0, part=response.part(""))
            words.append(word)
            event("response.output_text.delta", **where, content_index=0, delta=word, logprobs=[])

        cached = await self._generator.say(prompt, count, reason, connection, said)
        text = "".join(words)
        event("response.output_text.done", **where, content_index=0, text=text, logprobs=[])
        event("response.content_part.done", **where, content_index=0, part=response.part(text))
        event("response.output_item.done", output_index=0, item=response.item(response.status, text))
        event(f"response.{response.status}", response=response.ended(text, len(prompt), count, cached))
        connection.end_events()


class _Response:
    """The documents about one response."""

    def __init__(self, body: dict[str, Any], model: str, reason: str) -> None:
        self.status = "incomplete" if reason == "length" else "completed"
        self.item_id = f"msg_{uuid.uuid4().hex}"
        self._id = f"resp_{uuid.uuid4().hex}"
        self._created = int(time.time())
        self._model = model
        self._body = body

    def part(self, text: str) -> dict[str, Any]:
        """The only content part."""
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def item(self, status: str, text: str | None = None) -> dict[str, Any]:
        """The only output item: the assistant's message."""
        content = [] if text is None else [self.part(text)]
        return {"id": self.item_id, "type": "message", "status": status, "role": "assistant", "content": content}

    def ended(self, text: str, prompt: int, completion: int, cached: int) -> dict[str, Any]:
        """The response when all is said."""
        used = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + completion,
        }
        return self.document(self.status, [self.item(self.status, text)], used)

    def document(
        self, status: str, output: list[dict[str, Any]] | None = None, used: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The response as it is so far."""
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": self._body.get("instructions"),
            "max_output_tokens": self._body.get("max_output_tokens"),
            "model": self._model,
            "output": output or [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": self._body.get("temperature", 1.0),
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": self._body.get("tools") or [],
            "top_p": self._body.get("top_p", 1.0),
            "truncation": "disabled",
            "usage": used,
            "metadata": self._body.get("metadata") or {},
        }


def _instructions(body: dict[str, Any]) -> list[str]:
    given = body.get("instructions")
    return ["system", *answers.tokens(given)] if isinstance(given, str) else []


def _input_tokens(given: object) -> list[str]:
    """The tokens of a text, or of a list of messages; items of other kinds count by their text, if they have any."""
    if isinstance(given, str) and given:
        return ["user", *answers.tokens(given)]
    if not isinstance(given, list):
        raise bad_request("input must be a text or a list of at least one item", "input")
    return answers.chat_tokens(given, "input")

# SPDX-License-Identifier: Apache-2.0
"""/v1/messages and /v1/messages/count_tokens: Anthropic's shapes, errors too."""

from __future__ import annotations

import uuid
from typing import Any

from llmgw_sim import answers
from llmgw_sim.generation import Generator
from llmgw_sim.web import ApiError, Connection, bad_request

PREFIX = "/v1/messages"
KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}


def in_their_shape(error: ApiError) -> ApiError:
    """The same error as Anthropic's clients read it."""
    kind = KINDS.get(error.status, "api_error")
    error.body = {"type": "error", "error": {"type": kind, "message": str(error)}}
    return error


class Messages:
    """Answers both paths in the name of one model."""

    def __init__(self, generator: Generator, model: str) -> None:
        self._generator = generator
        self._model = model

    async def count(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/messages/count_tokens."""
        connection.reply_json({"input_tokens": len(_prompt(body))})

    async def create(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/messages."""
        prompt = _prompt(body)
        if body.get("max_tokens") is None:
            raise bad_request("max_tokens: Field required", "max_tokens")
        count, reason = answers.length(body["max_tokens"], body)
        self._generator.check(prompt, count)
        message: dict[str, Any] = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(len(prompt), 0, 0),
        }
        words: list[str] = []
        if body.get("stream"):
            await self._stream(message, prompt, count, reason, connection)
            return
        cached = await self._generator.say(prompt, count, reason, connection, words.append)
        message["content"] = [{"type": "text", "text": "".join(words)}]
        message["stop_reason"] = STOP_REASONS[reason]
        message["usage"] = _usage(len(prompt), count, cached)
        connection.reply_json(message)

    async def _stream(
        self, message: dict[str, Any], prompt: list[str], count: int, reason: str, connection: Connection
    ) -> None:
        def event(kind: str, **fields: Any) -> None:
            connection.event({"type": kind, **fields}, kind)

        def said(word: str) -> None:
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})

        connection.start_events(named=True)
        event("message_start", message=message)
        event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        event("ping")
        cached = await self._generator.say(prompt, count, reason, connection, said)
        event("content_block_stop", index=0)
        ended = {"stop_reason": STOP_REASONS[reason], "stop_sequence": None}
        event("message_delta", delta=ended, usage=_usage(len(prompt), count, cached))
        event("message_stop")
        connection.end_events()


def _prompt(body: dict[str, Any]) -> list[str]:
    """The tokens of what the model reads: the system's text, then the messages."""
    system = body.get("system")
    first = answers.chat_tokens([{"role": "system", "content": system}], "system") if system else []
    return first + answers.chat_tokens(body.get("messages"))


def _usage(prompt: int, completion: int, cached: int) -> dict[str, int]:
    """Anthropic counts what was cached apart from the other tokens of the prompt."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    }

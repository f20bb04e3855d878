# SPDX-License-Identifier: Apache-2.0
"""What the simulator says: pure functions from a request's text to tokens, words, vectors, and OpenAI's documents."""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any

from llmgw_sim.web import bad_request

REPLY_TOKENS = 24
"""Length of an answer that no limit cuts short."""
COMPLETION_TOKENS = 16
"""OpenAI's default of max_tokens for /v1/completions."""
EMBEDDING_SIZE = 64
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heron", "islet", "juniper", "kelp", "lagoon")


def tokens(text: str) -> list[str]:
    """The text as tokens: words and single signs."""
    return re.findall(r"\w+|[^\w\s]", text)


def is_number(value: object) -> bool:
    """Whether a JSON value is a whole number, which true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_bytes(text: str) -> bytes:
    """The text in UTF-8, also where JSON's escapes have put half a character into it."""
    return text.encode("utf-8", "surrogatepass")


def token_id(token: str) -> int:
    """A number for a token, the same everywhere."""
    return zlib.crc32(as_bytes(token)) % 50_000


def prompt_tokens(prompt: object, param: str) -> list[str]:
    """The tokens of one prompt: a text or a list of token numbers."""
    if isinstance(prompt, str):
        return tokens(prompt)
    if isinstance(prompt, list) and prompt and all(map(is_number, prompt)):
        return [str(item) for item in prompt]
    raise bad_request(f"{param} must be a text or a list of token numbers", param)


def chat_tokens(messages: object, param: str = "messages") -> list[str]:
    """The tokens of a chat: role and text of each message, content being a text or a list of parts."""
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        raise bad_request(f"{param} must be a list of at least one object", param)
    found: list[str] = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and "text" in part)
        found += [str(message.get("role")), *tokens(str(content))]
    return found


def word(prompt: list[str], index: int) -> str:
    """The answer's token at `index`: the same for the same prompt, and recognisable as nobody's opinion."""
    if index == 0:
        return "[simulated]"
    digest = zlib.crc32(as_bytes(f"{index} {' '.join(prompt)}"))
    return f" {WORDS[digest % len(WORDS)]}"


def vector(text_tokens: list[str], size: int) -> list[float]:
    """An embedding of length 1, the same for the same text."""
    stream = hashlib.shake_256(as_bytes(" ".join(text_tokens))).digest(2 * size)
    values = [value / 32768 for value in struct.unpack(f"<{size}h", stream)]
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    """OpenAI's usage block."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def length(limit: Any, body: dict[str, Any], param: str = "max_tokens") -> tuple[int, str]:
    """How many tokens an answer gets under the limit asked for, and why it ends. Raises ApiError 400 for no limit."""
    if limit is not None and (not is_number(limit) or limit < 1):
        raise bad_request(f"{param} must be at least 1, got {limit!r}.", param)
    if limit is None or (limit > REPLY_TOKENS and not body.get("ignore_eos")):
        return REPLY_TOKENS, "stop"
    return limit, "length"


@dataclass(frozen=True)
class Generation:
    """One generation: how long it gets, why it ends, and the documents that report it."""

    chat: bool
    ident: str
    created: int
    model: str
    count: int
    reason: str

    @classmethod
    def of(cls, body: dict[str, Any], chat: bool, ident: str, created: int, model: str) -> Generation:
        """The generation that a request asks for. Raises ApiError 400 for what the simulator cannot do."""
        if body.get("n", 1) not in (1, None):
            raise bad_request("the simulator gives one choice: n must be 1", "n")
        limit = body.get("max_completion_tokens") if chat else None
        limit = body.get("max_tokens") if limit is None else limit
        if limit is None and not chat:
            limit = COMPLETION_TOKENS
        return cls(chat, ident, created, model, *length(limit, body))

    def whole(self, text: str, used: dict[str, Any]) -> dict[str, Any]:
        """The answer in one document."""
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        return self._document([self._choice(said, self.reason)], used, chunk=False)

    def first_chunk(self) -> dict[str, Any] | None:
        """The chunk before the first token: in a chat it names the role."""
        return self._document([self._choice({"delta": {"role": "assistant", "content": ""}})]) if self.chat else None

    def token_chunk(self, text: str) -> dict[str, Any]:
        """The chunk of one token."""
        return self._document([self._choice({"delta": {"content": text}} if self.chat else {"text": text})])

    def last_chunk(self) -> dict[str, Any]:
        """The chunk that says why the answer ends."""
        return self._document([self._choice({"delta": {}} if self.chat else {"text": ""}, self.reason)])

    def usage_chunk(self, used: dict[str, Any]) -> dict[str, Any]:
        """The chunk of stream_options.include_usage: no choice, but the usage."""
        return self._document([], used)

    def _choice(self, said: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, **said, "logprobs": None, "finish_reason": reason}

    def _document(
        self, choices: list[dict[str, Any]], used: dict[str, Any] | None = None, *, chunk: bool = True
    ) -> dict[str, Any]:
        kind = ("chat.completion.chunk" if chunk else "chat.completion") if self.chat else "text_completion"
        document = {"id": self.ident, "object": kind, "created": self.created, "model": self.model, "choices": choices}
        return document if used is None else {**document, "usage": used}

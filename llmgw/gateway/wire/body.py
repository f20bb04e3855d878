# SPDX-License-Identifier: Apache-2.0
"""Reading a request's body without changing it: the model's name, whether it streams, the splice of a name (G1, G8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from llmgw.gateway.wire.refusal import Refusal, bad_body

_KEY: Final = b'"model"'
_ESCAPED_LETTER: Final = b"\\u006"
"""All letters of `model` are U+006x: without this prefix no key can be `model` in disguise."""
_AFTER_KEY = re.compile(rb'[ \t\r\n]*:[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')


_ABSENT: Final = msgspec.Raw(b"")


class _Fields(msgspec.Struct, gc=False):
    """What the gateway reads of a body. All but the name stay as they were written: what they hold is the engine's
    matter.
    """

    model: str
    stream: msgspec.Raw = _ABSENT
    max_tokens: msgspec.Raw = _ABSENT
    max_completion_tokens: msgspec.Raw = _ABSENT
    max_output_tokens: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    instructions: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    query: msgspec.Raw = _ABSENT
    documents: msgspec.Raw = _ABSENT


_DECODER = msgspec.json.Decoder(_Fields)
_NOTHING: Final = _Fields("")
_MOST_DIGITS: Final = 9


@dataclass(slots=True)
class Asked:
    """What a body asks for."""

    data: bytes
    model: str
    stream: bool
    fields: _Fields

    @property
    def max_tokens(self) -> int | None:
        """How long the client lets the answer be at most, in tokens; None: it does not say, or not with a number."""
        fields = self.fields
        for value in (fields.max_completion_tokens, fields.max_output_tokens, fields.max_tokens):
            if value is not _ABSENT:
                text = bytes(value)
                if text.isdigit() and len(text) <= _MOST_DIGITS:
                    return int(text)
        return None

    def prompt(self, names: tuple[str, ...]) -> list[memoryview]:
        """The bytes of those fields that are there, in that order: what the model reads."""
        values = (getattr(self.fields, name) for name in names)
        return [memoryview(value) for value in values if value is not _ABSENT]

    def forget(self) -> None:
        """Lets the body go; what it asked for stays known."""
        self.data = b""
        self.fields = _NOTHING

    def with_model(self, name: str) -> bytes:
        """The body with another model name and every other byte as it came."""
        (span,) = _models(self.data)
        start, end = span
        return b"".join((self.data[:start], msgspec.json.encode(name), self.data[end:]))


def read_body(data: bytes) -> Asked | Refusal:
    """What `data` asks for, or why it is not passed on: not JSON, not UTF-8, no model name, or two of them.

    Other fields are checked to be JSON and are otherwise not looked at.
    """
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            return bad_body(f"The request body is not UTF-8 (byte {error.start}).")
    try:
        fields = _DECODER.decode(data)
    except msgspec.ValidationError as error:
        return bad_body(f"The request body must be a JSON object with a string `model`: {error}.", "model")
    except (msgspec.DecodeError, RecursionError) as error:
        return bad_body(f"The request body is not valid JSON: {error}.")
    # Where `"model"` occurs once, in a document that is known to have such a key, nothing else can be the key.
    if (data.count(_KEY) != 1 or _ESCAPED_LETTER in data) and len(_top_level_models(data)) != 1:
        return bad_body(
            "The request body names `model` more than once; gateway and engine could differ on it.", "model"
        )
    return Asked(data, fields.model, fields.stream is not _ABSENT and bytes(fields.stream) == b"true", fields)


def _models(data: bytes) -> list[tuple[int, int]]:
    """Where the values of the top-level keys `model` are, quotes included."""
    at = data.find(_KEY)
    if at >= 0 and data.find(_KEY, at + 1) < 0 and _ESCAPED_LETTER not in data:
        value = _AFTER_KEY.match(data, at + len(_KEY))
        return [value.span(1)] if value else []
    return _top_level_models(data)


def _top_level_models(data: bytes) -> list[tuple[int, int]]:
    """Spans of the values of all top-level keys that decode to `model`."""
    spans = []
    depth = 0
    key_next = False
    for token in _TOKEN.finditer(data):
        text = token.group()
        if text in {b"{", b"["}:
            depth += 1
            key_next = depth == 1
        elif text in {b"}", b"]"}:
            depth -= 1
        elif text == b",":
            key_next = depth == 1
        elif key_next:
            key_next = False
            value = _AFTER_KEY.match(data, token.end())
            if value and msgspec.json.decode(text) == "model":
                spans.append(value.span(1))
    return spans

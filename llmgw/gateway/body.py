# SPDX-License-Identifier: Apache-2.0
"""Reading a request's body without changing it: the model's name, whether it streams, the splice of a name (G1, G8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from llmgw.gateway.refusal import Refusal, bad_body

_KEY: Final = b'"model"'
_ESCAPED_LETTER: Final = b"\\u006"
"""All letters of `model` are U+006x: without this prefix no key can be `model` in disguise."""
_AFTER_KEY = re.compile(rb'[ \t\r\n]*:[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]')


class _Fields(msgspec.Struct, gc=False):
    model: str
    stream: msgspec.Raw = msgspec.Raw(b"false")


_DECODER = msgspec.json.Decoder(_Fields)


@dataclass(slots=True)
class Asked:
    """What a body asks for. `data[start:end]` is the model's name as JSON, quotes included."""

    data: bytes
    model: str
    stream: bool
    start: int
    end: int

    def with_model(self, name: str) -> bytes:
        """The body with another model name and every other byte as it came."""
        return b"".join((self.data[: self.start], msgspec.json.encode(name), self.data[self.end :]))


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
    span = _model_span(data)
    if span is None:
        return bad_body(
            "The request body names `model` more than once; gateway and engine could differ on it.", "model"
        )
    return Asked(data, fields.model, bytes(fields.stream) == b"true", *span)


def _model_span(data: bytes) -> tuple[int, int] | None:
    """Where the value of the only top-level `model` is; None when there are several.

    The document is known to be JSON with such a key, so where `"model"` occurs once, that is the key.
    """
    at = data.find(_KEY)
    if at >= 0 and data.find(_KEY, at + 1) < 0 and data.find(_ESCAPED_LETTER) < 0:
        value = _AFTER_KEY.match(data, at + len(_KEY))
        return value.span(1) if value else None
    spans = _top_level_models(data)
    return spans[0] if len(spans) == 1 else None


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

# SPDX-License-Identifier: Apache-2.0
"""What passes by of an answer's body: how much, whether an engine reports an error in a stream, and its last bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from llmgw.gateway.admit import usage as usages
from llmgw.gateway.admit.usage import TAIL_BYTES, Usage

if TYPE_CHECKING:
    from llmgw.gateway.exchange import Exchange

_ERROR: Final = b"error"
_error_event: Final = re.compile(
    rb'(?:^|\n|\r)(?:data: ?\{ ?"(?:error"|object": ?"error"|type": ?"error")|event: ?error)'
).search
"""How engines end a stream that failed: vLLM, SGLang and llama.cpp; an older vLLM; Anthropic's API."""


class Tail:
    """The body of one answer as it passes. `error`: a stream said that it failed."""

    __slots__ = ("_before", "_first", "_last", "error", "size")

    def __init__(self) -> None:
        self._first = self._before = self._last = b""
        self.error = False
        self.size = 0

    def add(self, data: bytes, start: int = 0) -> bool:
        """Takes note of what comes, which is not empty; its first `start` bytes are framing. Returns whether it is
        content, and not a stream's comment.
        """
        if not self.size:
            self._first = data
        self.size += len(data) - start
        last = self._last
        if len(last) < TAIL_BYTES > len(data):  # an end may come in many reads
            self._last = last + data
        else:
            self._before, self._last = last, data
        if _ERROR in data and _error_event(data[start:] if start else data):
            self.error = True
        return not data.startswith(b":", start)

    def usage(self) -> Usage | None:
        """What the engine counted, if it said so."""
        last = self._last
        tail = last[-TAIL_BYTES:] if len(last) >= TAIL_BYTES else self._before[-TAIL_BYTES:] + last
        return usages.read_usage(tail, self._first[:TAIL_BYTES])


def spent(exchange: Exchange, usage: Usage | None) -> tuple[int | None, int | None]:
    """Tokens in and out that the request took, None where no engine saw it; and those out, where an engine counted
    them.
    """
    if not exchange.attempts or exchange.ask is None:
        return None, None
    size = 0 if exchange.tail is None else exchange.tail.size
    stream = exchange.asked is not None and exchange.asked.stream
    prompt, answer = usages.tokens_of(usage, exchange.ask.tokens, size, stream=stream)
    return prompt + answer, None if usage is None else usage.completion

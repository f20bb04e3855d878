# SPDX-License-Identifier: Apache-2.0
"""How many tokens a request took, by what its answer says at its end, or else by its size. Pure.

Answers pass through the gateway unread; of each the last bytes are kept, and looked at once, when it is over.
"""

from __future__ import annotations

import re

import msgspec

TAIL_BYTES = 4096
"""As many of the last bytes of an answer as are worth keeping."""
_MOST = 10**9
"""No request takes more: what says so is damaged."""
_BYTES_A_TOKEN = 4
_BYTES_AN_EVENT = 200
"""An event of a stream has about one token; the rest of it is the envelope."""

_KEY = b'"usage"'
_PLAIN = re.compile(
    rb' ?: ?\{"prompt_tokens": ?(\d{1,9}),(?: ?"total_tokens": ?\d{1,9},)? ?"completion_tokens": ?(\d{1,9})[,}]'
)
"""As vLLM and SGLang begin it, and OpenAI's own API: nearly all answers need no more than this."""
_OBJECT = re.compile(rb'\s*:\s*(\{(?:[^{}"]|"[^"\\]*"|\{[^{}]*\})*\})')
"""The mapping behind the key, with mappings in it, such as `prompt_tokens_details`, that hold none."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens that an engine counted; None: it did not say."""

    prompt: int | None = None
    completion: int | None = None


class _Counted(msgspec.Struct):
    """The names that OpenAI (first those of chat, then those of responses) and Anthropic use; other keys are nobody's
    business.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


_DECODER = msgspec.json.Decoder(_Counted)


def read_usage(tail: bytes, head: bytes = b"") -> Usage | None:
    """What the engine counted, from the last bytes of its answer, be it JSON or a stream of events; None when it does
    not say.

    A stream of Anthropic's tells the prompt in its first event: `head`, the first bytes, is asked where the tail does
    not say. What the model wrote cannot pass for it: in a text the quotes around the key are escaped, and what is
    written last counts.
    """
    prompt = completion = None
    end = len(tail)
    while prompt is None or completion is None:
        end = tail.rfind(_KEY, 0, end)
        if end < 0:
            break
        found = _read(tail, end)
        if found is not None:
            prompt = found.prompt if prompt is None else prompt
            completion = found.completion if completion is None else completion
    if prompt is None and head:
        at = head.find(_KEY)
        found = _read(head, at) if at >= 0 else None
        prompt = None if found is None else found.prompt
    return None if prompt is None and completion is None else Usage(prompt, completion)


def tokens_of(usage: Usage | None, prompt: int, answer_bytes: int, *, stream: bool) -> tuple[int, int]:
    """Tokens of prompt and answer: as counted, and where the engine did not count, the estimate `prompt` of what was
    asked, and the answer by its size.
    """
    asked = usage.prompt if usage is not None and usage.prompt is not None else prompt
    if usage is not None and usage.completion is not None:
        return asked, usage.completion
    return asked, answer_bytes // (_BYTES_AN_EVENT if stream else _BYTES_A_TOKEN)


def _read(data: bytes, key: int) -> Usage | None:
    """The mapping behind the key at that place, if it is one and counts tokens."""
    plain = _PLAIN.match(data, key + len(_KEY))
    if plain is not None:
        return Usage(int(plain[1]), int(plain[2]))
    match = _OBJECT.match(data, key + len(_KEY))
    if match is None:
        return None
    try:
        counted = _DECODER.decode(match[1])
    except msgspec.MsgspecError:
        return None
    prompt = counted.prompt_tokens
    if prompt is None and counted.input_tokens is not None:
        # Anthropic's counts leave out what was read from the cache, and what was written to it.
        cached = (counted.cache_creation_input_tokens or 0) + (counted.cache_read_input_tokens or 0)
        prompt = counted.input_tokens + cached
    completion = counted.output_tokens if counted.completion_tokens is None else counted.completion_tokens
    total = counted.total_tokens
    if total is not None:
        # Embeddings and scores have no answer to count.
        prompt = total - (completion or 0) if prompt is None else prompt
        completion = total - prompt if completion is None else completion
    if prompt is None and completion is None:
        return None
    return Usage(prompt, completion) if _sound(prompt) and _sound(completion) else None


def _sound(count: int | None) -> bool:
    return count is None or 0 <= count <= _MOST

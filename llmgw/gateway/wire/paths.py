# SPDX-License-Identifier: Apache-2.0
"""The paths that engines answer through this gateway (G1), and how their requests and refusals are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Kind:
    """How one path is handled."""

    line: bytes
    """The request line's start: method and path, as the engine gets them."""
    body: Literal["json", "multipart"] = "json"
    errors: Literal["openai", "anthropic"] = "openai"
    """In whose shape the gateway's own refusals are said."""
    prompt: tuple[str, ...] = ()
    """Top-level JSON fields that the model reads, those of a template's beginning first: their raw bytes, one field
    after the other, are what two requests have in common when an engine can reuse its work."""
    cached: bool = False
    """Whether a prefix that an engine has seen saves it time: only where tokens follow a prompt."""


_CHAT: Final = ("tools", "messages")
_PROMPT: Final = ("prompt",)
_INPUT: Final = ("input",)
_RESPONSES: Final = ("tools", "instructions", "input")
_MESSAGES: Final = ("tools", "system", "messages")
_RANKED: Final = ("query", "documents")


def _line(path: str) -> bytes:
    return b"POST " + path.encode()


PATHS: Final[dict[bytes, Kind]] = {
    kind.line[len(b"POST ") :]: kind
    for kind in (
        Kind(_line("/v1/chat/completions"), prompt=_CHAT, cached=True),
        Kind(_line("/v1/completions"), prompt=_PROMPT, cached=True),
        Kind(_line("/v1/responses"), prompt=_RESPONSES, cached=True),
        Kind(_line("/v1/messages"), errors="anthropic", prompt=_MESSAGES, cached=True),
        Kind(_line("/v1/messages/count_tokens"), errors="anthropic", prompt=_MESSAGES),
        Kind(_line("/v1/embeddings"), prompt=_INPUT),
        Kind(_line("/v1/rerank"), prompt=_RANKED),
        Kind(_line("/v2/rerank"), prompt=_RANKED),
        Kind(_line("/rerank"), prompt=_RANKED),
        Kind(_line("/v1/score")),
        Kind(_line("/score")),
        Kind(_line("/v1/classify"), prompt=_INPUT),
        Kind(_line("/classify"), prompt=_INPUT),
        Kind(_line("/v1/audio/speech"), prompt=_INPUT),
        Kind(_line("/v1/audio/transcriptions"), body="multipart"),
        Kind(_line("/v1/audio/translations"), body="multipart"),
        Kind(_line("/v1/images/generations"), prompt=_PROMPT),
        Kind(_line("/v1/images/edits"), body="multipart"),
        Kind(_line("/tokenize")),
        Kind(_line("/detokenize")),
    )
}
"""By the raw path. Only these exact bytes: nothing is decoded, joined or made lower case (G8)."""

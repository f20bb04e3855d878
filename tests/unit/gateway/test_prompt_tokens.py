# SPDX-License-Identifier: Apache-2.0
"""How long a prompt is, by its bytes (G4)."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from llmgw.gateway.routing.prompt_tokens import FILES_TOKENS, LONG_BYTES, estimated_tokens

FILE = base64.b64encode(random.Random(7).randbytes(600_000)).decode()
SENTENCES = (
    "The quick brown fox jumps over the lazy dog. ",
    "def f(x):\n    return {'a': x}\n",
    "快速的棕色狐狸跳过了懒狗。",
)


def body(*content: Any, plain: bool = True) -> bytes:
    message = {"model": "m", "messages": [{"role": "user", "content": list(content)}]}
    return json.dumps(message, ensure_ascii=not plain).encode()


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("times", [1, 100, 3000])
def test_four_bytes_of_text_are_a_token(sentence: str, times: int) -> None:
    for plain in (True, False):
        text = body({"type": "text", "text": sentence * times}, plain=plain)
        assert estimated_tokens(text) == len(text) // 4
    assert estimated_tokens(b"") == 0


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{FILE}"}},
        {"type": "input_audio", "input_audio": {"data": FILE, "format": "wav"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": FILE}},
    ],
)
def test_a_file_does_not_count_by_its_bytes(part: Any) -> None:
    text = {"type": "text", "text": SENTENCES[0] * 20}
    assert len(FILE) / 4 == 200_000
    assert FILES_TOKENS <= estimated_tokens(body(text, part)) < 20_000
    assert FILES_TOKENS <= estimated_tokens(body(part, text, part, part)) < 60_000


def test_text_beside_a_file_counts() -> None:
    text = {"type": "text", "text": SENTENCES[0] * (len(FILE) // len(SENTENCES[0]))}
    part = {"type": "input_audio", "input_audio": {"data": FILE}}
    assert estimated_tokens(body(part, text)) == pytest.approx(200_000, rel=0.1)


@pytest.mark.parametrize("size", [LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 1, 10 * LONG_BYTES + 17])
def test_all_of_a_body_is_looked_at_whatever_its_size(size: int) -> None:
    assert estimated_tokens(b" " * size) == size // 4
    assert estimated_tokens(b"a" * size) == (size // 4 if size < LONG_BYTES else FILES_TOKENS)

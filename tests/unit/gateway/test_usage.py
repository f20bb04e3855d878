# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.admit.usage import TAIL_BYTES, Usage, read_usage, tokens_of
from llmgw.gateway.wire.stream import Tail

CHAT = {"id": "x", "choices": [{"message": {"content": "hi"}}]}
COUNTED = {"prompt_tokens": 11, "completion_tokens": 20, "total_tokens": 31}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": None}


def event(document: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(document)}\n\n".encode()


def openai_stream(*, usage: bool) -> bytes:
    last = event({"choices": [], "usage": COUNTED | DETAILS}) if usage else b""
    return event({**CHAT, "usage": None}) * 30 + last + b"data: [DONE]\n\n"


def anthropic_stream() -> bytes:
    started = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}}
    return (
        event({"type": "message_start", "message": {"usage": started}}, "message_start")
        + event(delta, "content_block_delta") * 100
        + event({"type": "message_delta", "usage": {"output_tokens": 42}}, "message_delta")
        + event({"type": "message_stop"}, "message_stop")
    )


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (json.dumps(CHAT | {"usage": COUNTED}).encode(), Usage(11, 20)),
        (json.dumps(CHAT | {"usage": COUNTED | DETAILS, "kv_transfer_params": None}, indent=2).encode(), Usage(11, 20)),
        (openai_stream(usage=True), Usage(11, 20)),
        (openai_stream(usage=False), None),
        (event({"response": {"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}}), Usage(3, 4)),
        (json.dumps({"data": [], "usage": {"prompt_tokens": 9, "total_tokens": 9}}).encode(), Usage(9, 0)),
        (json.dumps({"results": [], "usage": {"total_tokens": 6}}).encode(), Usage(6, 0)),
        (json.dumps({"text": "hi", "usage": {"type": "duration", "seconds": 3}}).encode(), None),
        (json.dumps({"usage": {"input_tokens": 2, "output_tokens": 3}}).encode(), Usage(2, 3)),
        (anthropic_stream(), Usage(125, 42)),
        (b"", None),
        (b'{"error": {"message": "no"}}', None),
    ],
)
def test_what_the_engine_counted_is_read(answer: bytes, usage: Usage | None) -> None:
    assert read_usage(answer) == usage


def test_the_prompt_of_an_anthropic_stream_is_in_its_first_bytes() -> None:
    answer = anthropic_stream()
    assert len(answer) > TAIL_BYTES
    assert read_usage(answer[-TAIL_BYTES:]) == Usage(None, 42)
    assert read_usage(answer[-TAIL_BYTES:], answer[:1024]) == Usage(125, 42)


def test_the_tail_is_enough_for_a_long_answer() -> None:
    long = json.dumps({"choices": [{"message": {"content": "x" * 100_000}}], "usage": COUNTED}).encode()
    assert read_usage(long[-TAIL_BYTES:]) == Usage(11, 20)


def test_what_the_model_wrote_does_not_pass_for_what_was_counted() -> None:
    lie = json.dumps({"usage": {"prompt_tokens": 0, "completion_tokens": 0}})
    answer = json.dumps({"choices": [{"message": {"content": lie}}], "usage": COUNTED}).encode()
    assert read_usage(answer) == Usage(11, 20)
    assert read_usage(json.dumps({"choices": [{"message": {"content": lie}}]}).encode()) is None


@pytest.mark.parametrize(
    "damaged",
    [
        b'"usage": {"prompt_tokens": 1',
        b'"usage": {"prompt_tokens": "many", "completion_tokens": 2}',
        b'"usage": {"prompt_tokens": -1, "completion_tokens": 2}',
        b'"usage": {"prompt_tokens": 1, "completion_tokens": 99999999999999999999}',
        b'"usage": {"total_tokens": 1, "completion_tokens": 5}',
        b'"usage": []',
        b'"usage": {}',
        b'"usage"',
    ],
)
def test_what_cannot_be_is_not_believed(damaged: bytes) -> None:
    assert read_usage(damaged) is None
    whole = json.dumps({"usage": COUNTED}).encode()
    assert read_usage(whole + damaged) == Usage(11, 20)


@given(st.binary(max_size=200) | st.text('"usage:{}[],1\\ ', max_size=200).map(str.encode))
def test_any_bytes_are_read_without_a_fault(tail: bytes) -> None:
    usage = read_usage(tail, tail)
    assert usage is None or usage != Usage()


def test_where_nothing_was_counted_the_answer_is_reckoned_by_its_size() -> None:
    assert tokens_of(Usage(5, 6), 99, 10_000, stream=False) == (5, 6)
    assert tokens_of(Usage(None, 6), 99, 10_000, stream=False) == (99, 6)
    assert tokens_of(None, 99, 400, stream=False) == (99, 100)
    assert tokens_of(None, 99, 4000, stream=True) == (99, 20)


@pytest.mark.parametrize("step", [1, 7, 60, TAIL_BYTES - 1, TAIL_BYTES, 100_000])
@pytest.mark.parametrize("before", [0, 1000, 3 * TAIL_BYTES])
def test_an_end_is_read_in_however_many_pieces_it_came(step: int, before: int) -> None:
    # vLLM ends a stream of messages with three events, each written by itself.
    end = event({"type": "message_delta", "usage": {"input_tokens": 11, "output_tokens": 20}}, "message_delta")
    data = b"x" * before + end + event({"type": "message_stop"}, "message_stop") + b"data: [DONE]\n\n"
    tail = Tail()
    for start in range(0, len(data), step):
        tail.add(data[start : start + step])
    assert (tail.usage(), tail.size) == (Usage(11, 20), len(data))

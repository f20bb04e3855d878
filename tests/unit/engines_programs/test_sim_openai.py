# SPDX-License-Identifier: Apache-2.0
"""The simulator as OpenAI's clients see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from tests.unit.engines_programs.programs import Program, events

HELLO: ChatCompletionUserMessageParam = {"role": "user", "content": "Hello, who are you?"}
ClientOf = Callable[..., openai.OpenAI]


def test_a_chat_answer_is_the_same_each_time_and_labelled(shared_sim: Program, client_of: ClientOf) -> None:
    client = client_of(shared_sim)
    first, second = (client.chat.completions.create(model="m", messages=[HELLO]) for _ in range(2))
    assert first.choices[0].message.content
    assert first.choices[0].message.content.startswith("[simulated] ")
    assert first.choices[0].message.content == second.choices[0].message.content
    assert first.choices[0].finish_reason == "stop"
    assert first.usage
    assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.total_tokens) == (7, 24, 31)
    assert first.id != second.id


def test_another_prompt_gets_another_answer(shared_sim: Program, client_of: ClientOf) -> None:
    client = client_of(shared_sim)
    texts = {
        client.completions.create(model="m", prompt=prompt, max_tokens=24).choices[0].text for prompt in ("a", "b")
    }
    assert len(texts) == 2


def test_a_chat_stream_gives_the_same_text_in_pieces_and_ends_with_usage(
    shared_sim: Program, client_of: ClientOf
) -> None:
    client = client_of(shared_sim)
    whole = client.chat.completions.create(model="m", messages=[HELLO], max_tokens=5)
    chunks = list(
        client.chat.completions.create(
            model="m",
            messages=[HELLO],
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == whole.choices[0].message.content
    assert sum(1 for piece in pieces if piece) == 5
    assert chunks[-2].choices[0].finish_reason == "length"
    assert not chunks[-1].choices
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == 5


def test_a_stream_is_server_sent_events_that_end_with_done(shared_sim: Program) -> None:
    with shared_sim.stream("/v1/completions", {"prompt": "hello", "max_tokens": 2}) as response:
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
        assert response.getheader("transfer-encoding") == "chunked"
        got = events(response)
    assert got[-1] == "[DONE]"
    assert [item["choices"][0]["finish_reason"] for item in got[:-1]] == [None, None, "length"]
    assert all("usage" not in item for item in got[:-1])


def test_the_header_of_a_stream_comes_before_its_first_token(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--load-seconds", "0").ready()
    assert sim.ask("POST", "/sim/faults", {"hang": True})[0] == 200
    with sim.stream("/v1/completions", {"prompt": "hello"}) as response:
        assert response.status == 200


def test_ignore_eos_gives_as_many_tokens_as_asked_for(shared_sim: Program, client_of: ClientOf) -> None:
    answer = client_of(shared_sim).completions.create(
        model="m", prompt="p", max_tokens=100, extra_body={"ignore_eos": True}
    )
    assert answer.usage
    assert answer.usage.completion_tokens == 100
    assert len(answer.choices[0].text.split()) == 100


def test_embeddings_are_unit_vectors_in_either_encoding(shared_sim: Program, client_of: ClientOf) -> None:
    client = client_of(shared_sim)  # asks for base64
    packed = client.embeddings.create(model="m", input=["one text", "another"])
    plain = client.embeddings.create(model="m", input="one text", encoding_format="float")
    assert len(packed.data) == 2
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
    assert packed.data[0].embedding != packed.data[1].embedding
    assert sum(value * value for value in plain.data[0].embedding) == pytest.approx(1)
    assert packed.usage.prompt_tokens == 3
    assert len(client.embeddings.create(model="m", input="x", dimensions=5).data[0].embedding) == 5


def test_tokenize_counts_a_prompt_and_a_chat(shared_sim: Program) -> None:
    status, body = shared_sim.ask("POST", "/tokenize", {"model": "m", "prompt": "one two, three"})
    assert status == 200
    assert body["count"] == len(body["tokens"]) == 4
    assert shared_sim.ask("POST", "/tokenize", {"messages": [HELLO]})[1]["count"] == 7


def test_an_unknown_model_is_not_found(shared_sim: Program, client_of: ClientOf) -> None:
    with pytest.raises(openai.NotFoundError, match="The model `other` does not exist") as refusal:
        client_of(shared_sim).chat.completions.create(model="other", messages=[HELLO])
    assert refusal.value.body == {
        "message": "The model `other` does not exist.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        ("/v1/chat/completions", b'{"model": "m", ', "Invalid JSON"),
        ("/v1/chat/completions", b"\xff\xfe", "Invalid JSON"),
        ("/v1/chat/completions", b"[]", "must be a JSON object"),
        ("/v1/chat/completions", b"{}", "messages must be a list"),
        ("/v1/chat/completions", b'{"messages": [3]}', "messages must be a list"),
        ("/v1/completions", b'{"prompt": 3}', "prompt must be a text"),
        ("/v1/completions", b'{"prompt": "x", "max_tokens": 0}', "max_tokens must be at least 1"),
        ("/v1/completions", b'{"prompt": "x", "n": 2}', "n must be 1"),
        ("/v1/embeddings", b'{"input": []}', "input must be a text"),
        ("/v1/embeddings", b'{"input": "x", "dimensions": -1}', "dimensions must be"),
    ],
)
def test_a_request_that_means_nothing_is_answered_with_400(
    shared_sim: Program, path: str, body: bytes, complaint: str
) -> None:
    status, answer = shared_sim.ask("POST", path, body)
    assert status == 400
    assert answer["error"]["code"] == 400
    assert complaint in answer["error"]["message"]


def test_what_does_not_fit_into_the_context_is_refused(start_sim: Callable[..., Program]) -> None:
    sim = start_sim("--max-model-len", "32").ready()
    assert sim.ask("POST", "/v1/completions", {"prompt": "w " * 22, "max_tokens": 10})[0] == 200
    status, answer = sim.ask("POST", "/v1/completions", {"prompt": "w " * 23, "max_tokens": 10})
    assert status == 400
    assert "maximum context length is 32 tokens" in answer["error"]["message"]


def test_unknown_paths_and_methods_are_told_apart(shared_sim: Program) -> None:
    assert shared_sim.ask("GET", "/nothing") == (404, {"detail": "Not Found"})
    assert shared_sim.ask("GET", "/v1/completions") == (405, {"detail": "Method Not Allowed"})


def test_the_key_guards_v1_and_nothing_else(
    start_sim: Callable[..., Program], tmp_path: Path, client_of: ClientOf
) -> None:
    (tmp_path / "keys").write_text("first\nsecond\n")
    sim = start_sim("--api-key-file", str(tmp_path / "keys"), env={"VLLM_API_KEY": "third"}).ready()
    for key in ("first", "second", "third"):
        assert client_of(sim, key).models.list().data[0].id == "m"
    with pytest.raises(openai.AuthenticationError):
        client_of(sim, "wrong").models.list()
    assert sim.ask("GET", "/v1/models")[0] == 401
    assert sim.ask("POST", "/v1/completions", {"prompt": "x"})[0] == 401
    assert sim.ask("GET", "/health")[0] == 200
    assert sim.ask("GET", "/metrics")[0] == 200
    assert sim.ask("POST", "/tokenize", {"prompt": "x"})[0] == 200


def test_half_a_character_is_text_too(shared_sim: Program) -> None:
    assert shared_sim.ask("POST", "/v1/completions", b'{"prompt": "half \\ud83d of it"}')[0] == 200
    assert shared_sim.ask("POST", "/v1/embeddings", b'{"input": "\\ud83d"}')[0] == 200
    assert shared_sim.ask("POST", "/tokenize", b'{"prompt": "\\ud83d"}')[0] == 200


def test_content_may_come_in_parts(shared_sim: Program) -> None:
    parts = [{"type": "text", "text": "one two"}, {"type": "text", "text": "three"}]
    status, body = shared_sim.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})
    assert status == 200
    assert body["usage"]["prompt_tokens"] == 4
    json.dumps(body)

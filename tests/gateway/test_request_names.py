# SPDX-License-Identifier: Apache-2.0
"""What a request is called and which trace it belongs to, on the wire: at the client and at the engine."""

from __future__ import annotations

import re

import pytest

from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.engine import Request
from tests.gateway.harness import RunningGateway, endpoint, fetch, route

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def passed(gateway: RunningGateway, engine: MakeEngine, headers: str) -> tuple[Request, list[str]]:
    """The request as the engine got it, and the values of `x-request-id` that the client got."""
    one = engine()
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        client.send(post(asking(), headers=headers))
        status, got, _body = client.answer()
    assert status == 200
    return one.requests[-1], [value for name, value in got if name == "x-request-id"]


@pytest.mark.parametrize(
    "values",
    [
        [PARENT],
        [PARENT.replace("00-", "cc-", 1) + "-what-the-future-brings"],
        [PARENT.upper()],
        ["00-" + "0" * 32 + "-00f067aa0ba902b7-01"],
        ["no trace at all"],
        [PARENT, PARENT.replace("4", "5")],
    ],
)
def test_a_traceparent_goes_to_the_engine_as_it_came(
    gateway: RunningGateway, engine: MakeEngine, values: list[str]
) -> None:
    lines = "".join(f"Traceparent: {value}\r\n" for value in values)
    seen, _names = passed(gateway, engine, f"{lines}tracestate: a=1\r\nTraceState: b=2, c=3\r\n")
    assert seen.values("traceparent") == values
    assert seen.values("tracestate") == ["a=1", "b=2, c=3"]


def test_the_gateway_begins_no_trace(gateway: RunningGateway, engine: MakeEngine) -> None:
    seen, _names = passed(gateway, engine, "x-kept: 1\r\n")
    assert seen.values("x-kept") == ["1"]
    assert seen.values("traceparent") == seen.values("tracestate") == []


def test_a_clients_request_id_is_the_engines_and_comes_back(gateway: RunningGateway, engine: MakeEngine) -> None:
    seen, names = passed(gateway, engine, "X-Request-Id: team:job_7.x\r\n")
    assert (seen.values("x-request-id"), names) == (["team:job_7.x"], ["team:job_7.x"])


@pytest.mark.parametrize("lines", ["", "x-request-id: a b\r\n", "x-request-id: a\r\nx-request-id: b\r\n"])
def test_a_request_without_one_id_gets_one_that_is_the_same_at_both_ends(
    gateway: RunningGateway, engine: MakeEngine, lines: str
) -> None:
    seen, names = passed(gateway, engine, lines)
    assert len(names) == 1
    assert seen.values("x-request-id") == names
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", names[0])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/m"),
        ("GET", "/healthz"),
        ("OPTIONS", "/healthz"),
        ("OPTIONS", CHAT),
        ("GET", "/nope"),
    ],
)
def test_what_the_gateway_answers_itself_has_an_id_too(
    gateway: RunningGateway, engine: MakeEngine, method: str, path: str
) -> None:
    gateway.publish([route([endpoint(engine())])])
    assert fetch(gateway.url + path, method, headers={"x-request-id": "mine"})[1].get_all("x-request-id") == ["mine"]
    first, second = (fetch(gateway.url + path, method)[1]["x-request-id"] for _request in range(2))
    assert first != second


def test_asking_for_an_explanation_is_between_the_client_and_the_gateway(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    seen, _names = passed(gateway, engine, "X-LLMGW-Explain: 1\r\n")
    assert seen.values("x-llmgw-explain") == []

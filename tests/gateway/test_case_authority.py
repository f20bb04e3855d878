# SPDX-License-Identifier: Apache-2.0
"""What decides about a request is its path and its key, and nothing else that a client can write (46 to 49, G8)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.model.replica import ApiKeySpec, GatewaySpec
from tests.gateway.client import CHAT, Client, asking, post
from tests.gateway.engine import Engine
from tests.gateway.harness import RunningGateway, endpoint, route
from tests.gateway.hostile import ITS_OWN_CHANCE

SECRET = "the-only-key"
GOOD = f"authorization: Bearer {SECRET}\r\n"
KEYS = GatewaySpec(
    probe_interval_s=30, keys=(ApiKeySpec("team", hashlib.sha256(SECRET.encode()).hexdigest(), services=("chat",)),)
)


@pytest.fixture(scope="module")
def one(module_gateway: RunningGateway) -> Iterator[Engine]:
    engine = Engine()
    routes = [
        route([endpoint(engine)]),
        route([endpoint(engine, service="secret")], service="secret", served_name="secret"),
    ]
    module_gateway.publish(routes, gateway=KEYS)
    yield engine
    engine.stop()


@pytest.fixture(autouse=True)
def _nothing_left(module_gateway: RunningGateway, one: Engine) -> Iterator[None]:
    one.requests.clear()
    yield
    module_gateway.assert_nothing_held()


def ask(gateway: RunningGateway, start: str, headers: str = "", body: bytes = b"") -> tuple[int, bytes]:
    with Client(gateway.url) as client:
        client.send(f"{start} HTTP/1.1\r\n{headers}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body)
        status, _headers, answer = client.answer()
        return status, answer


HOSTS = [
    "localhost#@gw",
    "gw#@/healthz",
    "gw/healthz",
    "gw/healthz?",
    "gw/healthz#",
    "/healthz",
    "user:pass@gw",
    "gw:8081",
    "127.0.0.1:8081",
    "[::1]",
    "[",
    "",
    "gw, other",
    "gw\thealthz",
    "../healthz",
    "%2fhealthz%3f",
]


@pytest.mark.parametrize("host", HOSTS)
def test_no_host_header_opens_what_needs_a_key(module_gateway: RunningGateway, one: Engine, host: str) -> None:
    for start, body in ((f"POST {CHAT}", asking()), ("GET /v1/models", b""), ("GET /v1/models/m", b"")):
        assert ask(module_gateway, start, f"host: {host}\r\n", body)[0] in {400, 401}
    assert one.requests == []
    assert ask(module_gateway, f"POST {CHAT}", f"host: {host}\r\n{GOOD}", asking())[0] in {200, 400}
    assert {value for seen in one.requests for value in seen.values("host")} <= {f"127.0.0.1:{one.port}"}


TARGETS = [
    "/v1/chat/completions#@/healthz",
    "/healthz#/../v1/models",
    "/healthz/../v1/models",
    "/healthz/..%2fv1/models",
    "/healthz%2f..%2fv1/models",
    "/healthz;/v1/models",
    "/healthz?/v1/models",
    "//healthz",
    "//healthz/v1/models",
    "/./v1/models",
    "//v1/models",
    "/v1//models",
    "/v1/models/../models",
    "/V1/models",
    "/v1/Models",
    "/v1/%6dodels",
    "/v1/%256dodels",
    "/%76%31/models",
    "/v1%2fmodels",
    "/v1%252fmodels",
    "/v1\\models",
    "/v1/models%00",
    "/v1/models%20",
    "/v1/models%0d%0ax:%20y",
    "/v1/models;x",
    "/v1/models.",
    "/v1/\xb5odels",
    "http://gw/v1/models",
    "http://gw:80/v1/models",
    "http://user:pass@gw/v1/models",
    "http://gw/healthz#@gw/v1/models",
    "http:///v1/models",
    "https://gw/v1/models",
    "HTTP://gw/v1/models",
    "file:///etc/passwd",
    "gw:443",
    "*",
    "v1/models",
    "?",
    "#",
]


@pytest.mark.parametrize("target", TARGETS)
def test_no_spelling_of_a_path_shows_models_without_a_key(
    module_gateway: RunningGateway, one: Engine, target: str
) -> None:
    for method, body in (("GET", b""), ("POST", asking()), ("HEAD", b"")):
        with Client(module_gateway.url) as client:
            head = f"{method} {target} HTTP/1.1\r\nhost: gw\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
            client.send(head.encode("latin-1") + body)
            answer = client.rest()
        assert b'"object"' not in answer
        if answer[9:12] == b"200":
            assert answer.endswith(b'"}') or b'"status"' in answer or method == "HEAD", "only health is open to all"
    assert one.requests == []


@pytest.mark.parametrize(
    "target",
    [
        "/v1/chat%2fcompletions",
        "/v1/chat%252fcompletions",
        "/v1/chat/completions%2f",
        "/v1/chat/%63ompletions",
        "/v1/chat/Completions",
        "//v1/chat/completions",
        "/v1/./chat/completions",
        "/v1/models/../chat/completions",
        "/v1/chat/completions;x=1",
        "/v1/chat/completions/",
        "/v1\\chat\\completions",
        "/V1/chat/completions",
        "/metrics",
        "/health",
        "/v1/load_lora_adapter",
        "/pause",
        "/sleep",
        "/wake_up",
        "/collective_rpc",
        "/slots",
        "/props",
        "/admin",
    ],
)
def test_only_the_paths_that_are_named_reach_an_engine(
    module_gateway: RunningGateway, one: Engine, target: str
) -> None:
    assert ask(module_gateway, f"POST {target}", f"host: gw\r\n{GOOD}", asking())[0] in {404, 405}
    assert one.requests == []


@pytest.mark.parametrize(
    "target", [f"http://evil{CHAT}", f"http://gw#@evil{CHAT}", f"https://user@evil:1{CHAT}?a=1", f"//evil{CHAT}"]
)
def test_a_target_with_a_host_in_it_sends_nothing_there(
    module_gateway: RunningGateway, one: Engine, target: str
) -> None:
    assert ask(module_gateway, f"POST {target}", f"host: gw\r\n{GOOD}", asking())[0] in {200, 400, 404}
    for seen in one.requests:
        assert seen.line.startswith(f"POST {CHAT}")
        assert seen.values("host") == [f"127.0.0.1:{one.port}"]
        assert b"evil" not in seen.raw


def test_nothing_that_a_client_writes_chooses_the_engine(module_gateway: RunningGateway, one: Engine) -> None:
    trap = Engine()
    try:
        there = f"127.0.0.1:{trap.port}"
        fields = ("api_base", "base_url", "url", "endpoint", "target", "host", "proxy", "webhook", "callback_url")
        body = asking(**dict.fromkeys(fields, f"http://{there}/v1"))
        names = (
            "x-llmgw-endpoint",
            "X-LLMGW-Replica",
            "x-gateway-destination-endpoint",
            "x-upstream",
            "x-forwarded-host",
            "x-original-url",
            "x-rewrite-url",
            "x-host",
            "forwarded",
            "location",
        )
        headers = "".join(f"{name}: {there}\r\n" for name in names)
        assert ask(module_gateway, f"POST {CHAT}", f"host: {there}\r\n{GOOD}{headers}", body)[0] == 200
    finally:
        trap.stop()
    assert (len(one.requests), trap.requests, trap.connections) == (1, [], 0)
    assert one.requests[0].body == body
    assert [name for name, _value in one.requests[0].headers if name.startswith("x-llmgw-")] == []


INNER = ["x-llmgw-key", "X-LLMGW-ANYTHING", "x-llmgw-"]


@pytest.mark.parametrize("name", INNER)
def test_headers_of_the_gateways_own_are_taken_from_no_client(
    module_gateway: RunningGateway, one: Engine, name: str
) -> None:
    assert ask(module_gateway, f"POST {CHAT}", f"host: gw\r\n{GOOD}{name}: forged\r\n", asking())[0] == 200
    assert b"forged" not in one.requests[0].raw


@pytest.mark.parametrize(
    "named",
    ["authorization", "Content-Length", "host", "x-api-key", "content-type", "transfer-encoding", "close, host"],
)
def test_a_connection_header_takes_nothing_away_that_the_gateway_needs(
    module_gateway: RunningGateway, one: Engine, named: str
) -> None:
    headers = f"host: gw\r\nconnection: {named}\r\n"
    assert ask(module_gateway, f"POST {CHAT}", headers, asking())[0] == 401
    assert ask(module_gateway, f"POST {CHAT}", headers + GOOD, asking())[0] == 200
    assert one.requests[0].body == asking()
    assert one.requests[0].values("content-length") == [str(len(asking()))]


SECRETS = st.one_of(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF), max_size=40),
    st.sampled_from(
        [
            SECRET[:-1],
            SECRET + "x",
            SECRET.upper(),
            f" {SECRET}",
            f"{SECRET}\x00",
            hashlib.sha256(SECRET.encode()).hexdigest(),
        ]
    ),
    st.sampled_from(["' OR '1'='1", "null", "None", "undefined", "*", "%", "{}", "[]", "true", "sk-", "0"]),
)
SCHEMES = st.sampled_from(["Bearer ", "bearer ", "BEARER\t", "Basic ", "", "Bearer Bearer ", "Token ", "Bearer,"])


@pytest.mark.filterwarnings(ITS_OWN_CHANCE)
@settings(max_examples=60, deadline=None)
@given(secret=SECRETS, scheme=SCHEMES, header=st.sampled_from(["authorization", "x-api-key", "api-key", "cookie"]))
def test_no_other_secret_is_taken_for_the_key(
    module_gateway: RunningGateway, one: Engine, secret: str, scheme: str, header: str
) -> None:
    if secret.strip() == SECRET:
        return
    line = f"host: gw\r\n{header}: {scheme}{secret}\r\n"
    status, body = ask(module_gateway, f"POST {CHAT}", line, asking())
    assert status in {400, 401}
    assert json.loads(body)["error"]["code"] in {"missing_api_key", "invalid_api_key", "invalid_request"}
    assert one.requests == []


def test_a_key_cannot_tell_a_service_that_it_may_not_use_from_one_that_is_not_there(
    module_gateway: RunningGateway, one: Engine
) -> None:
    hidden, absent = (
        ask(module_gateway, f"POST {CHAT}", f"host: gw\r\n{GOOD}", asking(name)) for name in ("secret", "absent")
    )
    assert hidden[0] == absent[0] == 404
    assert hidden[1].replace(b"secret", b"absent") == absent[1]
    assert one.requests == []


def test_the_admin_api_is_not_on_the_data_listener_and_no_model_is_on_the_admin_listener(
    module_gateway: RunningGateway, one: Engine
) -> None:
    for path in ("/api/v1/status", "/api/v1/endpoints", "/metrics", "/", "/docs", "/openapi.json"):
        assert ask(module_gateway, f"GET {path}", f"host: localhost\r\n{GOOD}")[0] == 404
    with Client(module_gateway.admin_url) as client:
        client.send(post(asking(), headers=GOOD).replace(b"host: gw", b"host: localhost"))
        assert client.answer()[0] in {404, 405}
    assert one.requests == []

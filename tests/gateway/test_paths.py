# SPDX-License-Identifier: Apache-2.0
"""Every path that engines answer, and none besides (G1, G8)."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from llmgw.gateway.wire import refusal
from llmgw.gateway.wire.paths import PATHS, Kind
from tests.gateway.client import Client, post
from tests.gateway.conftest import MakeEngine
from tests.gateway.harness import RunningGateway, endpoint, route

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference/http-api.md"
FORM_TYPE = "content-type: multipart/form-data; boundary=xYz\r\n"
SOUND = bytes(range(256)) * 20 + b'\r\n--xY\r\n"model"'


def form(*models: str) -> bytes:
    parts = [f'Content-Disposition: form-data; name="model"\r\n\r\n{model}'.encode() for model in models]
    file = b'Content-Disposition: form-data; name="file"; filename="a;b.wav"\r\n\r\n' + SOUND
    return b"".join(b"--xYz\r\n%b\r\n" % part for part in [file, *parts, file]) + b"--xYz--\r\n"


def body_for(kind: Kind, model: str) -> bytes:
    if kind.body == "multipart":
        return form(model)
    fields = "".join(f' "{name}": ["x"],\n' for name in kind.prompt)
    return f'{{{fields} "model" : {json.dumps(model)} }}'.encode()


@pytest.mark.parametrize("path", sorted(PATHS))
def test_a_path_reaches_the_engine_with_all_its_bytes(gateway: RunningGateway, engine: MakeEngine, path: bytes) -> None:
    one = engine(model="weights-9")
    gateway.publish([route([endpoint(one)])])
    kind = PATHS[path]
    with Client(gateway.url) as client:
        more = FORM_TYPE if kind.body == "multipart" else "content-type: application/json\r\n"
        client.send(post(body_for(kind, "m"), f"{path.decode()}?beta=true&x=%2F", more))
        assert client.answer()[0] == 200
    got = one.requests[0]
    assert got.line == f"POST {path.decode()}?beta=true&x=%2F HTTP/1.1"
    assert got.body == body_for(kind, "weights-9")
    assert got.values("content-type") == [more.strip().partition(": ")[2]]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/V1/chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/./chat/completions",
        "/v1/messages/batches",
        "/v1/responses/resp_1",
        "/v1/realtime",
        "/chat/completions",
        "/pooling",
        "/invocations",
        "/v1/load_lora_adapter",
        "/metrics",
        "/generate",
    ],
)
def test_no_other_path_reaches_an_engine(gateway: RunningGateway, engine: MakeEngine, path: str) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        client.send(post(b'{"model": "m"}', path))
        assert client.answer()[0] == 404
    assert one.requests == []


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (FORM_TYPE, form("m", "m")),
        (FORM_TYPE, form("m")[:-4]),
        (FORM_TYPE, b"--xYz--\r\n" + form("m")),
        (FORM_TYPE + "content-type: multipart/form-data; boundary=other\r\n", form("m")),
        ("content-type: multipart/form-data; boundary=other\r\n" + FORM_TYPE, form("m")),
        ("", form("m")),
        ("content-type: application/json\r\n", b'{"model": "m"}'),
    ],
)
def test_a_form_that_could_be_read_in_two_ways_reaches_no_engine(
    gateway: RunningGateway, engine: MakeEngine, headers: str, body: bytes
) -> None:
    one = engine()
    gateway.publish([route([endpoint(one)])])
    with Client(gateway.url) as client:
        client.send(post(body, "/v1/audio/transcriptions", headers))
        assert client.answer()[0] in {400, 415}
    assert one.requests == []


def test_the_table_of_paths_is_whole() -> None:
    for path, kind in PATHS.items():
        assert kind.line == b"POST " + path
        assert kind.body == "json" or not kind.prompt
        assert kind.prompt or not kind.cached
        assert (kind.errors == "anthropic") == path.startswith(b"/v1/messages")


def refusals() -> set[tuple[str, str]]:
    """Status and code of every refusal that the gateway's sources make."""
    found = {("503", refusal.not_ready("m", states).code) for states in ({}, {"failed": 1}, {"loading": 1})}
    for source in (ROOT / "llmgw/gateway").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Refusal" and len(node.args) > 1:
                status, code = node.args[:2]
                if isinstance(code, ast.Constant):  # a status with a name is 429
                    found.add((str(status.value) if isinstance(status, ast.Constant) else "429", str(code.value)))
    return found


def test_the_reference_lists_every_reason() -> None:
    _before, _line, table = REFERENCE.read_text().partition("| status | `x-llmgw-reason` |")
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(rows) == sorted(refusals())


def test_the_reference_lists_every_path() -> None:
    rows = re.findall(r"^\| `POST (/\S+)`", REFERENCE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(path.decode() for path in PATHS)

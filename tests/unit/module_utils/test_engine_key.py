# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_key, readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

KEY = "sk-Local-0123456789"


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers as an engine that asks for a key."""

    def do_GET(self) -> None:
        allowed = self.path == "/health" or self.headers["Authorization"] == f"Bearer {KEY}"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "chat"}]}' if allowed else b"{}")

    def log_message(self, *_words: object) -> None:
        """Nothing."""


@pytest.fixture
def asked() -> Iterator[readiness.Readiness]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield readiness.Readiness("http", "127.0.0.1", server.server_port, expect_model="other")
        server.shutdown()


def test_with_its_key_an_engine_tells_which_models_it_serves(asked: readiness.Readiness) -> None:
    assert readiness.ask(Host(), asked, 5).word == readiness.SERVING
    assert readiness.ask(Host(), asked, 5, KEY).word == readiness.OTHER_MODEL


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("engine-key", "/var/lib/llmgw/secrets/engine-key"),
        ("../../../etc/shadow", None),
        ("a/b", None),
        (".hidden", None),
    ],
)
def test_only_a_name_leads_to_a_file_of_secrets(name: str, expected: str | None) -> None:
    assert engine_key.file_of("/var/lib/llmgw", f"[X-Llmgw]\nApiKey={name}\n") == expected
    assert engine_key.file_of("/var/lib/llmgw", "[X-Llmgw]\n") is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"sk-1\n", "sk-1"), (b"", None), (b"a\nb", None), (b"\xff\xfe", None), (b"a\r\nX-Header: b", None)],
)
def test_what_http_does_not_carry_is_no_key(tmp_path: Path, content: bytes, expected: str | None) -> None:
    (tmp_path / "key").write_bytes(content)
    assert engine_key.read(Host(), str(tmp_path / "key")) == expected
    assert engine_key.read(Host(), str(tmp_path / "none")) is None

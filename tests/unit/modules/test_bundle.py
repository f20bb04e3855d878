# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.modules import bundle
from tests.unit.modules import in_process

Publish = Callable[..., dict[str, Any]]


def content(generation: int, digest: str, **volatile: Any) -> str:
    return json.dumps(
        {"format_version": 1, "generation": generation, "routes_digest": digest, "routes": {}, **volatile}
    )


@pytest.fixture
def publish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Publish:
    def run(generation: int, digest: str = "sha256:a", *, check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {
            "path": str(tmp_path / "state" / "bundle.json"),
            "content": content(generation, digest),
            "generation": generation,
            "routes_digest": digest,
        }
        return in_process.run(bundle, capsys, check=check, **{**defaults, **options})

    return run


def published(tmp_path: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((tmp_path / "state" / "bundle.json").read_text())
    return said


def test_the_first_bundle_is_a_change_and_only_its_group_may_read_it(publish: Publish, tmp_path: Path) -> None:
    answer = publish(3)
    assert (answer["changed"], answer["generation"], answer["drained"]) == (True, 3, None)
    assert (tmp_path / "state" / "bundle.json").stat().st_mode & 0o777 == 0o640
    assert published(tmp_path)["generation"] == 3


def test_new_facts_under_the_same_routes_are_written_and_are_no_change(publish: Publish, tmp_path: Path) -> None:
    publish(3)
    assert publish(4, content=content(4, "sha256:a", fleet={"nodes": 2}))["changed"] is False
    assert published(tmp_path)["fleet"] == {"nodes": 2}
    assert publish(5, "sha256:b")["changed"] is True


def test_check_mode_says_the_same_and_writes_nothing(publish: Publish, tmp_path: Path) -> None:
    assert publish(3, check=True)["changed"] is True
    assert not (tmp_path / "state").exists()
    publish(3)
    assert publish(4, check=True)["changed"] is False
    assert publish(4, "sha256:b", check=True)["changed"] is True
    assert published(tmp_path)["generation"] == 3


def test_an_older_generation_is_refused_unless_forced(publish: Publish, tmp_path: Path) -> None:
    publish(8)
    for check in (True, False):
        refused = publish(7, "sha256:b", check=check)
        assert refused["failed"] is True
        assert "is of generation 8, the new bundle of generation 7" in refused["msg"]
    assert published(tmp_path)["generation"] == 8
    assert publish(7, "sha256:b", force=True)["changed"] is True
    assert published(tmp_path)["generation"] == 7


def test_other_routes_of_the_same_generation_are_those_of_another_controller_and_refused(
    publish: Publish, tmp_path: Path
) -> None:
    publish(8)
    for check in (True, False):
        refused = publish(8, "sha256:b", check=check)
        assert refused["failed"] is refused["overtaken"] is True
        assert "of the same generation 8 with other routes" in refused["msg"]
    assert published(tmp_path)["routes_digest"] == "sha256:a"
    assert publish(8)["changed"] is False
    assert publish(8, "sha256:b", force=True)["changed"] is True


def test_a_bundle_that_is_not_what_is_stated_beside_it_is_refused(publish: Publish, tmp_path: Path) -> None:
    assert "not those stated" in publish(3, content=content(4, "sha256:a"))["msg"]
    assert publish(3, content="[]")["failed"] is True
    assert not (tmp_path / "state" / "bundle.json").exists()


def test_a_broken_published_bundle_is_replaced(publish: Publish, tmp_path: Path) -> None:
    publish(3)
    (tmp_path / "state" / "bundle.json").write_text('{"generation": ')
    answer = publish(4)
    assert answer["changed"] is True
    assert "is broken" in json.dumps(answer["warnings"])
    assert published(tmp_path)["generation"] == 4


class Admin(http.server.BaseHTTPRequestHandler):
    """A gateway's admin API that counts one request less each time it is asked."""

    in_flight = 2
    authorization: str | None = None
    when_asked: Callable[[], object] | None = None

    def do_GET(self) -> None:
        type(self).authorization = self.headers.get("Authorization")
        when_asked = type(self).when_asked
        if when_asked is not None:
            when_asked()
        endpoints = [{"id": "chat/0@n1", "in_flight": max(0, type(self).in_flight)}, {"id": "x/0@n1", "in_flight": 9}]
        type(self).in_flight -= 1
        body = json.dumps({"format_version": 1, "generation": 3, "endpoints": endpoints}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keeps quiet."""


@pytest.fixture
def admin_url() -> Iterator[str]:
    Admin.in_flight, Admin.authorization, Admin.when_asked = 2, None, None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Admin) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)


def test_endpoints_are_waited_for_with_the_token_of_the_host(publish: Publish, tmp_path: Path, admin_url: str) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    answer = publish(3, admin_url=admin_url, admin_token_file=str(token), drain=["chat/0@n1"])
    assert (answer["drained"], answer["in_flight"], answer["gateway_generation"]) == (True, {}, 3)
    assert Admin.authorization == "Bearer s3cret"
    assert "s3cret" not in json.dumps(answer)
    assert 0 < answer["waited_s"] < 5


def test_a_drain_that_takes_too_long_is_said_and_is_no_failure(publish: Publish, admin_url: str) -> None:
    answer = publish(3, admin_url=admin_url, drain=["x/0@n1"], drain_timeout_s=1, reload_timeout_s=0)
    assert "failed" not in answer
    assert (answer["drained"], answer["in_flight"]) == (False, {"x/0@n1": 9})
    assert "in flight: x/0@n1 9" in answer["detail"]


def test_where_no_gateway_runs_nothing_is_waited_for(publish: Publish) -> None:
    answer = publish(3, admin_url="http://127.0.0.1:1", drain=["chat/0@n1"])
    assert (answer["drained"], answer["detail"]) == (True, "no gateway runs there")


def test_a_run_that_is_overtaken_while_it_waits_fails_before_the_plan_goes_on(
    publish: Publish, tmp_path: Path, admin_url: str
) -> None:
    path = tmp_path / "state" / "bundle.json"
    Admin.when_asked = staticmethod(lambda: path.write_text(content(4, "sha256:other")))
    for waiting in ({"drain": ["chat/0@n1"]}, {"ready": ["new/0@n1"], "ready_timeout_s": 1}):
        refused = publish(3, admin_url=admin_url, force=True, **waiting)
        assert refused["failed"] is refused["overtaken"] is True
        assert "another controller is ahead" in refused["msg"]

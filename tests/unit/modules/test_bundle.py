# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic
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
        assert "is of generation 8, published at " in refused["msg"]
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


def test_another_plan_of_the_same_generation_is_refused_even_with_the_same_routes(publish: Publish) -> None:
    publish(8, plan_id="a", by="ops@ctl1")
    for digest, what in (("sha256:a", "of another plan"), ("sha256:b", "with other routes")):
        refused = publish(8, digest, plan_id="b", by="ops@ctl2")
        assert refused["failed"] is refused["overtaken"] is True
        assert f"bundle.json is of the same generation 8 {what}, published by ops@ctl1 at " in refused["msg"]
        assert "another controller was quicker. Nothing was touched. Wait until that apply has ended" in refused["msg"]
    older = publish(7, plan_id="b")["msg"]
    assert "is of generation 8, published by ops@ctl1 at " in older
    assert "; the new bundle is of generation 7: another controller is ahead" in older
    for more in ({"plan_id": "a"}, {}):
        assert publish(8, **more)["changed"] is False
    assert publish(9, plan_id="b")["changed"] is False


def test_who_published_lies_beside_the_bundle_for_its_group(publish: Publish, tmp_path: Path) -> None:
    publish(8, plan_id="a", by="ops@ctl1")
    beside = tmp_path / "state" / "bundle.json.applied.json"
    assert beside.stat().st_mode & 0o777 == 0o640
    said = json.loads(beside.read_text())
    assert (said["generation"], said["plan_id"], said["by"], said["routes_digest"]) == (8, "a", "ops@ctl1", "sha256:a")


def test_a_note_of_a_bundle_that_was_never_written_says_nothing(
    publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(8, plan_id="a", by="ops@ctl1")
    write = atomic.write

    def full(path: str, *arguments: Any, **options: Any) -> None:
        if path.endswith("bundle.json"):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        write(path, *arguments, **options)

    monkeypatch.setattr(atomic, "write", full)
    failed = publish(9, "sha256:b", plan_id="b", by="ops@ctl2")
    assert (failed["failed"], failed["changed"]) == (True, False)
    assert "bundle.json cannot be written: the disk is full (" in failed["msg"]
    assert "The gateway goes by the routes it had. Free space on this host" in failed["msg"]
    assert published(tmp_path)["generation"] == 8
    monkeypatch.undo()
    assert publish(9, "sha256:c", plan_id="c", by="ops@ctl3")["changed"] is True


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
    good = 0
    status = 200
    authorization: str | None = None
    when_asked: Callable[[], object] | None = None

    def do_GET(self) -> None:
        type(self).authorization = self.headers.get("Authorization")
        when_asked = type(self).when_asked
        if when_asked is not None:
            when_asked()
        counts = {"good": type(self).good, "bad": 0, "state": "ready"}
        endpoints = [
            {"id": "chat/0@n1", "in_flight": max(0, type(self).in_flight), **counts},
            {"id": "x/0@n1", "in_flight": 9},
        ]
        type(self).in_flight -= 1
        type(self).good += 1
        body = json.dumps({"format_version": 1, "generation": 3, "endpoints": endpoints}).encode()
        self.send_response(type(self).status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keeps quiet."""


@pytest.fixture
def admin_url() -> Iterator[str]:
    Admin.in_flight, Admin.good, Admin.status, Admin.authorization, Admin.when_asked = 2, 7, 200, None, None
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


def test_a_gateway_that_wants_its_admin_token_is_no_engine_that_cannot_be_reached(
    publish: Publish, tmp_path: Path, admin_url: str
) -> None:
    (tmp_path / "token").write_text("old")
    Admin.status = 401
    given = {"admin_token_file": str(tmp_path / "token")}
    for more, why in (({}, "asks for its admin token"), (given, "does not take the admin token")):
        failed = publish(3, admin_url=admin_url, ready=["chat/0@n1"], ready_timeout_s=1, **more)
        assert (failed["failed"], failed["unready"]) == (True, ["chat/0@n1"])
        assert why in failed["msg"]
        assert "llmgw_gateway_admin_token_file" in failed["msg"]
        assert "engine" not in failed["msg"]
    answer = publish(3, admin_url=admin_url, drain=["chat/0@n1"], drain_timeout_s=1, reload_timeout_s=0)
    assert "llmgw_gateway_admin_token_file" in answer["detail"]


def test_canaries_are_counted_once_the_gateway_sees_them_and_judged_by_nobody(publish: Publish, admin_url: str) -> None:
    trial = {"endpoints": ["chat/0@n1", "x/0@n1"], "answers": 3, "max_errors": 0, "timeout_s": 30}
    answer = publish(3, admin_url=admin_url, ready=["chat/0@n1"], trials=[trial])
    assert answer["answers"] == {"chat/0@n1": {"good": 3, "bad": 0}, "x/0@n1": None}
    assert answer["tried"] == "the gateway does not count the answers of x/0@n1"
    assert "failed" not in answer


def test_a_canary_without_answers_costs_its_time_and_is_no_failure(publish: Publish, admin_url: str) -> None:
    trial = {"endpoints": ["chat/0@n1"], "answers": 1000, "timeout_s": 1}
    answer = publish(3, admin_url=admin_url, trials=[trial])
    assert "failed" not in answer
    assert 0 < answer["answers"]["chat/0@n1"]["good"] < 1000
    assert answer["tried"].startswith("went on after 1.")


def test_where_nobody_can_be_asked_canaries_are_unknown(publish: Publish, admin_url: str) -> None:
    trial = {"endpoints": ["chat/0@n1"], "answers": 1000, "timeout_s": 600}
    unknown = {"chat/0@n1": None}
    assert publish(3, admin_url=admin_url, trials=[trial], check=True)["answers"] == unknown
    assert publish(3, trials=[trial])["answers"] == unknown
    gone = publish(3, trials=[trial], admin_url="http://127.0.0.1:1")
    assert (gone["answers"], gone["tried"]) == (unknown, "no gateway runs there")


def test_a_run_that_is_overtaken_while_canaries_are_tried_fails(
    publish: Publish, tmp_path: Path, admin_url: str
) -> None:
    path = tmp_path / "state" / "bundle.json"
    Admin.when_asked = staticmethod(lambda: path.write_text(content(4, "sha256:other")))
    trial = {"endpoints": ["chat/0@n1"], "answers": 3, "timeout_s": 30}
    refused = publish(3, admin_url=admin_url, trials=[trial])
    assert refused["failed"] is refused["overtaken"] is True


def test_nothing_is_published_while_too_little_would_go_on_serving(
    publish: Publish, tmp_path: Path, admin_url: str
) -> None:
    floor = {"service": "chat", "stay": ["x/0@n1"], "drain": ["chat/0@n1"], "at_least": 1}
    asked = {"admin_url": admin_url, "floors": [floor], "ready_timeout_s": 1}
    publish(1)
    refused = publish(3, **asked, drain=["chat/0@n1"])
    assert (refused["failed"], refused["changed"]) == (True, False)
    assert refused["msg"].startswith("chat: 0 of the 1 replicas that must go on serving are ready (x/0@n1 is -)")
    assert published(tmp_path)["generation"] == 1
    assert "failed" not in publish(3, **asked, check=True)
    floor["drain"] = ["x/0@n1"]
    assert "failed" not in publish(3, **asked)

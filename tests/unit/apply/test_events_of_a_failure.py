# SPDX-License-Identifier: Apache-2.0
"""A run of which a step fails, as ansible-runner tells it: what is put back, what canaries did."""

from __future__ import annotations

from typing import Any

from llmgw.apply.events import Progress, exit_status


def event(kind: str, action: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": "n1", "resolved_action": action, "res": answer}}


def ok(action: str, answer: dict[str, Any]) -> dict[str, Any]:
    return event("runner_on_ok", f"llmgw.fleet.{action}", answer)


def failed(action: str, answer: dict[str, Any]) -> dict[str, Any]:
    told = event("runner_on_failed", action, answer)
    return {**told, "event_data": told["event_data"] | {"ignore_errors": True}}


def unit(**values: Any) -> dict[str, Any]:
    return {"name": "llmgw-chat.0.0.service", "action": "created", "state": "ready", "seconds": 1.26, **values}


FAILING = {"failure": ["Wave 1 of 2 failed"], "failed_services": ["chat"], "overtaken": False, "canaries": []}


def test_what_is_put_back_after_a_failure_is_told_apart_from_what_was_changed() -> None:
    progress = Progress()
    progress.feed(ok("replica_units", {"units": [unit()]}))
    assert progress.feed(ok("verdict", FAILING)) == []
    assert progress.feed(ok("replica_units", {"units": [unit(action="restarted")]})) == [
        "n1  chat.0.0  put back: restarted, ready in 1.3 s"
    ]
    assert progress.feed(ok("bundle", {"changed": True, "generation": 9})) == ["n1  routes  put back, generation 9"]
    document = progress.document()
    assert document["changed"] == [{"host": "n1", "what": "llmgw-chat.0.0.service"}]
    assert progress.done == {("n1", "llmgw-chat.0.0.service"): {"created"}}, "what is put back was not done"
    assert document["put_back"] == [
        {"host": "n1", "what": "llmgw-chat.0.0.service"},
        {"host": "n1", "what": "routes"},
    ]
    assert exit_status(progress, 2) == 4


def test_what_cannot_be_put_back_is_told_so() -> None:
    progress = Progress()
    progress.feed(ok("verdict", FAILING))
    assert progress.feed(failed("llmgw.fleet.replica_units", {"msg": "disk full"})) == ["n1  NOT PUT BACK: disk full"]


def test_routes_that_are_made_true_after_a_failure_are_no_putting_back() -> None:
    progress = Progress()
    progress.feed(ok("verdict", FAILING))
    progress.feed(ok("plan", {"steps": [{}]}))
    assert progress.feed(ok("bundle", {"changed": True, "generation": 9})) == ["n1  routes  generation 9"]
    assert progress.document()["put_back"] == []


def test_a_run_that_was_overtaken_has_failed_and_puts_nothing_back() -> None:
    progress = Progress()
    progress.feed(ok("verdict", FAILING | {"overtaken": True}))
    progress.feed(ok("bundle", {"changed": True, "generation": 9}))
    assert progress.document()["put_back"] == []
    assert exit_status(progress, 2) == 4


def test_what_canaries_did_is_a_line_each_and_in_the_document() -> None:
    progress = Progress()
    passed = {"endpoint": "chat/0@n1", "good": 20, "bad": 0, "passed": True}
    not_passed = {"endpoint": "code/0@n2", "good": 3, "bad": 2, "passed": False}
    assert progress.feed(ok("verdict", {"failure": [], "canaries": [passed]})) == [
        "canary chat/0@n1  20 good answers, 0 bad: good enough"
    ]
    assert exit_status(progress, 0) == 0
    assert progress.feed(ok("verdict", FAILING | {"canaries": [not_passed]})) == [
        "canary code/0@n2  3 good answers, 2 bad: NOT GOOD ENOUGH"
    ]
    assert progress.document()["canaries"] == [passed, not_passed]
    assert exit_status(progress, 2) == 4, "no module failed, and yet the step has"


def test_a_mark_that_cannot_be_made_is_told_and_fails_no_step() -> None:
    progress = Progress()
    assert progress.feed(failed("llmgw.fleet.node_marks", {"msg": "disk full"})) == ["n1  FAILED: disk full"]
    assert exit_status(progress, 0) == 0
    progress.feed(ok("node_marks", {"changed": True}))
    assert progress.document()["changed"] == [{"host": "n1", "what": "marks"}]

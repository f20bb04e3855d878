# SPDX-License-Identifier: Apache-2.0
"""A run as ansible-runner tells it, event by event, becomes lines and an exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmgw.apply.events import Progress, exit_status, unexplained
from llmgw.apply.reasons import failure_reason, first_line

PLAN = {
    "steps": [],
    "text": ["+ chat/0"],
    "summary": "Plan: 1 to create.",
    "unplaced": [],
    "refused": [],
    "changes": True,
    "problems": [],
}


def event(kind: str, action: str, answer: dict[str, Any], host: str = "n1", **more: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "resolved_action": action, "res": answer, **more}}


def ok(action: str, answer: dict[str, Any]) -> dict[str, Any]:
    return event("runner_on_ok", f"llmgw.fleet.{action}", answer)


def failed(action: str, answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return event("runner_on_failed", action, answer, **more)


def unit(**values: Any) -> dict[str, Any]:
    return {"name": "llmgw-chat.0.0.service", "action": "created", "state": "ready", "seconds": 1.26, **values}


def test_the_plan_is_shown_with_what_went_wrong_before_it() -> None:
    progress = Progress()
    assert progress.feed(ok("plan", PLAN | {"problems": ["facts/n2.json: broken"]})) == [
        "facts/n2.json: broken",
        "+ chat/0",
    ]
    assert progress.plan is not None
    assert progress.plan["summary"] == "Plan: 1 to create."


def test_a_refused_rollout_ends_with_the_status_of_what_cannot_be_placed() -> None:
    assert exit_status(Progress(plan=PLAN | {"refused": ["chat"]}), 0) == 3
    assert exit_status(Progress(plan=PLAN), 0) == 0


def test_a_plan_that_only_settles_routes_replaces_no_plan() -> None:
    progress = Progress()
    progress.feed(ok("plan", PLAN))
    assert progress.feed(ok("plan", {"steps": [{}]})) == []
    assert progress.plan is not None
    assert progress.plan["summary"] == "Plan: 1 to create."


def test_every_unit_that_changed_is_one_line_and_one_that_was_kept_is_none() -> None:
    progress = Progress()
    units = [
        unit(),
        unit(name="llmgw-chat.1.0.service", action="removed", state=None, seconds=None),
        unit(action="kept"),
    ]
    assert progress.feed(ok("replica_units", {"changed": True, "units": units})) == [
        "n1  chat.0.0  created, ready in 1.3 s",
        "n1  chat.1.0  removed",
    ]
    assert progress.document()["changed"] == [
        {"host": "n1", "what": "llmgw-chat.0.0.service"},
        {"host": "n1", "what": "llmgw-chat.1.0.service"},
    ]
    assert progress.done == {
        ("n1", "llmgw-chat.0.0.service"): {"created"},
        ("n1", "llmgw-chat.1.0.service"): {"removed"},
    }


FETCHED = {"hf_id": "Qwen/Qwen3-32B", "action": "fetched", "fetched_bytes": 65_535_705_088, "seconds": 812.4}


def test_weights_that_were_fetched_are_a_line_each_and_those_that_were_there_none() -> None:
    progress = Progress()
    answer = {"changed": True, "models": [FETCHED, {"hf_id": "org/there", "action": "there"}]}
    assert progress.feed(ok("weights_fetch", answer)) == ["n1  Qwen/Qwen3-32B  fetched, 65.5 GB in 812 s"]
    assert progress.document()["changed"] == [{"host": "n1", "what": "weights of Qwen/Qwen3-32B"}]
    promised = {"models": [{"hf_id": "org/x", "action": "would fetch", "fetched_bytes": 0, "seconds": 0.0}]}
    assert progress.feed(ok("weights_fetch", promised)) == ["n1  org/x  would fetch"]


def test_weights_that_cannot_be_fetched_fail_the_run_and_say_why_once() -> None:
    progress = Progress()
    answer = {"failed": True, "msg": "org/x could not be fetched to /srv/models. No room.", "models": [FETCHED]}
    told = [
        *progress.feed(event("runner_on_async_failed", "llmgw.fleet.weights_fetch", answer)),
        *progress.feed(failed("llmgw.fleet.weights_fetch", answer, ignore_errors=True)),
    ]
    assert told == [
        "n1  Qwen/Qwen3-32B  fetched, 65.5 GB in 812 s",
        "n1  FAILED: org/x could not be fetched to /srv/models. No room.",
    ]
    assert exit_status(progress, 0) == 4


def test_published_routes_are_a_line_and_say_what_did_not_drain() -> None:
    progress = Progress()
    answer = {"changed": True, "generation": 7, "in_flight": {"chat/0@n1": 0, "chat/1@n2": 3}}
    assert progress.feed(ok("bundle", answer)) == [
        "n1  routes  generation 7, still in flight at the deadline: {'chat/1@n2': 3}"
    ]
    progress.feed(ok("bundle", answer | {"changed": False}))
    assert progress.document()["changed"] == [{"host": "n1", "what": "routes"}]
    assert Progress().feed(ok("bundle", {"changed": False, "generation": 7})) == ["n1  routes  generation 7"]


def test_an_engine_that_does_not_start_shows_a_bounded_end_of_its_log() -> None:
    progress = Progress()
    log = "\n".join(f"line {number}" for number in range(100))
    answer = {"msg": "not ready", "units": [unit(state="failed", log_tail=log, put_back=True)]}
    lines = progress.feed(failed("llmgw.fleet.replica_units", answer, ignore_errors=True))
    assert lines[0] == "n1  chat.0.0  created, failed in 1.3 s"
    assert lines[1:16] == [f"    | line {number}" for number in range(85, 100)]
    assert lines[16:] == ["n1  chat.0.0  put back to what served before", "n1  FAILED: not ready"]
    assert exit_status(progress, 2) == 4


@pytest.mark.parametrize("tail", [None, "", [], ["a", "b"]])
def test_a_log_may_be_absent_or_come_as_lines(tail: Any) -> None:
    answer = {"units": [unit(log_tail=tail)]}
    assert len(Progress().feed(ok("replica_units", answer))) == 1 + len(tail or ())


def test_a_host_that_does_not_answer_is_named_with_the_first_line_of_why() -> None:
    progress = Progress()
    gone = event("runner_on_unreachable", "llmgw.fleet.node_facts", {"msg": "Failed to connect\nvia ssh: no route"})
    assert progress.feed(gone) == ["n1  does not answer: Failed to connect"]
    assert exit_status(progress, 0) == 0, "the others are planned and applied"
    progress.feed(event("runner_on_unreachable", "llmgw.fleet.replica_units", {}))
    assert exit_status(progress, 0) == 4


def test_hosts_that_were_asked_are_known_whether_they_answered_or_not() -> None:
    progress = Progress()
    for kind, host in (("runner_on_ok", "n1"), ("runner_on_failed", "n2"), ("runner_on_unreachable", "n3")):
        progress.feed(event(kind, "llmgw.fleet.node_facts", {"msg": "no"}, host))
    progress.feed(event("runner_on_start", "llmgw.fleet.node_facts", {}, "n4"))
    progress.feed(event("runner_on_ok", "llmgw.fleet.store_facts", {}, "n5"))
    assert progress.asked == {"n1", "n2", "n3", "n4"}
    assert progress.answered == {"n1"}


def test_discovery_that_fails_on_a_host_is_told_and_stops_nothing() -> None:
    progress = Progress()
    assert progress.feed(failed("llmgw.fleet.node_facts", {"msg": "no python"}, ignore_errors=True)) == [
        "n1  FAILED: no python"
    ]
    assert exit_status(progress, 0) == 0


def test_what_the_playbook_itself_could_not_do_is_an_error() -> None:
    progress = Progress()
    assert progress.feed(failed("llmgw.fleet.plan", {"msg": "catalog.yaml:3:1: wrong"})) == []
    assert progress.feed(failed("ansible.builtin.fail", {"msg": ["Wave 1 of 2 failed", "n1: not ready"]})) == []
    assert progress.errors == ["catalog.yaml:3:1: wrong", "Wave 1 of 2 failed\nn1: not ready"]
    assert exit_status(progress, 2) == 1


def test_errors_that_the_playbook_ignores_are_no_errors() -> None:
    progress = Progress()
    progress.feed(failed("ansible.builtin.command", {"msg": "never mind"}, ignore_errors=True))
    assert progress.errors == []


@pytest.mark.parametrize(
    ("unplaced", "failed_steps", "ansible", "status"),
    [
        ([], False, 0, 0),
        (["chat/1"], False, 0, 3),
        (["chat/1"], True, 2, 4),
        ([], True, 2, 4),
        ([], True, 0, 4),
        ([], False, 2, 1),
        (["chat/1"], False, 4, 1),
        ([], True, 130, 130),
    ],
)
def test_the_exit_status_is_the_gravest_of_what_holds(
    unplaced: list[str], *, failed_steps: bool, ansible: int, status: int
) -> None:
    progress = Progress(plan=PLAN | {"unplaced": unplaced}, failed_steps=failed_steps)
    assert exit_status(progress, ansible) == status


def test_differences_of_files_are_shown_when_they_are_asked_for() -> None:
    change = {
        "before": "[Service]\nA=1\n",
        "after": "[Service]\nA=2\n",
        "before_header": "/etc/systemd/system/llmgw-chat.0.0.service",
        "after_header": "/etc/systemd/system/llmgw-chat.0.0.service",
    }
    answer = ok("replica_units", {"units": [], "diff": [change]})
    assert Progress().feed(answer) == []
    assert Progress().feed(answer, diff=True) == [
        "--- n1: /etc/systemd/system/llmgw-chat.0.0.service",
        "+++ n1: /etc/systemd/system/llmgw-chat.0.0.service",
        "@@ -1,2 +1,2 @@",
        " [Service]",
        "-A=1",
        "+A=2",
    ]
    new = ok("replica_units", {"units": [], "diff": [change | {"before": None}]})
    assert "+[Service]" in Progress().feed(new, diff=True)


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"event": "playbook_on_start"},
        {"event": "runner_on_ok"},
        {"event": "runner_on_ok", "event_data": None},
        {"event": "runner_on_ok", "event_data": {"host": "n1", "task_action": "debug", "res": {"msg": ["x"]}}},
        {"event": "runner_on_failed", "event_data": {"host": "n1", "task_action": "setup"}},
        {"event": "runner_on_unreachable", "event_data": {"host": "n1"}},
    ],
)
def test_events_that_say_little_are_worth_little(strange: dict[str, Any]) -> None:
    assert len(Progress().feed(strange, diff=True)) <= 1


def test_the_document_of_a_run_is_json() -> None:
    progress = Progress()
    progress.feed(ok("plan", PLAN))
    progress.feed(ok("replica_units", {"units": [unit()]}))
    document = progress.document()
    assert json.loads(json.dumps(document)) == document
    assert document["plan"]["text"] == ["+ chat/0"]


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb", "a"), ("\n\na\nb", "a"), ("", "no reason given"), (None, "no reason given")]
)
def test_the_first_line_of_a_message(text: str | None, line: str) -> None:
    assert first_line(text) == line


def test_a_run_that_no_host_explains_is_explained_by_what_ansible_said_last() -> None:
    progress = Progress()
    for number in range(30):
        assert progress.feed({"event": "verbose", "stdout": f"line {number}\n\n[ERROR]: no password"}) == []
    lines = unexplained(progress, 1)
    assert lines[-2:-1] == ["[ERROR]: no password"]
    assert len(lines) < 20
    assert lines[-1] == "Ansible ended with status 1 before it was through. What was begun, the next apply sees."
    assert unexplained(progress, 1, changes=False)[-1] == "Ansible ended with status 1 before it was through."
    assert unexplained(progress, 0) == unexplained(progress, 130) == []
    assert unexplained(Progress(errors=["why"]), 2) == unexplained(Progress(failed_steps=True), 2) == []


def test_the_frame_around_a_changed_host_key_does_not_hide_it() -> None:
    row = "@" * 59
    said = f"via ssh: {row}\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{row}\nmore"
    assert "IDENTIFICATION HAS CHANGED" in first_line(said)


def test_a_module_that_never_ran_is_told_by_the_hosts_last_words_and_what_to_set() -> None:
    answer = {
        "msg": "Module result deserialization failed: No start of json char found",
        "module_stderr": "warning: x\npyenv: python3.13: command not found\n",
        "rc": 127,
    }
    (line,) = Progress().feed(failed("llmgw.fleet.node_facts", answer))
    assert line.startswith("n1  FAILED: the module did not answer, and the host said: pyenv: python3.13: command not")
    assert "ansible_python_interpreter" in line
    crashed = answer | {"module_stderr": "Traceback (most recent call last):\n  x\nKeyError: 'y'\n"}
    (line,) = Progress().feed(failed("llmgw.fleet.node_facts", crashed))
    assert line.endswith("the host said: KeyError: 'y'")


def test_a_module_that_answered_is_told_by_its_message() -> None:
    assert failure_reason({"msg": "no such unit", "module_stderr": ""}) == "no such unit"


def test_what_to_do_about_a_problem_is_a_line_of_its_own() -> None:
    problem = "llmgw_draind of n1 is read by nothing [inventory-variable]\n    fix: did you mean llmgw_drained?"
    assert Progress().feed(ok("plan", PLAN | {"problems": [problem]}))[:2] == problem.split("\n")


def test_what_drained_is_told_with_how_long_it_took() -> None:
    answer = {
        "changed": True,
        "generation": 7,
        "drained": True,
        "waited_s": 3.21,
        "in_flight": {},
        "invocation": {"module_args": {"drain": ["chat/0@n1", "chat/1@n2"]}},
    }
    assert Progress().feed(ok("bundle", answer)) == ["n1  routes  generation 7, drained in 3.2 s: chat/0@n1, chat/1@n2"]
    late = answer | {"drained": False, "in_flight": {"chat/0@n1": 2}}
    assert "still in flight at the deadline" in Progress().feed(ok("bundle", late))[0]
    unasked = answer | {"drained": None}
    assert Progress().feed(ok("bundle", unasked)) == ["n1  routes  generation 7"]


def test_weights_on_their_way_are_told_once_a_minute() -> None:
    progress = Progress()
    told = []
    for second in range(0, 200, 5):
        poll = event("runner_on_async_poll", "ansible.builtin.async_status", {"finished": 0})
        created = f"2026-11-30T12:{second // 60:02d}:{second % 60:02d}.000000+00:00"
        told += progress.feed(poll | {"created": created})
    assert told == [f"n1  fetching weights for {minutes} min" for minutes in (1, 2, 3)]
    assert progress.feed(event("runner_on_async_poll", "ansible.builtin.async_status", {})) == []


def test_the_same_error_is_told_once() -> None:
    progress = Progress()
    for _ in range(2):
        progress.feed(failed("ansible.builtin.fail", {"msg": "broken"}))
    assert progress.errors == ["broken"]


def test_a_login_that_is_refused_is_told_with_what_to_set() -> None:
    said = {"msg": "Failed to connect to the host via ssh: root@10.0.0.1: Permission denied (publickey)."}
    (line,) = Progress().feed(event("runner_on_unreachable", "llmgw.fleet.node_facts", said))
    assert line.startswith("n1  does not answer: Failed to connect")
    assert "ansible_user" in line

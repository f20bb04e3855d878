# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from llmgw.apply import verdict

CHAT, CODE = "llmgw-chat.0.0.service", "llmgw-code-x.0.1.service"
STEP: dict[str, Any] = {
    "hosts": {"n1": {"units": [CHAT], "path": "0.json"}, "n2": {"units": [CHAT, CODE], "path": "1.json"}},
    "kind": "units",
    "title": "update chat/0",
    "wave": 2,
    "waves": 3,
}
PUBLISH: dict[str, Any] = {
    "hosts": ["gw1", "gw2"],
    "kind": "publish",
    "title": "update chat/0",
    "wave": 2,
    "waves": 3,
    "ready": ["chat/0@n1", "code-x/1@n2"],
    "drain": ["other/0@n3"],
    "trials": [],
}
TRIAL = {"endpoints": ["chat/0@n1"], "answers": 20, "max_errors": 0, "timeout_s": 600}
UNIT = {"name": CHAT, "action": "created", "state": "ready"}
DONE: dict[str, Any] = {"changed": True, "units": [UNIT]}
PUBLISHED: dict[str, Any] = {"changed": True, "generation": 3}
NOTHING_FAILED = {"failure": [], "failed_services": [], "overtaken": False}


def follow(step: dict[str, Any], results: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    return verdict.follow(verdict.BEGIN if before is None else before, step, results)


def test_a_step_that_went_well_has_no_failure() -> None:
    told = follow(STEP, {"n1": DONE, "n2": {"changed": False, "units": []}})
    assert NOTHING_FAILED.items() <= told.items()
    assert told["lines"] == ["n1  llmgw-chat.0.0.service  created, ready"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "no answer"),
        ({}, "no answer"),
        ({"unreachable": True, "msg": "no route\nmore"}, "does not answer: no route"),
        ({"failed": True, "msg": "chat/0 was not ready in 60 s"}, "chat/0 was not ready in 60 s"),
        ({"failed": True}, "no answer"),
    ],
)
def test_every_host_of_a_step_must_have_answered_well(answer: dict[str, Any] | None, why: str) -> None:
    answers = {"n1": DONE} | ({} if answer is None else {"n2": answer})
    assert verdict.judge(STEP, answers)["failed_hosts"] == {"n2": why}
    told = follow(STEP, answers)
    assert told["failure"][0].startswith("Wave 2 of 3 failed: update chat/0.")
    assert told["failure"][1:] == [f"n2: {why}"]
    assert told["wave"] == "2"
    assert told["failed_services"] == ["chat", "code-x"], "nobody knows how far that host came"


def test_what_a_failed_step_put_back_is_told() -> None:
    back = {"failed": True, "msg": "x", "units": [UNIT | {"state": "failed", "put_back": True}]}
    lines = verdict.judge(STEP, {"n1": back, "n2": DONE})["lines"]
    assert lines[0] == "n1  llmgw-chat.0.0.service  created, failed (the one before was put back)"


def test_only_services_whose_units_failed_are_put_back_where_the_host_tells_which() -> None:
    ready, failed = UNIT, {"name": CODE, "action": "restarted", "state": "failed"}
    told = follow(STEP, {"n1": DONE, "n2": {"failed": True, "msg": "x", "units": [ready, failed]}})
    assert told["failed_services"] == ["code-x"]
    none_failed = {"failed": True, "msg": "x", "units": [ready]}
    assert follow(STEP, {"n1": none_failed, "n2": DONE})["failed_services"] == ["chat"]


def test_after_the_first_failure_nothing_changes_any_more() -> None:
    first = follow(STEP, {"n1": DONE, "n2": {"failed": True, "msg": "x"}})
    handed_on = first | {"changed": False, "failed": False}
    later = follow(STEP | {"wave": 3}, {}, handed_on)
    assert later == first | {"lines": [], "canaries": []}
    assert follow(STEP | {"wave": 3}, {"n1": DONE, "n2": DONE}, follow(STEP, {"n1": DONE, "n2": DONE}))["wave"] == "3"


def test_what_could_not_be_put_back_is_added_to_the_failure_and_what_could_is_no_failure() -> None:
    first = follow(STEP, {"n1": DONE, "n2": {"failed": True, "msg": "x"}})
    well = verdict.put_back(first, STEP, {"n1": DONE, "n2": DONE})
    assert well == first | {"canaries": [], "lines": well["lines"]}
    assert well["lines"] == ["n1  llmgw-chat.0.0.service  created, ready", "n2  llmgw-chat.0.0.service  created, ready"]
    badly = verdict.put_back(well, STEP, {"n1": {"unreachable": True, "msg": "gone"}, "n2": DONE})
    assert badly["failure"] == [*first["failure"], "Not put back: n1: does not answer: gone"]
    assert (badly["failed_services"], badly["wave"]) == (first["failed_services"], "2")


def test_a_step_that_fetches_is_judged_by_its_hosts_and_tells_what_came() -> None:
    step = STEP | {"kind": "fetch"}
    came = {"hf_id": "org/x", "action": "fetched", "fetched_bytes": 2_000_000_000, "seconds": 40.2}
    there = {"hf_id": "org/y", "action": "there", "fetched_bytes": 0, "seconds": 0.0}
    refused = {"failed": True, "msg": "org/x could not be fetched to /srv. No room.", "models": [there]}
    told = follow(step, {"n1": {"models": [came]}, "n2": refused})
    assert told["lines"] == ["n1  org/x  fetched, 2.0 GB in 40 s", "n2  org/y  there"]
    assert told["failure"][0].startswith("Wave 2 of 3 failed")
    assert told["failure"][1:] == ["n2: org/x could not be fetched to /srv. No room."]
    assert told["failed_services"] == [], "nothing was touched"


def test_a_publish_step_is_judged_by_its_gateways() -> None:
    assert NOTHING_FAILED.items() <= follow(PUBLISH, {"gw1": PUBLISHED, "gw2": PUBLISHED}).items()
    told = follow(PUBLISH, {"gw1": PUBLISHED})
    assert told["failure"][1:] == ["gw2: no answer"]
    assert told["failed_services"] == ["chat", "code-x"], "what drained serves again once routes are true"


def test_a_gateway_that_tells_what_it_does_not_see_names_the_services_that_failed() -> None:
    blind = {"failed": True, "msg": "does not see", "unready": ["code-x/1@n2"]}
    assert follow(PUBLISH, {"gw1": PUBLISHED, "gw2": blind})["failed_services"] == ["code-x"]


@pytest.mark.parametrize("step", [STEP, PUBLISH])
def test_a_run_that_another_controller_overtook_is_known(step: dict[str, Any]) -> None:
    refused = {"failed": True, "msg": "another controller was quicker", "overtaken": True}
    first, second = step["hosts"]
    told = follow(step, {first: PUBLISHED, second: refused})
    assert told["overtaken"] is True
    assert told["failure"]
    assert follow(step, {}, told)["overtaken"] is True


def test_canaries_that_did_not_pass_fail_a_step_that_every_gateway_carried_out() -> None:
    step = PUBLISH | {"trials": [TRIAL]}
    answers = {"gw1": PUBLISHED | count(3, 2), "gw2": PUBLISHED | count(1, 0)}
    told = follow(step, answers)
    assert told["failure"] == [
        "Wave 2 of 3 failed: update chat/0. Later waves were not begun; what serves goes on serving.",
        "canary chat/0@n1: 4 good and 2 bad answers of 20 wanted within 600 s; none may be bad.",
    ]
    assert told["failed_services"] == ["chat"]
    assert told["canaries"] == [{"endpoint": "chat/0@n1", "good": 4, "bad": 2, "passed": False}]
    assert told["lines"] == ["canary chat/0@n1  4 good answers, 2 bad"]


def test_canaries_that_passed_let_the_rollout_go_on() -> None:
    step = PUBLISH | {"trials": [TRIAL]}
    told = follow(step, {"gw1": PUBLISHED | count(12), "gw2": PUBLISHED | count(8)})
    assert NOTHING_FAILED.items() <= told.items()
    assert told["canaries"] == [{"endpoint": "chat/0@n1", "good": 20, "bad": 0, "passed": True}]
    later = follow(STEP, {"n1": DONE, "n2": DONE}, told)
    assert later["canaries"] == []


def test_a_gateway_that_failed_is_the_reason_and_not_a_canary_for_which_nobody_waited() -> None:
    step = PUBLISH | {"trials": [TRIAL]}
    told = follow(step, {"gw1": PUBLISHED | count(5), "gw2": {"unreachable": True, "msg": "gone"}})
    assert told["failure"][1:] == ["gw2: does not answer: gone"]
    assert "chat" in told["failed_services"]


def count(good: int, bad: int = 0) -> dict[str, Any]:
    return {"answers": {"chat/0@n1": {"good": good, "bad": bad}}}


def test_judging_imports_nothing_heavy() -> None:
    code = "import sys, llmgw.apply.verdict; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


def test_an_undo_that_another_controller_has_overtaken_ends_as_overtaken() -> None:
    first = verdict.judge(STEP, {"n1": DONE})
    assert first["overtaken"] is False
    late = verdict.put_back(first, STEP, {"n1": {"failed": True, "overtaken": True, "msg": "another is ahead"}})
    assert late["overtaken"] is True
    assert verdict.put_back(late, STEP, {"n1": DONE, "n2": DONE})["overtaken"] is True

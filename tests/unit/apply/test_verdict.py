# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from llmgw.apply import verdict

STEP = {"hosts": {"n1": {}, "n2": {}}, "kind": "units", "title": "update chat/0", "wave": 2, "waves": 3}
DONE = {"changed": True, "units": [{"name": "llmgw-chat.0.0.service", "action": "created", "state": "ready"}]}


def test_a_step_that_went_well_has_no_failed_hosts() -> None:
    assert verdict.judge(STEP, {"n1": DONE, "n2": {"changed": False, "units": []}}) == {
        "failed_hosts": {},
        "failure": [],
        "lines": ["n1  llmgw-chat.0.0.service  created, ready"],
        "overtaken": False,
    }


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "no answer"),
        ({"unreachable": True, "msg": "no route"}, "no route"),
        ({"failed": True, "msg": "chat/0 was not ready in 60 s"}, "chat/0 was not ready in 60 s"),
        ({"failed": True}, "no answer"),
    ],
)
def test_every_host_of_a_step_must_have_answered_well(answer: dict[str, Any] | None, why: str) -> None:
    answers = {"n1": DONE} | ({} if answer is None else {"n2": answer})
    told = verdict.judge(STEP, answers)
    assert told["failed_hosts"] == {"n2": why}
    assert told["failure"][0].startswith("Wave 2 of 3 failed: update chat/0.")
    assert told["failure"][1:] == [f"n2: {why}"]


def test_what_a_failed_step_put_back_is_told() -> None:
    back = {"failed": True, "msg": "x", "units": [DONE["units"][0] | {"state": "failed", "put_back": True}]}  # type: ignore[index]
    lines = verdict.judge(STEP, {"n1": back, "n2": DONE})["lines"]
    assert lines[0] == "n1  llmgw-chat.0.0.service  created, failed (the one before was put back)"


def test_a_step_that_fetches_is_judged_by_its_hosts_and_tells_what_came() -> None:
    step = STEP | {"kind": "fetch"}
    came = {"hf_id": "org/x", "action": "fetched", "fetched_bytes": 2_000_000_000, "seconds": 40.2}
    there = {"hf_id": "org/y", "action": "there", "fetched_bytes": 0, "seconds": 0.0}
    refused = {"failed": True, "msg": "org/x could not be fetched to /srv. No room.", "models": [there]}
    told = verdict.judge(step, {"n1": {"models": [came]}, "n2": refused})
    assert told["lines"] == ["n1  org/x  fetched, 2.0 GB in 40 s", "n2  org/y  there"]
    assert told["failed_hosts"] == {"n2": "org/x could not be fetched to /srv. No room."}
    assert told["failure"][0].startswith("Wave 2 of 3 failed")


def test_a_publish_step_is_judged_by_its_gateways() -> None:
    step = STEP | {"hosts": ["gw"], "kind": "publish"}
    assert verdict.judge(step, {"gw": {"changed": True, "generation": 3}}) == {
        "failed_hosts": {},
        "failure": [],
        "lines": [],
        "overtaken": False,
    }
    refused = {"failed": True, "msg": "of the same generation", "overtaken": True}
    assert verdict.judge(step, {"gw": refused})["overtaken"] is True
    assert verdict.judge(step, {})["failed_hosts"] == {"gw": "no answer"}


def test_judging_imports_nothing_heavy() -> None:
    code = "import sys, llmgw.apply.verdict; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from llmgw.apply import taken, verdict

Json = dict[str, Any]
DONE: Json = {"changed": True, "units": []}
CUT: Json = {"unreachable": True, "msg": "no route"}


def units(*hosts: str, of: tuple[str, ...] = (), process: str | None = None) -> Json:
    takes = {"chat/0@n1": {"hosts": list(of or hosts), "process": process}}
    return {
        "kind": "units",
        "hosts": {host: {"units": ["llmgw-chat.0.0.service"]} for host in hosts},
        "takes": takes,
        "title": "stop chat/0",
        "wave": 1,
        "waves": 1,
    }


def publish(*ready: str) -> Json:
    return {"kind": "publish", "hosts": ["gw"], "ready": list(ready), "drain": ["chat/0@n1"], "title": "x"}


def after(*steps: tuple[Json, Json]) -> Json:
    known: Json = {}
    for step, results in steps:
        known = taken.after(known, step, results)
    return known


@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        (DONE, []),
        ({"failed": True, "msg": "not ready", "units": []}, []),
        ({"failed": True, "msg": "another llmgw run holds the lock"}, []),
        (CUT, ["n1"]),
        ({"failed": True, "msg": "Timed out", "timedout": {"period": 60}}, ["n1"]),
        ({}, ["n1"]),
        (None, ["n1"]),
    ],
)
def test_a_host_that_never_said_how_a_step_ended_is_silent(answer: Json | None, silent: list[str]) -> None:
    found = after((units("n1"), {} if answer is None else {"n1": answer}))
    assert found == {"chat/0@n1": {"hosts": ["n1"], "silent": silent, "process": None}}


def test_a_drain_alone_takes_nothing_and_what_came_in_anew_is_given_back() -> None:
    assert after((publish(), {"gw": DONE})) == {}
    replaced = (units("n1", process="sha256:p"), {"n1": DONE})
    assert after(replaced, (publish(), {})).keys() == {"chat/0@n1"}
    assert after(replaced, (publish("chat/0@n1"), {})) == {}


def test_steps_that_touch_nothing_drained_take_nothing() -> None:
    step = units("n1") | {"takes": {}}
    assert after((step, {"n1": CUT})) == {}
    assert after(({"kind": "fetch", "hosts": ["n1"]}, {"n1": CUT})) == {}


def test_hosts_of_a_replica_add_up_over_steps_and_the_last_answer_of_each_counts() -> None:
    first = (units("n1", "n2"), {"n1": CUT, "n2": CUT})
    (found,) = after(first, (units("n2", of=("n1", "n2"), process="sha256:p"), {"n2": DONE})).values()
    assert found == {"hosts": ["n1", "n2"], "silent": ["n1"], "process": "sha256:p"}
    (again,) = after(first, (units("n1", "n2"), {"n1": DONE, "n2": CUT})).values()
    assert again["silent"] == ["n2"]


def test_a_host_that_is_not_asked_in_a_step_is_not_silent_in_it() -> None:
    (found,) = after((units("n2", of=("n1", "n2")), {"n2": DONE})).values()
    assert (found["hosts"], found["silent"]) == (["n1", "n2"], [])


def test_a_verdict_carries_it_on_up_to_the_failure_and_through_what_puts_back() -> None:
    began = verdict.follow(verdict.BEGIN, units("n1"), {"n1": CUT})
    assert began["failure"]
    (one,) = began["taken"].values()
    assert one["silent"] == ["n1"]
    handed_on = began | {"changed": False}
    assert verdict.follow(handed_on, units("n9"), {})["taken"] == began["taken"], "no later step is carried out"
    back = verdict.put_back(handed_on, units("n1", process="sha256:before"), {"n1": DONE})
    assert back["taken"] == {"chat/0@n1": {"hosts": ["n1"], "silent": [], "process": "sha256:before"}}
    bare = {"failure": [], "failed_services": [], "wave": "0", "overtaken": False}
    assert verdict.follow(bare, units("n1"), {"n1": DONE})["taken"].keys() == {"chat/0@n1"}

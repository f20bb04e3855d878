# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.unit_states import Look, UnitState, unit_state

LOOK = Look(
    engine="vllm",
    active_state="active",
    sub_state="running",
    result="success",
    since=1000.0,
    now=1030.0,
    serves=False,
    start_timeout_s=60,
    ready_timeout_s=600,
    stop_timeout_s=40,
)


def state(log: str = "", **changes: Any) -> UnitState:
    return unit_state(LOOK._replace(**changes), lambda: log)


def unread() -> str:
    raise AssertionError("the log of a unit that is ready was read")


def test_a_process_that_is_being_started_has_the_deadline_of_starting() -> None:
    found = state(active_state="activating", sub_state="start")
    assert found == UnitState("starting", 1000.0, 1060.0, "its process is being started")


def test_a_unit_that_is_started_again_says_why_it_ended() -> None:
    found = state("CUDA out of memory\n", active_state="activating", sub_state="auto-restart", result="exit-code")
    assert found.state == "starting"
    assert found.reason is not None
    assert found.reason.startswith("the device's memory ran out (it ended with an error, and is started again). Lower")


def test_a_member_that_waits_for_its_group_is_starting() -> None:
    log = (
        "llmgw-guard: rank 0 at 10.0.0.1, one of 2, group abc\n"
        "llmgw-guard: waiting for rank 1 at 10.0.0.2 (connection refused) (group abc)\n"
    )
    found = state(log, ready_timeout_s=900)
    assert found == UnitState("starting", 1000.0, 1900.0, "it waits for rank 1 at 10.0.0.2 (connection refused)")
    begun = log + "llmgw-guard: all 2 members are here: starting the engine\nvLLM server version 0.33.0\n"
    assert state(begun).state == "loading"
    assert state(log, asked=False, serves=None).state == "starting"
    assert state(begun, asked=False, serves=None) == UnitState("ready", 1000.0)


def test_an_engine_that_loads_says_how_far_it_is() -> None:
    found = state("Loading safetensors checkpoint shards: 50% Completed\n")
    assert found == UnitState("loading", 1000.0, 1600.0, "loading weights, 50 %", 0.325)


def test_an_engine_whose_log_says_nothing_loads_all_the_same() -> None:
    assert state("hello\n") == UnitState("loading", 1000.0, 1600.0, "its engine does not serve yet")
    assert state("hello\n", serves=None).state == "loading"


def test_a_deadline_that_nobody_wrote_down_is_unknown() -> None:
    assert state(ready_timeout_s=None).deadline is None
    assert state(since=None).deadline is None


def test_what_is_not_ready_by_its_deadline_has_failed() -> None:
    found = state("No available memory for the cache blocks\n", now=1600.5)
    assert (found.state, found.since) == ("failed", 1600.0)
    assert found.reason is not None
    assert found.reason.startswith("the weights leave no memory for a KV cache (not ready within 600 s")
    assert state(now=1600.0).state == "loading"


def test_a_ready_unit_costs_no_look_at_its_log() -> None:
    assert unit_state(LOOK._replace(serves=True, ready_at=1012.5), unread) == UnitState("ready", 1012.5)
    assert unit_state(LOOK._replace(serves=True), unread) == UnitState("ready", None)


def test_since_when_a_restarted_unit_is_ready_again_is_unknown() -> None:
    assert unit_state(LOOK._replace(serves=True, ready_at=900.0), unread).since is None


def test_a_ready_unit_that_does_not_answer_in_time_is_busy_and_one_that_denies_it_has_failed() -> None:
    busy = unit_state(LOOK._replace(serves=None, ready_at=1012.0), unread)
    assert (busy.state, busy.reason) == ("ready", "it was ready, and did not answer in time now")
    broken = state(ready_at=1012.0)
    assert (broken.state, broken.reason) == ("failed", "it was ready, and does not serve any more")


def test_a_unit_that_stops_is_draining_until_its_deadline() -> None:
    found = unit_state(LOOK._replace(active_state="deactivating", sub_state="stop-sigterm"), unread)
    assert found == UnitState("draining", 1000.0, 1040.0, "it was asked to stop, and finishes what is in flight")
    killed = unit_state(LOOK._replace(active_state="deactivating", sub_state="final-sigkill"), unread)
    assert killed.reason == "its time to finish is over: it is being killed"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("oom-kill", "the kernel killed it: it needed more memory than it may have"),
        ("start-limit-hit", "it ended too often in a short time, and is not started again"),
        ("something-new", "it ended"),
    ],
)
def test_a_failed_unit_says_how_it_ended(result: str, words: str) -> None:
    assert state(active_state="failed", result=result) == UnitState("failed", 1000.0, None, words)


def test_what_does_not_run_or_is_unknown_has_no_state() -> None:
    assert state(active_state="inactive") == UnitState(None, 1000.0, None, "it does not run")
    assert state(active_state=None) == UnitState()
    assert state(active_state="maintenance") == UnitState()


WORDS = ["active", "activating", "deactivating", "failed", "inactive", "reloading", None]


@given(
    look=st.builds(
        Look,
        engine=st.sampled_from(["vllm", "sim", None]),
        active_state=st.sampled_from(WORDS),
        sub_state=st.sampled_from(["running", "auto-restart", "start", None]),
        result=st.sampled_from(["success", "oom-kill", None]),
        since=st.one_of(st.none(), st.just(1000.0)),
        now=st.floats(900, 3000),
        asked=st.booleans(),
        serves=st.sampled_from([True, False, None]),
        ready_at=st.one_of(st.none(), st.floats(900, 3000)),
        start_timeout_s=st.one_of(st.none(), st.just(60.0)),
        ready_timeout_s=st.one_of(st.none(), st.just(600.0)),
        stop_timeout_s=st.one_of(st.none(), st.just(40.0)),
    ),
    log=st.sampled_from(["", "CUDA out of memory", "Loading shards: 10% Completed"]),
)
def test_every_state_explains_itself(look: Look, log: str) -> None:
    found = unit_state(look, lambda: log)
    assert found.state in {None, "starting", "loading", "ready", "draining", "failed"}
    if found.state not in {None, "ready"}:
        assert found.reason
        assert not found.reason.endswith(".")
    if found.state in {"starting", "loading"} and found.deadline is not None and look.sub_state != "start":
        assert look.now <= found.deadline or look.active_state == "activating"

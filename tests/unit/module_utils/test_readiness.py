# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Answer, Exit, Readiness, Seen, Times
from tests.support.fake_host import FakeHost

HTTP = Readiness("http", "10.0.0.1", 18000, expect_model="chat", start_timeout_s=60, ready_timeout_s=600)
UNIT = replace(HTTP, kind="unit")
UP = Seen("loaded", "active", "running", "success", queued=False, exit=None, restarts=0, digest="p1")
SOON = Times(waited=3, begun=3, active=3, wrong_model=0, allowance=0)
SERVING = Answer(readiness.SERVING, "it serves chat")
REFUSED = Answer(readiness.REFUSED, "its port is closed")
HEALTH, MODELS = "http://10.0.0.1:18000/health", "http://10.0.0.1:18000/v1/models"


def models(*names: str) -> Response:
    return Response(200, json.dumps({"data": [{"id": name} for name in names]}).encode())


def ask(health: Response | None, listed: Response | None = None, asked: Readiness = HTTP) -> str:
    answers = {url: answer for url, answer in ((HEALTH, health), (MODELS, listed)) if answer is not None}
    return readiness.ask(FakeHost(answers=answers), asked, 1).word


def judge(
    seen: Seen = UP, answer: Answer | None = SERVING, times: Times = SOON, asked: Readiness = HTTP
) -> readiness.Verdict:
    return readiness.judge(asked, "p1", seen, answer, times)


@pytest.mark.parametrize(
    ("health", "listed", "word"),
    [
        (None, None, "refused"),
        (Response(None, b"", "timed out"), None, "silent"),
        (Response(503, b"loading"), None, "busy"),
        (Response(500, b""), None, "busy"),
        (Response(200, b""), None, "refused"),
        (Response(200, b""), Response(503, b""), "busy"),
        (Response(200, b""), Response(401, b""), "serving"),
        (Response(200, b""), models(), "busy"),
        (Response(200, b""), models("other"), "other-model"),
        (Response(200, b""), models("other", "chat"), "serving"),
        (Response(200, b""), Response(200, b"\xff"), "silent"),
        (Response(200, b""), Response(200, b"[]"), "silent"),
    ],
)
def test_an_engine_serves_when_it_is_healthy_and_lists_the_model(
    health: Response | None, listed: Response | None, word: str
) -> None:
    assert ask(health, listed) == word


def test_a_list_that_needs_a_key_counts_and_says_that_the_name_was_not_checked() -> None:
    host = FakeHost(answers={HEALTH: Response(200, b""), MODELS: Response(401, b"")})
    assert "the model's name was not checked" in readiness.ask(host, HTTP, 1).detail


def test_without_an_expected_name_any_model_will_do() -> None:
    assert ask(Response(200, b""), models("x"), replace(HTTP, expect_model=None)) == "serving"


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("0.0.0.0", "http://127.0.0.1:18000/health"),
        ("::", "http://[::1]:18000/health"),
        ("fd00::1", "http://[fd00::1]:18000/health"),
    ],
)
def test_an_engine_on_all_addresses_is_asked_on_the_loopback(address: str, asked: str) -> None:
    host = FakeHost()
    readiness.ask(host, replace(HTTP, address=address), 1)
    assert host.fetched == [(asked, {})]


def test_a_serving_engine_is_ready_and_a_closed_port_is_not() -> None:
    assert judge().state == "ready"
    assert judge(answer=REFUSED).state == "loading"
    assert judge(answer=None).state == "loading"


def test_an_answer_counts_only_from_the_process_that_was_started() -> None:
    assert judge(UP._replace(digest="p0")).state == "starting"
    assert judge(UP._replace(digest=None)).state == "ready"
    assert judge(answer=Answer(readiness.FOREIGN, "another")).state == "loading"


def test_what_systemd_says_while_the_start_is_queued_is_about_the_old_process() -> None:
    queued = UP._replace(queued=True, active_state="failed", restarts=9)
    assert judge(queued, None, SOON._replace(begun=None)).state == "starting"
    late = Times(waited=91, begun=None, active=0, wrong_model=0, allowance=30)
    assert judge(queued, None, late).detail == "the old process did not make room within 91 s"
    assert judge(queued, None, late._replace(waited=89)).state == "starting"


@pytest.mark.parametrize(
    ("seen", "detail"),
    [
        (UP._replace(load_state="bad-setting"), "systemd cannot load the unit (bad-setting)"),
        (
            UP._replace(active_state="failed", result="oom-kill", exit=Exit(9, by_signal=True), restarts=1),
            "the kernel killed it: it needed more memory than it may have, signal 9, after 1 restart",
        ),
        (UP._replace(restarts=2, exit=Exit(1)), "it ended and was restarted 2 times, exit status 1"),
        (UP._replace(active_state="inactive", sub_state="dead", exit=Exit(0)), "it ended, exit status 0"),
        (
            UP._replace(active_state="activating", sub_state="auto-restart", exit=Exit(217)),
            "its user does not exist (exit status 217)",
        ),
        (
            UP._replace(active_state="failed", result="exit-code", exit=Exit(226), restarts=5),
            "its sandbox cannot be set up (exit status 226, after 5 restarts)",
        ),
    ],
)
def test_what_cannot_come_up_any_more_fails_at_once(seen: Seen, detail: str) -> None:
    verdict = judge(seen)
    assert (verdict.state, verdict.detail) == ("failed", detail)


def test_a_secret_that_is_not_on_the_node_is_told_with_what_to_do() -> None:
    waiting = UP._replace(active_state="activating", sub_state="auto-restart", exit=Exit(243))
    for seen in (waiting, UP._replace(active_state="failed", result="exit-code", exit=Exit(243))):
        detail = judge(seen).detail
        assert detail.startswith("a secret that it names is not on the node: ")
        assert "run the playbook llmgw.fleet.prepare" in detail


@pytest.mark.parametrize(("ended", "began"), [(Exit(243), False), (Exit(226), False), (Exit(203), True)])
def test_a_program_that_systemd_could_not_run_has_said_nothing(ended: Exit, *, began: bool) -> None:
    assert judge(UP._replace(active_state="activating", sub_state="auto-restart", exit=ended)).began is began
    assert judge(UP._replace(active_state="failed", exit=ended._replace(by_signal=True))).began is True


def test_one_restart_is_forgiven() -> None:
    waiting = UP._replace(active_state="activating", sub_state="auto-restart", restarts=1, exit=Exit(1))
    assert judge(waiting).state == "starting"
    assert judge(UP._replace(restarts=1, exit=Exit(1))).state == "ready"


def test_each_state_has_its_own_deadline() -> None:
    down = UP._replace(active_state="activating", sub_state="start-pre")
    assert judge(down, times=SOON._replace(begun=59)).state == "starting"
    assert judge(down, times=SOON._replace(begun=61)).detail.startswith("not started within 60 s: ")
    assert judge(answer=REFUSED, times=SOON._replace(begun=599)).state == "loading"
    assert judge(answer=REFUSED, times=SOON._replace(begun=601)).detail == "not ready within 600 s: its port is closed"
    assert judge(times=SOON._replace(begun=601)).state == "ready"


def test_an_engine_that_listens_while_loading_must_listen_by_its_start_deadline() -> None:
    early = replace(HTTP, listens_while_loading=True)
    late = SOON._replace(begun=61)
    assert judge(answer=REFUSED, asked=early).state == "starting"
    assert judge(answer=REFUSED, asked=early, times=late).detail == "not started within 60 s: its port is closed"
    assert judge(answer=Answer(readiness.BUSY, "503"), asked=early, times=late).state == "loading"


def test_another_model_for_long_is_a_failure_and_for_a_moment_is_not() -> None:
    other = Answer(readiness.OTHER_MODEL, "it serves x instead of chat")
    assert judge(answer=other, times=SOON._replace(wrong_model=9)).state == "loading"
    assert judge(answer=other, times=SOON._replace(wrong_model=11)).state == "failed"


def test_a_unit_without_readiness_of_its_own_is_ready_after_two_seconds_of_one_process() -> None:
    assert judge(answer=None, asked=UNIT, times=SOON._replace(active=1.9)).state == "starting"
    assert judge(answer=None, asked=UNIT, times=SOON._replace(active=2)).state == "ready"


SECONDS = st.floats(0, 10_000)
STATES = st.sampled_from(["active", "activating", "deactivating", "inactive", "failed", "reloading", ""])
SEEN = st.builds(
    Seen,
    st.sampled_from(["loaded", "not-found", ""]),
    STATES,
    st.sampled_from(["running", "auto-restart", "dead"]),
    st.just("success"),
    queued=st.booleans(),
    exit=st.none() | st.builds(Exit, st.integers(0, 255), by_signal=st.booleans()),
    restarts=st.integers(0, 5),
    digest=st.sampled_from(["p1", "p0", None]),
)
WORDS = ("refused", "silent", "busy", "other-model", "foreign", "serving")
ANSWERS = st.none() | st.builds(Answer, st.sampled_from(WORDS), st.just("words"))


@given(SEEN, ANSWERS, SECONDS, st.none() | SECONDS, st.booleans())
def test_no_wait_lasts_longer_than_its_deadlines(
    seen: Seen, answer: Answer | None, waited: float, begun: float | None, http: bool
) -> None:
    times = Times(waited, begun, active=begun or 0, wrong_model=0, allowance=30)
    verdict = judge(seen, answer, times, HTTP if http else UNIT)
    over = (begun or 0) > 600 or (begun is None and waited > 90)
    assert verdict.state in {"ready", "failed"} or not over


@given(SEEN, ANSWERS, SECONDS)
def test_ready_is_only_what_is_active_and_not_something_else(seen: Seen, answer: Answer | None, begun: float) -> None:
    if judge(seen, answer, SOON._replace(begun=begun)).state == "ready":
        assert answer is not None
        assert answer.word == "serving"
        assert (seen.active_state, seen.digest != "p0") == ("active", True)


LED = replace(HTTP, kind="leader", listens_while_loading=True)
WAITS = UP._replace(waits=True)


def test_a_member_that_does_not_lead_is_ready_with_its_leader() -> None:
    assert judge(asked=LED).state == "ready"
    assert judge(UP._replace(active_state="activating"), asked=LED).state == "starting"
    assert judge(answer=None, asked=LED).state == "loading"
    assert judge(UP._replace(active_state="failed"), asked=LED).state == "failed"
    assert judge(UP._replace(restarts=2), asked=LED).state == "failed"
    other = Answer(readiness.OTHER_MODEL, "it serves another")
    assert judge(answer=other, times=SOON._replace(wrong_model=11), asked=LED).state == "failed"


def test_a_leaders_port_may_stay_closed_until_its_model_is_loaded() -> None:
    late = SOON._replace(begun=61, active=61)
    assert judge(answer=REFUSED, times=late, asked=replace(LED, kind="http")).state == "failed"
    assert judge(answer=REFUSED, times=late, asked=LED).state == "loading"
    verdict = judge(answer=REFUSED, times=SOON._replace(begun=601), asked=LED)
    assert (verdict.state, verdict.detail) == ("failed", "not ready within 600 s: its port is closed")


@pytest.mark.parametrize("asked", [HTTP, LED])
@pytest.mark.parametrize(("restarts", "active", "state"), [(0, 500, "loading"), (1, 59, "loading"), (1, 61, "failed")])
def test_a_group_that_ended_and_does_not_come_together_again_has_failed(
    asked: Readiness, restarts: int, active: float, state: str
) -> None:
    seen = WAITS._replace(restarts=restarts)
    verdict = judge(seen, None, SOON._replace(begun=500, active=active), asked)
    assert verdict.state == state
    words = "its group ended, after 1 restart, and it did not come together again within 60 s"
    assert verdict.detail == (words if state == "failed" else "its group is not together yet")


def test_an_answer_of_a_leader_says_whose_it_is() -> None:
    host = FakeHost(answers={HEALTH: Response(200, b""), MODELS: models("chat")})
    assert readiness.ask(host, LED, 1).detail == "of its leader at 10.0.0.1:18000: it serves chat"


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"data": ' + b"[" * 200_000])
def test_a_model_list_that_is_nested_without_end_cannot_be_read(body: bytes) -> None:
    assert ask(Response(200, b""), Response(200, body)) == "silent"


def test_what_an_engine_says_is_told_within_bounds() -> None:
    many = models(*(f"adapter\n{number}" for number in range(100_000)))
    for asked in (HTTP, replace(HTTP, expect_model=None)):
        host = FakeHost(answers={HEALTH: Response(200, b""), MODELS: many})
        detail = readiness.ask(host, asked, 1).detail
        assert detail.startswith("it serves adapter0, adapter1, ")
        assert len(detail) < 250
    broken = FakeHost(answers={HEALTH: Response(None, b"", "x" * 65_536)})
    assert len(readiness.ask(broken, HTTP, 1).detail) < 250

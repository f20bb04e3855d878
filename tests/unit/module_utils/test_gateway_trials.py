# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import gateway_trials
from ansible_collections.llmgw.fleet.plugins.module_utils.gateway_api import Answers, Reading, understand
from ansible_collections.llmgw.fleet.plugins.module_utils.gateway_trials import Trial, Tried
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response
from tests.unit.module_utils.test_gateway_api import REFUSED, TIMEOUT, URL, Gateway

A, B = "chat/0@n1", "chat/1@n2"


def says(generation: int = 7, **counts: tuple[int, int] | None) -> Response:
    """An answer with good and bad ones of `a` and `b`; None: the endpoint is there and not counted."""
    endpoints = []
    for name, count in counts.items():
        entry: dict[str, object] = {"id": {"a": A, "b": B}[name], "state": "ready"}
        if count is not None:
            entry |= {"good": count[0], "bad": count[1]}
        endpoints.append(entry)
    return Response(200, json.dumps({"generation": generation, "endpoints": endpoints}).encode())


def count(*answers: Response, trials: Sequence[Trial] = (Trial((A,), 2, 0, 30),)) -> Tried:
    return gateway_trials.count(Gateway(*answers), URL, "secret", 7, trials)


def test_answers_count_from_the_first_look_on() -> None:
    tried = count(says(a=(100, 7)), says(a=(101, 7)), says(a=(102, 7)))
    assert (tried.answers, tried.detail) == ({A: Answers(2, 0)}, "counted")


def test_more_bad_answers_than_allowed_end_it_at_once() -> None:
    trial = Trial((A, B), 1000, 1, 30)
    tried = count(says(a=(0, 0), b=(0, 0)), says(a=(5, 1), b=(9, 0)), says(a=(6, 2), b=(9, 0)), trials=[trial])
    assert tried.answers == {A: Answers(6, 2), B: Answers(9, 0)}
    assert tried.waited_s < 15


def test_every_endpoint_of_every_trial_is_waited_for() -> None:
    trials = [Trial((A,), 1, 0, 30), Trial((B,), 2, 0, 30)]
    tried = count(says(a=(0, 0), b=(0, 0)), says(a=(1, 0), b=(1, 0)), says(a=(9, 0), b=(2, 0)), trials=trials)
    assert tried.answers == {A: Answers(9, 0), B: Answers(2, 0)}


def test_a_trial_ends_when_its_time_has_passed() -> None:
    tried = count(says(a=(0, 0)), trials=[Trial((A,), 5, 0, 0.3)])
    assert tried.answers == {A: Answers(0, 0)}
    assert tried.detail.startswith("went on after 0.3 s")
    assert 0.3 <= tried.waited_s < 10


def test_a_gateway_that_began_at_zero_loses_no_count() -> None:
    tried = count(says(a=(100, 3)), says(a=(101, 3)), says(a=(1, 0)), trials=[Trial((A,), 2, 0, 30)])
    assert tried.answers == {A: Answers(2, 0)}


def test_a_gateway_that_does_not_answer_for_a_while_is_asked_again() -> None:
    tried = count(says(a=(4, 0)), TIMEOUT, Response(503, b""), says(a=(6, 0)))
    assert (tried.answers, tried.detail) == ({A: Answers(2, 0)}, "counted")
    silent = count(TIMEOUT, trials=[Trial((A,), 1, 0, 0.2)])
    assert silent.answers == {A: None}
    assert silent.detail.endswith("(the gateway does not answer (timed out))")


def test_the_wait_ends_at_once_where_no_gateway_runs() -> None:
    tried = count(REFUSED)
    assert (tried.answers, tried.detail) == ({A: None}, "no gateway runs there")
    assert tried.waited_s < 15


def test_a_gateway_that_restarts_is_waited_for() -> None:
    tried = count(says(a=(4, 0)), says(a=(5, 0)), REFUSED, REFUSED, says(a=(0, 0)), says(a=(1, 0)))
    assert (tried.answers, tried.detail) == ({A: Answers(2, 0)}, "counted")


def test_the_wait_ends_when_a_gateway_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_trials, "_RESTART_S", 0.2)
    tried = count(says(a=(0, 0)), says(a=(1, 0)), REFUSED)
    assert (tried.answers, tried.detail) == ({A: Answers(1, 0)}, "no gateway runs there")


def test_the_wait_ends_when_other_routes_are_in_force() -> None:
    tried = count(says(a=(4, 0)), says(8, a=(5, 0)), trials=[Trial((A,), 9, 0, 60)])
    assert (tried.answers, tried.detail) == ({A: Answers(1, 0)}, "the gateway goes by generation 8 by now")


def test_a_gateway_that_does_not_count_is_unknown_and_waited_for_by_nobody() -> None:
    tried = count(says(a=None), trials=[Trial((A,), 9, 0, 60)])
    assert (tried.answers, tried.detail) == ({A: None}, f"the gateway does not count the answers of {A}")
    assert tried.waited_s < 15


def test_old_routes_without_the_canary_are_no_reason_to_give_up() -> None:
    tried = count(says(6, b=(0, 0)), says(6, b=(0, 0)), says(7, a=(0, 0)), says(7, a=(2, 0)))
    assert tried.answers == {A: Answers(2, 0)}


def test_no_trials_take_no_time() -> None:
    assert count(says(), trials=[]).answers == {}


def test_an_endpoint_that_only_finishes_its_requests_is_not_the_canary_that_took_its_place() -> None:
    canary = {"id": A, "good": 1, "bad": 0}
    before = {"id": A, "good": 900, "bad": 5, "leaving": True}
    body = json.dumps({"generation": 7, "endpoints": [canary, before]}).encode()
    assert understand(Response(200, body)).answers == {A: Answers(1, 0)}


COUNTS = st.tuples(st.integers(0, 9), st.integers(0, 9))


@given(st.lists(st.none() | COUNTS, min_size=1, max_size=9))
def test_what_came_is_never_less_than_what_a_process_has_counted_last(seen: list[tuple[int, int] | None]) -> None:
    counter = gateway_trials._Counter([Trial((A,), 1, 0, 1)], 7)
    restarted = False
    told = [one for one in seen if one is not None]
    for before, one in itertools.pairwise(told):
        restarted |= one[0] < before[0]
    for said in seen:
        counter.take(Reading(runs=True, generation=7, answers={} if said is None else {A: Answers(*said)}))
    came = counter.came[A]
    assert (came is None) == (not told)
    if came is not None and not restarted:
        assert came.good == told[-1][0] - told[0][0]
    if came is not None and restarted:
        assert came.good >= 0


@pytest.mark.parametrize("said", ["7", -1, 1.5, True, None, [1]])
def test_numbers_that_are_none_are_not_told(said: object) -> None:
    body = json.dumps({"generation": 7, "endpoints": [{"id": A, "good": said, "bad": 0}, {"id": 7}, "x"]}).encode()
    tried = gateway_trials.count(Gateway(Response(200, body)), URL, None, 7, [Trial((A,), 1, 0, 60)])
    assert tried.answers == {A: None}

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.gateway.endpoints.breaker import (
    FAILURES_IN_A_ROW,
    FIRST_PAUSE_S,
    FORGETS_AFTER_S,
    LEAST_OUTCOMES,
    LONGEST_PAUSE_S,
    NEUTRAL_AGAIN_S,
    TRIAL_AGAIN_S,
    WINDOW_S,
    Breaker,
    Cause,
    outliers,
    taken_out,
    verdict,
)


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _failure in range(FAILURES_IN_A_ROW):
        breaker.bad("connect_failed", now)
    assert breaker.cause is Cause.FAILURES
    return breaker


def on_trial(now: float = FIRST_PAUSE_S) -> Breaker:
    breaker = opened()
    assert breaker.tick(now)
    breaker.try_now(now)
    return breaker


def after(good: int, bad: int) -> Breaker:
    """Closed, after so many outcomes at 0.0."""
    breaker = Breaker()
    breaker._good, breaker._bad, breaker._window_ends = good, bad, WINDOW_S
    return breaker


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (200, True),
        (302, True),
        (400, True),
        (404, True),
        (499, True),
        (429, None),
        (503, None),
        (501, None),
        (500, False),
        (502, False),
        (504, False),
        (599, False),
    ],
)
def test_a_status_says_whether_its_engine_serves(status: int, says: bool | None) -> None:
    assert verdict(status) is says


def test_failures_in_a_row_open_it_and_a_good_answer_between_them_does_not_let_them() -> None:
    breaker = Breaker()
    for _round in range(10):
        for _failure in range(FAILURES_IN_A_ROW - 1):
            assert not breaker.bad("status_500", 0.0)
        breaker.good(0.0)
    assert breaker.cause is None
    assert [breaker.bad("status_500", 0.0) for _failure in range(FAILURES_IN_A_ROW)].index(
        True
    ) == FAILURES_IN_A_ROW - 1
    assert breaker.why == "5 requests in a row failed, the last one: status 500"


def test_outcomes_that_say_nothing_neither_open_nor_break_a_row() -> None:
    breaker = Breaker()
    for _failure in range(FAILURES_IN_A_ROW - 1):
        breaker.bad("cut", 0.0)
    for _other in range(100):
        assert not breaker.neutral(0.0)
    assert breaker.cause is None
    assert breaker.bad("cut", 0.0)


def test_a_trial_is_due_after_the_pause_and_is_one() -> None:
    breaker = opened()
    assert not breaker.tick(FIRST_PAUSE_S - 0.1)
    assert breaker.tick(FIRST_PAUSE_S)
    assert (breaker.due, breaker.trying) == (True, False)
    breaker.try_now(FIRST_PAUSE_S)
    assert (breaker.due, breaker.trying) == (False, True)
    assert not breaker.tick(FIRST_PAUSE_S + 1)


def test_a_good_trial_closes_it() -> None:
    breaker = on_trial()
    assert breaker.good(6.0)
    assert (breaker.cause, breaker.trying, breaker.due) == (None, False, False)


def test_a_bad_trial_doubles_the_pause_up_to_a_limit() -> None:
    breaker, now, pauses = opened(), 0.0, []
    for _trial in range(8):
        pauses.append(breaker.until - now)
        now = breaker.until
        breaker.tick(now)
        breaker.try_now(now)
        breaker.bad("cut", now)
    assert pauses == [5, 10, 20, 40, *[LONGEST_PAUSE_S] * 4]


def test_failures_of_requests_from_before_it_opened_do_not_lengthen_the_pause() -> None:
    breaker = opened()
    for _failure in range(100):
        assert not breaker.bad("cut", 1.0)
    assert breaker.until == FIRST_PAUSE_S


def test_a_good_answer_from_before_it_opened_closes_it() -> None:
    assert opened().good(1.0)


def test_a_trial_that_said_nothing_is_repeated_soon() -> None:
    breaker = on_trial(5.0)
    assert breaker.neutral(9.0)
    assert not breaker.tick(9.0)
    assert breaker.tick(9.0 + NEUTRAL_AGAIN_S)


def test_a_trial_that_nobody_reports_on_is_given_again() -> None:
    breaker = on_trial(5.0)
    assert not breaker.tick(5.0 + TRIAL_AGAIN_S - 0.1)
    assert breaker.tick(5.0 + TRIAL_AGAIN_S)


def test_a_hung_engine_is_tried_ever_less_often_while_no_trial_ends() -> None:
    breaker, now, pauses = Breaker(), 0.0, []
    breaker.open(Cause.HUNG, "hung", 0.0)
    for _trial in range(7):
        pauses.append(breaker.until - now)
        now = breaker.until
        assert breaker.tick(now)
        breaker.try_now(now)
    assert pauses == [30, 30, 60, 120, 240, 300, 300]


def test_a_breaker_that_opens_again_soon_waits_longer_and_one_that_held_does_not() -> None:
    breaker = on_trial(5.0)
    breaker.good(5.0)
    for _failure in range(FAILURES_IN_A_ROW):
        breaker.bad("cut", 6.0)
    assert breaker.until == 6.0 + 2 * FIRST_PAUSE_S
    breaker.good(7.0)
    late = 7.0 + FORGETS_AFTER_S
    for _failure in range(FAILURES_IN_A_ROW):
        breaker.bad("cut", late)
    assert breaker.until == late + FIRST_PAUSE_S


def test_an_endpoint_that_fails_more_than_its_peers_is_an_outlier() -> None:
    ill, well = after(15, 10), after(200, 5)
    assert outliers([ill, well], 0.0) == [(ill, "40% of its last 25 requests failed, of its peers' 2%")]


@pytest.mark.parametrize(
    ("ill", "well"),
    [
        ((15, 10), (15, 10)),
        ((15, 10), (150, 50)),
        ((LEAST_OUTCOMES - 6, 5), (200, 0)),
        ((15, 10), (LEAST_OUTCOMES - 1, 0)),
        ((90, 10), (100, 0)),
        ((100, 0), (100, 0)),
    ],
)
def test_what_fails_as_its_peers_do_or_seldom_or_was_hardly_asked_is_none(
    ill: tuple[int, int], well: tuple[int, int]
) -> None:
    assert outliers([after(*ill), after(*well)], 0.0) == []


def test_an_endpoint_alone_is_no_outlier() -> None:
    assert outliers([after(0, 100)], 0.0) == []


def test_old_answers_do_not_count() -> None:
    breakers = [after(15, 10), after(200, 5)]
    for breaker in breakers:
        breaker.counts(0.1)
    assert outliers(breakers, WINDOW_S + 0.2)
    assert outliers(breakers, 3 * WINDOW_S) == []
    breakers = [after(15, 10), after(200, 5)]
    assert outliers(breakers, 2 * WINDOW_S) == []


def test_a_good_answer_of_an_outlier_closes_it_only_as_its_trial() -> None:
    breaker = Breaker()
    breaker.open(Cause.SHARE, "40% failed", 0.0)
    assert not breaker.good(1.0)
    breaker.tick(FIRST_PAUSE_S)
    breaker.try_now(FIRST_PAUSE_S)
    assert breaker.good(FIRST_PAUSE_S)


def test_a_refusal_in_time_does_not_show_that_an_engine_computes_again() -> None:
    breaker = Breaker()
    breaker.open(Cause.HUNG, "hung", 0.0)
    breaker.tick(breaker.until)
    breaker.try_now(breaker.until)
    assert not breaker.good(breaker.until)


def test_at_most_half_are_out_and_the_first_that_opened_are() -> None:
    breakers = {name: opened(now) for name, now in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 4.0))}
    breakers["e"] = Breaker()
    assert taken_out(list(breakers.items())) == {"b", "c"}
    assert taken_out([("a", opened())]) == frozenset()


def test_one_that_hangs_is_out_even_if_it_is_the_only_one() -> None:
    breaker = Breaker()
    breaker.open(Cause.HUNG, "hung", 0.0)
    assert taken_out([("a", breaker)]) == {"a"}
    assert taken_out([("a", breaker), ("b", opened()), ("c", Breaker())]) == {"a", "b"}

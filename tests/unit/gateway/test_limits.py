# SPDX-License-Identifier: Apache-2.0
"""Requests and tokens a minute. Each property has a seeded defect that makes it fail, tried by the last test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.gateway.admit.limit_refusals import queue_full, queue_timeout, retry_after
from llmgw.gateway.admit.limits import FIRST_ANSWER_TOKENS, Bucket, KeyLimits, portion


@dataclass(frozen=True)
class Request:
    """Comes so many seconds after the one before, and took so many tokens when it is over."""

    after: float
    tokens: int
    used: int


SHARES = st.integers(1, 8)
LIMITS = st.integers(1, 50)
REQUESTS = st.lists(
    st.builds(
        Request, st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0, 7.0, 30.0, 90.0]), st.integers(0, 40), st.integers(0, 60)
    ),
    max_size=80,
)
Case = tuple[int, int, int, list[Request]]
CASES = st.tuples(LIMITS, LIMITS, SHARES, REQUESTS)


def let_in(case: Case, limits: KeyLimits) -> list[tuple[float, int]]:
    """When requests were let in, and with how many tokens; none of them is over."""
    now, entered = 0.0, []
    for request in case[3]:
        now += request.after
        if limits.admit(now, request.tokens) is None:
            entered.append((now, request.tokens))
    return entered


def in_no_window_more_than_the_limit_and_one_burst(case: Case) -> None:
    rpm, tpm, share, _requests = case
    entered = let_in(case, KeyLimits(rpm, tpm, share))
    burst, full = max(1, rpm / share), max(1, tpm / share)
    for begin in range(len(entered)):
        for end in range(begin, len(entered)):
            passed = entered[end][0] - entered[begin][0]
            window = entered[begin : end + 1]
            assert len(window) <= burst + rpm / share * passed / 60 + 1e-4
            assert sum(min(tokens, full) for _at, tokens in window) <= full + tpm / share * passed / 60 + 1e-4


def what_is_refused_uses_nothing(case: Case) -> None:
    rpm, tpm, share, requests = case
    limits, again = KeyLimits(rpm, tpm, share), KeyLimits(rpm, tpm, share)
    now = 0.0
    for request in requests:
        now += request.after
        refused = limits.admit(now, request.tokens)
        if refused is None:
            assert again.admit(now, request.tokens) is None
        else:
            assert refused.status == 429
    # The second never saw the refused ones, and yet has no more left.
    for tokens in range(40):
        assert (limits.admit(now, tokens) is None) == (again.admit(now, tokens) is None)


def who_comes_when_he_was_told_is_let_in(case: Case) -> None:
    rpm, tpm, share, requests = case
    limits = KeyLimits(rpm, tpm, share)
    now = 0.0
    for request in requests:
        now += request.after
        refused = limits.admit(now, request.tokens)
        if refused is None:
            continue
        assert refused.retry_after_s is not None
        assert 1 <= refused.retry_after_s <= 60
        if refused.retry_after_s < 60:
            now += refused.retry_after_s
            second = limits.admit(now, request.tokens)
            # There are two limits, and each tells of itself.
            assert second is None or second.code != refused.code


def what_was_reserved_and_not_used_is_there_again(case: Case) -> None:
    rpm, tpm, share, requests = case
    limits, plain = KeyLimits(None, tpm, share), Bucket(tpm, share)
    for request in requests:
        if limits.admit(0.0, request.tokens) is None:
            limits.settle(request.tokens, request.used)
            plain.give(-request.used)
    del rpm
    for amount in range(1, 40):
        assert (limits.admit(0.0, amount) is None) == (plain.lacks_s(amount, 0.0) == 0)
        limits.give_back(0)
        if plain.lacks_s(amount, 0.0) == 0:
            plain.take(amount)


def what_no_engine_saw_counts_for_nothing(case: Case) -> None:
    rpm, tpm, share, requests = case
    limits, fresh = KeyLimits(rpm, tpm, share), KeyLimits(rpm, tpm, share)
    reserved = [request.tokens for request in requests if limits.admit(0.0, request.tokens) is None]
    for tokens in reserved:
        limits.give_back(tokens)
    for request in requests:
        assert (limits.admit(0.0, request.tokens) is None) == (fresh.admit(0.0, request.tokens) is None)


PROPERTIES: list[Callable[[Case], None]] = [
    in_no_window_more_than_the_limit_and_one_burst,
    what_is_refused_uses_nothing,
    who_comes_when_he_was_told_is_let_in,
    what_was_reserved_and_not_used_is_there_again,
    what_no_engine_saw_counts_for_nothing,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_of_all_limits(holds: Callable[[Case], None]) -> None:
    @given(CASES)
    def run(case: Case) -> None:
        holds(case)

    run()


def test_a_key_without_limits_is_never_refused() -> None:
    limits = KeyLimits()
    assert all(limits.admit(0.0, 10**9) is None for _each in range(1000))
    assert not limits.counts_tokens


def test_a_minutes_worth_may_come_at_once_and_then_steadily() -> None:
    limits = KeyLimits(rpm=6)
    assert [limits.admit(0.0, 0) is None for _each in range(8)] == [True] * 6 + [False] * 2
    refused = limits.admit(0.0, 0)
    assert refused is not None
    assert (refused.code, refused.retry_after_s) == ("key_requests_per_minute", 10)
    assert limits.admit(9.9, 0) is not None
    assert limits.admit(10.0, 0) is None
    assert limits.admit(10.0, 0) is not None


def test_limits_are_divided_among_gateways_and_workers() -> None:
    parts = [KeyLimits(rpm=60, share=4) for _process in range(4)]
    entered = sum(part.admit(0.0, 0) is None for part in parts for _each in range(100))
    assert entered == 60
    refused = parts[0].admit(0.0, 0)
    assert refused is not None
    assert "60 requests a minute" in refused.message
    assert refused.retry_after_s == 4


@pytest.mark.parametrize("limit", ["rpm", "tpm"])
def test_a_refusal_says_that_the_limit_is_divided_only_where_it_is(limit: str) -> None:
    for share, divided in ((1, False), (2, True)):
        limits = KeyLimits(**{limit: 300}, share=share)
        while (refused := limits.admit(0.0, 10)) is None:
            pass
        assert "300" in refused.message
        assert ("divided evenly among the 2 processes of the gateways" in refused.message) is divided
        assert ("has made them" in refused.message) is (limit == "rpm" and not divided)


def test_a_part_that_is_less_than_one_request_still_lets_one_through() -> None:
    limits = KeyLimits(rpm=2, share=8)
    assert limits.admit(0.0, 0) is None
    assert limits.admit(239.0, 0) is not None
    assert limits.admit(240.0, 0) is None


def test_more_tokens_than_a_minute_has_are_let_in_alone_and_owed() -> None:
    limits = KeyLimits(tpm=600)
    assert limits.admit(0.0, 5000) is None
    limits.settle(5000, 1200)
    refused = limits.admit(0.0, 1)
    assert refused is not None
    assert (refused.code, refused.retry_after_s) == ("key_tokens_per_minute", 60)
    assert limits.admit(60.0, 1) is not None
    assert limits.admit(60.2, 1) is None


def test_nobody_fills_his_bucket_by_asking_for_less_than_nothing() -> None:
    limits = KeyLimits(tpm=100)
    assert limits.admit(0.0, -(10**9)) is None
    assert limits.admit(0.0, 100) is None
    assert limits.admit(0.0, 1) is not None


def test_a_request_that_one_limit_refuses_is_not_taken_from_the_other() -> None:
    limits = KeyLimits(rpm=2, tpm=100)
    assert limits.admit(0.0, 100) is None
    assert all(limits.admit(0.0, 50) is not None for _each in range(10))
    limits.settle(100, 0)
    assert limits.admit(0.0, 50) is None
    refused = limits.admit(0.0, 1)
    assert refused is not None
    assert refused.code == "key_requests_per_minute"


def test_what_is_used_stays_used_when_limits_change() -> None:
    limits = KeyLimits(rpm=10, tpm=1000)
    for _each in range(8):
        assert limits.admit(0.0, 100) is None
    limits.change(20, 2000, 1)
    assert sum(limits.admit(0.0, 0) is None for _each in range(100)) == 12
    limits.change(10, 2000, 1)
    refused = limits.admit(0.0, 0)
    assert refused is not None
    assert refused.retry_after_s == 6
    limits.change(None, 2000, 1)
    assert limits.admit(0.0, 1200) is None
    assert limits.admit(0.0, 1) is not None


def test_a_lower_limit_locks_no_key_out_for_longer_than_the_old_one_would_have() -> None:
    limits = KeyLimits(rpm=600)
    for _each in range(600):
        assert limits.admit(0.0, 0) is None
    limits.change(6, None, 1)
    assert limits.admit(9.9, 0) is not None
    assert limits.admit(10.0, 0) is None


def test_answers_are_reckoned_by_those_of_the_key() -> None:
    limits = KeyLimits(tpm=10**6)
    assert limits.reckoned(100, None) == 100 + FIRST_ANSWER_TOKENS
    assert limits.reckoned(100, 7) == 107
    assert limits.reckoned(100, 32_000) == 100 + FIRST_ANSWER_TOKENS
    assert limits.reckoned(100, -1) == 100 + FIRST_ANSWER_TOKENS
    assert limits.reckoned(100, 0) == 100
    for _each in range(100):
        limits.settle(0, 0, answer=1000)
    assert 1090 <= limits.reckoned(100, None) <= 1100


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, 5), (-3.0, 1), (0.0, 1), (1.0, 1), (1.01, 2), (59.2, 60), (61.0, 60), (inf, 60)]
)
def test_retry_after_is_whole_seconds_from_one_to_sixty(seconds: float | None, told: int) -> None:
    assert retry_after(seconds) == told


def test_refusals_of_a_line_say_what_happened_and_when_to_come_again() -> None:
    full, late = queue_full("chat", 3.2), queue_timeout("chat", 30.04, None)
    assert (full.status, full.code, full.retry_after_s) == (429, "queue_full", 4)
    assert (late.status, late.code, late.retry_after_s) == (429, "queue_timeout", 5)
    assert "waited 30 s" in late.message
    assert b'"type": "rate_limit_error"' in full.body()
    assert (b"retry-after", b"4") in full.headers(b"")


@pytest.mark.parametrize(("limit", "share", "part"), [(8, 1, 8), (8, 3, 3), (1, 16, 1), (9, 3, 3)])
def test_a_part_of_what_may_run_at_a_time_is_rounded_up(limit: int, share: int, part: int) -> None:
    assert portion(limit, share) == part


def _fills_too_fast(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("llmgw.gateway.admit.limits.MINUTE_S", 40.0)


def _takes_before_it_looks_at_all(patch: pytest.MonkeyPatch) -> None:
    lacks_s = Bucket.lacks_s

    def greedy(self: Bucket, amount: float, now: float) -> float:
        missing = lacks_s(self, amount, now)
        if not missing:
            self.take(0.5)
        return missing

    patch.setattr(Bucket, "lacks_s", greedy)


def _tells_half_the_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("llmgw.gateway.admit.limit_refusals.ceil", lambda seconds: max(1, int(seconds / 2)))


def _keeps_what_was_not_used(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyLimits, "settle", lambda _self, _reserved, _used: None)


def _gives_back_tokens_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyLimits, "give_back", lambda self, reserved: self.settle(reserved, 0))


DEFECTS = dict(
    zip(
        PROPERTIES,
        [
            _fills_too_fast,
            _takes_before_it_looks_at_all,
            _tells_half_the_time,
            _keeps_what_was_not_used,
            _gives_back_tokens_alone,
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(CASES)
    def defective(case: Case) -> None:
        holds(case)

    with pytest.raises(AssertionError):
        defective()


def test_one_count_that_cannot_be_right_bars_the_key_for_a_few_answers_at_most() -> None:
    limits = KeyLimits(tpm=10**9)
    limits.settle(0, 10**9, 10**9)
    assert limits.reckoned(0, None) <= 101_000
    for _answer in range(50):
        limits.settle(0, 100, 100)
    assert limits.reckoned(0, None) < 1_000

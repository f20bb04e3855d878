# SPDX-License-Identifier: Apache-2.0
"""Policies, limits and budgets as pure functions (G4, G5, G6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.admit.admission import ByteBudget, RetryBudget, busy
from llmgw.gateway.routing.choose import choose
from llmgw.gateway.routing.cost import Ask
from llmgw.gateway.wire.refusal import KEY_BUSY, SERVICE_BUSY
from tests.support.seen_endpoints import Seen, seen


@dataclass(eq=False)
class Limited:
    in_flight: int = 0
    max_concurrency: int | None = None


LOADS = st.lists(st.integers(0, 5), min_size=1, max_size=8)
TURNS = st.integers(0, 10_000)
ASK = Ask(100)


def with_loads(*loads: int) -> list[Seen]:
    return [seen(f"chat-{number}", in_flight=load) for number, load in enumerate(loads)]


@given(LOADS, TURNS, TURNS)
def test_the_least_loaded_is_chosen(loads: list[int], turn: int, seed: int) -> None:
    chosen = choose("least-inflight", with_loads(*loads), ASK, turn, seed, 0.0)
    assert chosen.in_flight == min(loads)


@given(st.integers(1, 8), st.integers(0, 5), TURNS)
def test_equals_are_chosen_in_turn(count: int, load: int, turn: int) -> None:
    ready = with_loads(*[load] * count)
    chosen = [choose("least-inflight", ready, ASK, turn + step, 0, 0.0) for step in range(count)]
    assert len({id(one) for one in chosen}) == count


def test_round_robin_goes_round() -> None:
    ready = with_loads(9, 0, 4)
    chosen = [choose("round-robin", ready, ASK, turn, 0, 0.0) for turn in range(6)]
    assert chosen == ready * 2


def test_random_is_even_and_decided_by_the_seed_alone() -> None:
    ready = with_loads(0, 0, 0, 0)
    counts = Counter(id(choose("random", ready, ASK, 0, seed, 0.0)) for seed in range(4000))
    assert min(counts.values()) > 850
    assert choose("random", ready, ASK, 1, 77, 0.0) is choose("random", ready, ASK, 2, 77, 0.0)


def test_an_unknown_policy_balances() -> None:
    assert choose("of the future", with_loads(1, 0), ASK, 0, 0, 0.0).in_flight == 0


def test_limits_are_asked_before_anything_is_counted() -> None:
    assert busy(Limited(3), None) is None
    assert busy(Limited(3, 4), Limited(0, None)) is None
    assert busy(Limited(4, 4), None) is SERVICE_BUSY
    assert busy(Limited(0, 4), Limited(2, 2)) is KEY_BUSY
    assert busy(Limited(0, 0), None) is SERVICE_BUSY


@given(st.lists(st.integers(0, 60), max_size=20))
def test_the_byte_budget_never_holds_more_than_its_total(sizes: list[int]) -> None:
    budget = ByteBudget(100)
    held = []
    for size in sizes:
        if budget.take(size):
            held.append(size)
        assert budget.used == sum(held) <= 100
    for size in held:
        budget.give(size)
    assert budget.used == 0


@given(st.lists(st.booleans(), max_size=300))
def test_retries_stay_below_a_tenth_of_the_requests_and_a_burst(wishes: list[bool]) -> None:
    budget = RetryBudget()
    retries = 0
    for number, failed in enumerate(wishes, start=1):
        budget.earn()
        retries += failed and budget.spend()
        assert retries <= 10 + number * 0.1 + 1e-9
    if len(wishes) > 10 and all(wishes):
        assert retries >= 10

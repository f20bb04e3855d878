# SPDX-License-Identifier: Apache-2.0
"""The account of an endpoint, and what a request costs by it (G4)."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.routing.capacity import PROMPT_TOKENS
from llmgw.gateway.routing.cost import FAILED_S, LOAD_FRESH_S, Ask, EndpointCosts
from llmgw.gateway.routing.prefix import BLOCK_TOKENS
from tests.support.seen_endpoints import spec

IDLE = EngineLoad(0.0, 0, 0, 0.0)
STREAM = Ask(2000, streams=True)


def account(device_class: str | None = "h100-80g", **more: Any) -> EndpointCosts:
    costs = EndpointCosts(spec(device_class=device_class, **more))
    costs.load = IDLE
    return costs


def test_at_an_idle_endpoint_a_request_costs_the_reading_of_its_prompt() -> None:
    costs = account()
    assert costs.seconds(STREAM, 1.0) == pytest.approx(2000 / costs.capacity.prefill_tps)


def test_prompts_without_a_first_byte_are_waited_for() -> None:
    costs = account()
    alone = costs.seconds(STREAM, 1.0)
    charge = costs.charge(Ask(8000, streams=True), 1.0)
    assert costs.seconds(STREAM, 1.0) == pytest.approx(5 * alone)
    assert costs.tokens_ahead == 8000
    costs.done(charge, 1.0)
    assert costs.seconds(STREAM, 1.0) == pytest.approx(alone)


def test_after_its_first_byte_a_request_counts_as_running() -> None:
    costs = account()
    charge = costs.charge(STREAM, 1.0)
    costs.first_byte(charge, 1.0 + 2000 / costs.capacity.prefill_tps)
    terms = costs.terms(STREAM, 2.0)
    assert terms.queue_s == 0.0
    assert terms.decode_s == pytest.approx(costs.capacity.decode_s)
    costs.done(charge, 3.0)
    assert costs.terms(STREAM, 3.0).decode_s == 0.0


def test_what_is_cached_is_not_read_again() -> None:
    costs = account()
    chain = tuple(range(20))
    costs.done(costs.charge(Ask(20 * BLOCK_TOKENS, chain), 1.0), 1.0)
    longer = Ask(30 * BLOCK_TOKENS, (*chain, *range(100, 110)))
    terms = costs.terms(longer, 1.0)
    assert terms.cached_tokens == 20 * BLOCK_TOKENS
    assert terms.prefill_s == pytest.approx(10 * BLOCK_TOKENS / costs.capacity.prefill_tps)
    assert costs.charge(longer, 1.0).tokens == 10 * BLOCK_TOKENS


def test_a_restart_empties_the_cache_and_keeps_what_is_in_flight() -> None:
    costs = account()
    ask = Ask(640, tuple(range(10)), session=b"s")
    charge = costs.charge(ask, 1.0)
    costs.restarted()
    assert len(costs.prefix) == 0
    assert not costs.holds(hash(b"s"))
    assert costs.load is None
    assert (costs.in_flight, costs.tokens_ahead) == (1, 640)
    costs.done(charge, 2.0)
    assert (costs.in_flight, costs.tokens_ahead) == (0, 0)


def test_an_answer_that_comes_whole_holds_its_prompt_until_that_should_have_been_read() -> None:
    costs = account()
    charge = costs.charge(Ask(10_000), 1.0)
    read_at = 1.0 + 10_000 / costs.capacity.prefill_tps
    assert costs.terms(STREAM, read_at - 0.01).queue_s > 0.5
    later = costs.terms(STREAM, read_at + 0.01)
    assert later.queue_s == 0.0
    assert later.decode_s == pytest.approx(costs.capacity.decode_s)
    costs.first_byte(charge, 9.0)
    costs.done(charge, 9.0)
    assert costs.in_flight == 0


def test_an_answer_that_comes_whole_teaches_no_speed() -> None:
    costs = account()
    before = (costs.capacity.prefill_tps, costs.capacity.step_s)
    for number in range(20):
        charge = costs.charge(Ask(4000), number * 100.0)
        costs.first_byte(charge, number * 100.0 + 60.0)
        costs.done(charge, number * 100.0 + 60.0, 4000)
    assert (costs.capacity.prefill_tps, costs.capacity.step_s) == before


def test_whole_answers_that_are_over_are_not_remembered() -> None:
    costs = account()
    for number in range(1000):
        costs.done(costs.charge(Ask(100), number * 0.001), number * 0.001 + 0.0005)
    assert len(costs._unseen) <= 1


def test_speed_is_learned_from_all_that_was_read_meanwhile() -> None:
    costs = account()
    for round_ in range(100):
        start = round_ * 100.0
        charges = [costs.charge(Ask(4000, streams=True), start) for _request in range(8)]
        for number, charge in enumerate(charges, start=1):
            costs.first_byte(charge, start + number * 2.0)
        for charge in charges:
            costs.done(charge, start + 50.0)
    assert costs.capacity.prefill_tps == pytest.approx(2000, rel=0.02)


def test_what_other_workers_sent_there_counts_as_ones_own() -> None:
    costs = account()
    alone = costs.terms(STREAM, 1.0)
    costs.elsewhere_requests, costs.elsewhere_tokens = 3, 6000
    shared = costs.terms(STREAM, 1.0)
    assert shared.queue_s == pytest.approx(3 * alone.prefill_s)
    assert shared.decode_s == pytest.approx(3 * costs.capacity.decode_s)


def test_requests_of_others_wait_before_ours_and_run_beside_them() -> None:
    costs = account()
    costs.load = EngineLoad(1.0, running=4, waiting=2, kv_usage=0.0)
    terms = costs.terms(STREAM, 1.0)
    assert terms.queue_s == pytest.approx(2 * PROMPT_TOKENS / costs.capacity.prefill_tps)
    assert terms.decode_s == pytest.approx(4 * costs.capacity.decode_s)
    assert terms.reported


def test_a_report_that_is_too_old_says_nothing() -> None:
    costs = account()
    fresh = costs.seconds(STREAM, LOAD_FRESH_S - 0.1)
    stale = costs.seconds(STREAM, LOAD_FRESH_S + 0.1)
    costs.load = None
    assert fresh < stale == costs.seconds(STREAM, LOAD_FRESH_S + 0.1)
    assert not costs.terms(STREAM, LOAD_FRESH_S + 0.1).reported


def test_a_failure_costs_seconds_at_once_and_is_forgiven() -> None:
    costs = account()
    costs.load = None
    before = costs.seconds(STREAM, 1.0)
    costs.failed(1.0)
    assert costs.seconds(STREAM, 1.0) == pytest.approx(before + FAILED_S)
    costs.failed(1.0)
    assert costs.seconds(STREAM, 1.0) == pytest.approx(before + 2 * FAILED_S)
    assert costs.seconds(STREAM, 1.0 + FAILED_S) == pytest.approx(before + FAILED_S)
    assert costs.seconds(STREAM, 1.0 + 20 * FAILED_S) == before


def test_many_failures_do_not_add_up_without_end() -> None:
    costs = account()
    for _request in range(1000):
        costs.failed(1.0)
    assert costs.terms(STREAM, 1.0).risk_s <= 30.0


def test_risk_is_added_as_it_is() -> None:
    assert account(risk_s=2.5).seconds(STREAM, 1.0) == pytest.approx(2.5 + account().seconds(STREAM, 1.0))
    costs = account()
    costs.risk_s = None
    assert costs.risk_s == 0.0


def test_half_the_weight_is_twice_the_cost() -> None:
    assert account(weight=0.5).seconds(STREAM, 1.0) == pytest.approx(2 * account().seconds(STREAM, 1.0))
    assert account(weight=0.0).seconds(STREAM, 1.0) < float("inf")


def test_a_bounded_answer_is_delayed_by_less() -> None:
    costs = account()
    costs.load = EngineLoad(1.0, running=10, waiting=0, kv_usage=0.0)
    whole, short, none = (costs.terms(Ask(2000, max_tokens=bound), 1.0).decode_s for bound in (None, 128, 0))
    assert costs.capacity.output_tokens == 2 * 128
    assert short == pytest.approx(whole / 2)
    assert none == 0.0
    assert costs.terms(Ask(2000, max_tokens=100_000), 1.0).decode_s == whole
    assert costs.terms(Ask(2000, max_tokens=-5), 1.0).decode_s == 0.0


def test_new_hardware_behind_an_address_has_its_own_prior() -> None:
    costs = account("t4-16g")
    slow = costs.capacity.prefill_tps
    costs.update(spec(device_class="t4-16g", weight=0.5))
    assert costs.capacity.prefill_tps == slow
    costs.update(spec(device_class="h100-80g"))
    assert costs.capacity.prefill_tps > slow
    assert costs.weight == 1.0


def test_the_rank_of_an_endpoint_is_the_same_in_every_process() -> None:
    assert EndpointCosts(spec("chat-0")).rank == 12911144890222180609
    assert EndpointCosts(spec("chat-0")).rank != EndpointCosts(spec("chat-1")).rank


def test_an_engine_that_stood_still_once_with_many_requests_was_slow_once() -> None:
    one, many = account(), account()
    for costs, requests in ((one, 1), (many, 32)):
        charges = [costs.charge(STREAM, 1.0) for _number in range(requests)]
        for charge in charges:
            costs.first_byte(charge, 61.0)
    assert many.capacity.prefill_tps == pytest.approx(one.capacity.prefill_tps)
    # It is asked again soon, and found to be what it was.
    before = many.capacity.prefill_tps
    many.first_byte(many.charge(STREAM, 70.0), 70.1)
    assert many.capacity.prefill_tps > before

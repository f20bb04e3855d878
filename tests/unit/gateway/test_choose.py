# SPDX-License-Identifier: Apache-2.0
"""Which endpoint a request goes to (G4)."""

from __future__ import annotations

from collections import Counter

import pytest

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.routing.choose import POLICIES, READS_PROMPT, choose, explain
from llmgw.gateway.routing.cost import Ask
from llmgw.gateway.routing.prefix import BLOCK_TOKENS, home
from tests.support.seen_endpoints import Seen, fleet, seen

ASK = Ask(2000, streams=True)
LONG = Ask(320 * BLOCK_TOKENS, tuple(range(320)), streams=True)


def counts(policy: str, ready: list[Seen], ask: Ask, turns: int = 1000) -> list[int]:
    """How often each of them is chosen, while nothing is sent."""
    chosen = Counter(choose(policy, ready, ask, turn, turn, 1.0).spec.id for turn in range(turns))
    return [chosen[endpoint.spec.id] for endpoint in ready]


def report(endpoint: Seen, running: int = 0, waiting: int = 0, kv_usage: float | None = 0.0) -> None:
    endpoint.costs.load = EngineLoad(1.0, running, waiting, kv_usage)


@pytest.mark.parametrize("policy", [*POLICIES, "of the future"])
def test_the_only_one_is_chosen_whatever_it_costs(policy: str) -> None:
    (only,) = fleet(1)
    only.costs.risk_s = 1e9
    assert choose(policy, [only], ASK, 5, 7, 1.0) is only


def test_an_unknown_policy_is_the_default_one() -> None:
    ready = fleet(2)
    ready[0].costs.risk_s = 5.0
    assert counts("of the future", ready, ASK) == counts("cost", ready, ASK) == [0, 1000]


def test_the_same_cost_everywhere_is_spread_evenly() -> None:
    assert min(counts("cost", fleet(4), ASK, 4000)) > 850


def test_of_those_that_cost_nearly_the_same_the_one_with_fewer_in_flight_is_likelier() -> None:
    ready = fleet(3)
    ready[0].in_flight = 5
    chosen = counts("cost", ready, ASK)
    assert chosen[0] == 0
    assert min(chosen[1:]) > 400


def test_requests_that_others_have_there_count_too() -> None:
    ready = fleet(2)
    ready[0].costs.elsewhere_requests = 1
    assert counts("cost", ready, ASK) == [0, 1000]
    assert counts("least-inflight", ready, ASK) == [0, 1000]


def test_faster_hardware_is_chosen_until_its_queue_is_longer() -> None:
    fast, slow = ready = [seen("a", "h100-80g"), seen("b", "l4-23g")]
    ask = Ask(8000, streams=True)
    assert counts("cost", ready, ask, 10) == [10, 0]
    sent = 0
    while choose("cost", ready, ask, sent, sent, 1.0) is fast:
        fast.give(ask, 1.0)
        sent += 1
    ratio = fast.costs.capacity.prefill_tps / slow.costs.capacity.prefill_tps
    assert ratio - 2 <= sent <= ratio


def test_a_cached_prompt_is_worth_its_seconds_and_no_more() -> None:
    first, other = ready = fleet(2)
    first.end(first.give(LONG, 1.0), 1.0)
    assert counts("cost", ready, LONG, 10) == [10, 0]
    worth = LONG.tokens / first.costs.capacity.prefill_tps
    first.costs.risk_s = 0.8 * worth
    assert choose("cost", ready, LONG, 1, 1, 1.0) is first
    first.costs.risk_s = 1.2 * worth + 0.1
    assert choose("cost", ready, LONG, 1, 1, 1.0) is other


# case 42
def test_one_prefix_that_all_requests_share_does_not_send_everything_to_one() -> None:
    ready = fleet(4)
    for turn in range(400):
        choose("cost", ready, LONG, turn, turn, 1.0).give(LONG, 1.0)
    assert min(endpoint.in_flight for endpoint in ready) > 50


# case 33
def test_a_cached_prompt_does_not_lead_back_to_an_endpoint_that_has_just_failed() -> None:
    first, other = ready = fleet(2)
    first.end(first.give(LONG, 1.0), 1.0)
    first.costs.failed(1.0)
    assert choose("cost", ready, LONG, 1, 1, 1.0) is other
    assert choose("cost", ready, LONG, 1, 1, 60.0) is first


def test_a_new_prompt_goes_to_one_of_the_same_two_at_every_gateway() -> None:
    first, second = fleet(8), fleet(8)
    for number in range(50):
        place = home(7, (b"%d" % number,))
        mine, its = Ask(6400, (number + 1,), home=place), Ask(6400, (-number,), home=place)
        here = choose("cost", first, mine, number, number, 1.0)
        there = choose("cost", second, its, 0, 99 - number, 1.0)
        assert here.spec.id == there.spec.id


# case 34
def test_the_prompts_of_an_endpoint_that_has_gone_are_spread_over_all_others() -> None:
    ready = fleet(5)
    asks = [Ask(6400, (number,), home=home(7, (b"%d" % number,))) for number in range(500)]
    before = [choose("cost", ready, ask, 0, 0, 1.0) for ask in asks]
    gone = ready[2]
    left = [endpoint for endpoint in ready if endpoint is not gone]
    after = [choose("cost", left, ask, 0, 0, 1.0) for ask in asks]
    moved = Counter(new.spec.id for old, new in zip(before, after, strict=True) if old is gone)
    assert all(old is new for old, new in zip(before, after, strict=True) if old is not gone)
    assert len(moved) == 4
    assert min(moved.values()) > sum(moved.values()) / 8


def test_an_engine_that_reports_to_be_idle_is_preferred_to_one_that_says_nothing() -> None:
    silent, idle = ready = fleet(2)
    report(idle)
    assert counts("cost", ready, ASK) == [0, 1000]
    report(idle, running=50, waiting=40, kv_usage=0.95)
    assert counts("cost", ready, ASK) == [1000, 0]
    assert silent.costs.load is None


# case 41
def test_no_engine_is_out_because_all_reports_are_old() -> None:
    ready = fleet(3)
    for endpoint in ready:
        report(endpoint, running=200, waiting=100, kv_usage=1.0)
    chosen = Counter(choose("cost", ready, ASK, turn, turn, 100.0).spec.id for turn in range(300))
    assert len(chosen) == 3


# case 41
def test_between_two_reports_the_same_idle_engine_does_not_get_everything() -> None:
    ready = fleet(4)
    for endpoint in ready:
        report(endpoint, waiting=0 if endpoint is ready[0] else 1)
    for turn in range(100):
        choose("cost", ready, ASK, turn, turn, 1.0).give(ASK, 1.0)
    assert max(endpoint.in_flight for endpoint in ready) < 40


def test_a_session_stays_where_it_was() -> None:
    ready = fleet(8)
    ask = Ask(400, session=b"alice", streams=True)
    first = choose("session", ready, ask, 0, 0, 1.0)
    first.give(ask, 1.0)
    assert {id(choose("session", ready, ask, turn, turn, 1.0)) for turn in range(50)} == {id(first)}
    assert len({id(choose("session", ready, Ask(400, session=b"%d" % n), 0, 0, 1.0)) for n in range(100)}) == 8


def test_a_session_that_nobody_knows_has_the_same_home_at_every_gateway() -> None:
    for number in range(30):
        ask = Ask(400, session=b"%d" % number)
        first, second = choose("session", fleet(8), ask, 0, 3, 1.0), choose("session", fleet(8), ask, 9, 8, 1.0)
        assert first.spec.id == second.spec.id


def test_a_session_leaves_an_endpoint_that_is_much_busier() -> None:
    ready = fleet(2)
    ask = Ask(400, session=b"alice", streams=True)
    first = choose("session", ready, ask, 0, 0, 1.0)
    first.give(ask, 1.0)
    first.costs.risk_s = 3.0
    assert choose("session", ready, ask, 1, 1, 1.0) is not first


def test_without_a_session_the_policy_of_that_name_is_by_cost() -> None:
    ready = fleet(3)
    ready[1].costs.risk_s = 1.0
    assert counts("session", ready, ASK) == counts("cost", ready, ASK)


def test_a_session_says_nothing_where_the_policy_is_another() -> None:
    ready = fleet(4)
    ask = Ask(400, session=b"alice", streams=True)
    ready[0].end(ready[0].give(ask, 1.0), 1.0)
    assert min(counts("cost", ready, ask)) > 150


def test_a_lower_weight_gets_less() -> None:
    ready = [seen("a", weight=1.0), seen("b", weight=0.1)]
    shares = counts("random", ready, ASK, 4000)
    assert 0.05 < shares[1] / sum(shares) < 0.15
    for turn in range(220):
        choose("least-inflight", ready, ASK, turn, turn, 1.0).in_flight += 1
    assert ready[1].in_flight == pytest.approx(20, abs=1)


def test_an_explanation_has_every_endpoint_the_cheapest_first() -> None:
    ready = fleet(4)
    ready[2].costs.risk_s = 2.0
    ready[0].end(ready[0].give(LONG, 1.0), 1.0)
    terms = explain("cost", ready, LONG, 1.0)
    assert [one.endpoint for one in terms] == ["chat-0", "chat-1", "chat-3", "chat-2"]
    assert terms[0].cached_tokens == LONG.tokens
    assert terms[3].risk_s == 2.0


def test_an_explanation_tells_whose_session_it_is() -> None:
    ready = fleet(3)
    ask = Ask(400, session=b"alice")
    ready[1].end(ready[1].give(ask, 1.0), 1.0)
    assert [one.session for one in explain("session", ready, ask, 1.0)] == [True, False, False]
    assert not any(one.session for one in explain("cost", ready, ask, 1.0))


def test_only_policies_by_cost_need_the_prompt() -> None:
    assert set(POLICIES) - READS_PROMPT == {"least-inflight", "round-robin", "random"}


def test_workers_that_know_the_same_beginning_send_a_new_conversation_to_the_same_two() -> None:
    first, second = fleet(8), fleet(8)
    system = tuple(range(4))
    for endpoint in (*first, *second):
        endpoint.costs.prefix.touch(system)
    homes = set()
    for number in range(40):
        ask = Ask(6400, (*system, 1000 + number))
        here, there = choose("cost", first, ask, 0, number, 1.0), choose("cost", second, ask, 9, 77 - number, 1.0)
        assert here.spec.id == there.spec.id
        homes.add(here.spec.id)
    assert len(homes) == 8


def test_among_many_the_one_that_has_the_prompt_is_found() -> None:
    ready = fleet(200)
    holder = ready[137]
    holder.end(holder.give(LONG, 0.5), 0.6)
    assert {choose("cost", ready, LONG, turn, turn, 1.0) for turn in range(50)} == {holder}


def test_among_many_each_gets_its_share_and_what_costs_more_gets_none() -> None:
    ready = fleet(200)
    for slow in ready[:100]:
        slow.costs.risk_s = 5.0
    chosen = counts("cost", ready, ASK, 20_000)
    assert max(chosen[:100]) == 0
    assert min(chosen[100:]) > 100

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

from tests.fleet.faults.injection import Target
from tests.fleet.faults.judging import Facts, Fallen, judge
from tests.fleet.faults.load import Request
from tests.fleet.faults.sampling import Endpoint, Sample
from tests.fleet.faults.steps import Shape

TARGET = Target("n2", "chat.0.0", "n3", "chat.1.0")
READY, AWAY = Endpoint("ready", 2, leaving=False), Endpoint("draining", 1, leaving=False)


def sample(at: float, *endpoints: Endpoint) -> Sample:
    return Sample(at, 1, {f"chat/{number}@n{number + 2}": one for number, one in enumerate(endpoints)})


def facts(*samples: Sample, failed: int = 0, taken: dict[str, int] | None = None) -> Facts:
    requests = tuple(Request("chat", stream=True, began=1.0, ended=2.0, tokens=0, failure="cut") for _ in range(failed))
    fallen = Fallen(TARGET, 10.0, taken or {})
    return Facts(Shape(3), Shape(3, 1), fallen, 0.0, 20.0, samples, requests, takes_away=True)


def test_one_replica_less_than_wanted_is_what_a_rollout_may_take() -> None:
    assert judge(facts(sample(1, READY, READY, AWAY), sample(11, READY, READY, AWAY))) == []


def test_two_replicas_less_are_told_with_the_moment_and_the_states() -> None:
    (found,) = judge(facts(sample(1, READY, READY, READY), sample(11, READY, AWAY, AWAY)))
    assert found.startswith("after the fault only 1 available, not 2, in 1 samples, the worst +1.0 s from the fault")
    assert "'chat/2@n4': 'draining'" in found


def test_a_step_that_takes_nothing_away_may_not_lower_what_is_available() -> None:
    (found,) = judge(replace(facts(sample(1, READY, READY, AWAY)), takes_away=False))
    assert found.startswith("before the fault only 2 available, not 3")


def test_what_the_fault_took_may_be_away_beside_what_is_in_work() -> None:
    low = sample(11, READY, AWAY, AWAY)
    assert judge(facts(low, taken={"chat/1@n3": 2})) == []
    assert judge(facts(low, taken={"chat/0@n2": 2})) != []


def test_no_request_may_fail_but_those_in_flight_where_the_fault_struck() -> None:
    fine = sample(1, READY, READY, READY)
    assert judge(facts(fine, failed=2, taken={"chat/1@n3": 2})) == []
    (found,) = judge(facts(fine, failed=3, taken={"chat/1@n3": 2}))
    assert found.startswith("3 requests failed, not at most 2: -9.0 to -8.0 s, stream, 0 tokens: cut")
    assert judge(facts(fine, failed=1)) != []


def test_the_next_drain_may_meet_a_replica_whose_loss_nobody_had_seen_yet() -> None:
    gone = Endpoint("failed", 1, leaving=False)
    unseen = (sample(10, READY, READY, READY), sample(11, READY, AWAY, READY), sample(12, gone, AWAY, READY))
    assert judge(facts(*unseen, taken={"chat/0@n2": 2})) == []
    seen = (sample(10, READY, READY, READY), sample(11, gone, READY, READY), sample(12, gone, AWAY, READY))
    assert judge(facts(*seen, taken={"chat/0@n2": 2})) != []


def test_requests_that_a_silent_engine_was_given_until_that_was_seen_may_fail() -> None:
    busy, gone = Endpoint("ready", 4, leaving=False), Endpoint("failed", 0, leaving=False)
    fine = (sample(10, READY, READY, READY), sample(12, READY, busy, READY), sample(13, READY, gone, READY))
    assert judge(facts(*fine, failed=4, taken={"chat/1@n3": 2})) == []
    assert judge(facts(*fine, failed=5, taken={"chat/1@n3": 2})) != []
    late = (sample(10, READY, READY, READY), sample(12, READY, busy, READY), sample(31, READY, gone, READY))
    assert judge(facts(*late, failed=8, taken={"chat/1@n3": 2})) == []

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from llmgw.gateway.endpoints.breaker import FAILURES_IN_A_ROW, Breaker, Cause
from llmgw.gateway.endpoints.ejection import detail, rotation, sweep
from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.progress import SILENT_S, Progress


@dataclass(eq=False)
class Endpoint:
    name: str = "a"
    up: bool = True
    breaker: Breaker = field(default_factory=Breaker)
    silence: Progress = field(default_factory=Progress)
    content_at: float = 0.0
    ended: int = 0
    in_flight: int = 0
    paused: int = 0
    load: EngineLoad | None = field(default_factory=lambda: EngineLoad(1.0, running=1.0, work=1.0))


def passes(endpoint: Endpoint, seconds: float, now: float = 100.0) -> float:
    """The time after so many seconds of sweeps."""
    for _sweep in range(int(seconds)):
        now += 1.0
        sweep([endpoint], now)
    return now


def hung() -> tuple[Endpoint, float]:
    endpoint = Endpoint(in_flight=1)
    now = passes(endpoint, SILENT_S + 2)
    assert endpoint.breaker.cause is Cause.HUNG
    return endpoint, now


def test_a_hung_endpoint_is_out_and_says_since_when() -> None:
    endpoint, now = hung()
    assert rotation([endpoint]) == ((), (), (endpoint,))
    assert "hung: 1 request waits" in detail(endpoint.breaker, out=True, now=now)


def test_requests_whose_clients_do_not_read_wait_for_no_engine() -> None:
    endpoint = Endpoint(in_flight=3, paused=3)
    passes(endpoint, 3 * SILENT_S)
    assert endpoint.breaker.cause is None
    endpoint.in_flight = 4
    passes(endpoint, SILENT_S + 2, 1000.0)
    assert endpoint.breaker.cause is Cause.HUNG


def test_an_endpoint_that_probes_do_not_find_ready_is_not_called_hung() -> None:
    endpoint = Endpoint(in_flight=1, up=False)
    passes(endpoint, 3 * SILENT_S)
    assert endpoint.breaker.cause is None


def test_a_hung_endpoint_is_back_when_its_numbers_move_and_not_by_a_request_that_leaves() -> None:
    endpoint, now = hung()
    endpoint.in_flight = 0
    now = passes(endpoint, 5, now)
    endpoint.in_flight = 1
    now = passes(endpoint, 5, now)
    assert endpoint.breaker.cause is Cause.HUNG
    endpoint.load = EngineLoad(now, running=1.0, work=2.0)
    passes(endpoint, 1, now)
    assert endpoint.breaker.cause is None


def test_a_trial_that_is_due_is_ready_and_first() -> None:
    ill, well = Endpoint("a"), Endpoint("b")
    for _failure in range(FAILURES_IN_A_ROW):
        ill.breaker.bad("cut", 0.0)
    assert rotation([ill, well]) == ((well,), (), (ill,))
    assert sweep([ill, well], 5.0)
    assert rotation([ill, well]) == ((ill, well), (ill,), (ill,))
    ill.breaker.try_now(5.0)
    assert rotation([ill, well]) == ((well,), (), (ill,))


def test_an_outlier_is_found_among_those_that_probes_find_ready() -> None:
    ill, well, down = Endpoint("a"), Endpoint("b"), Endpoint("c", up=False)
    for number in range(30):
        for one in (ill, down):
            (one.breaker.good if number % 2 else lambda now, one=one: one.breaker.bad("cut", now))(0.0)
        well.breaker.good(0.0)
    assert sweep([ill, well, down], 1.0)
    assert [one.breaker.cause for one in (ill, well, down)] == [Cause.SHARE, None, None]


@pytest.mark.parametrize(
    ("due", "trying", "out", "says"),
    [
        (False, False, True, "one request tries it in 4 s"),
        (True, False, True, "the next request tries it"),
        (False, True, True, "one request tries it now"),
        (False, False, False, "it stays in rotation"),
    ],
)
def test_a_reader_is_told_what_comes_next(due: bool, trying: bool, out: bool, says: str) -> None:
    breaker = Breaker()
    for _failure in range(FAILURES_IN_A_ROW):
        breaker.bad("cut", 0.0)
    breaker.due, breaker.trying = due, trying
    assert says in detail(breaker, out, 1.0)

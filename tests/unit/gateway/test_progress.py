# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.progress import LONGEST_S, SILENT_BLIND_S, SILENT_S, Progress, hung_detail

SWEEP_S = 0.25
STILL = EngineLoad(1.0, running=2.0, waiting=0.0, kv_usage=0.5, work=7.0)


class Endpoint:
    """An endpoint whose silence is swept as a gateway does."""

    def __init__(self, load: EngineLoad | None = STILL) -> None:
        self.progress = Progress()
        self.now = 1000.0
        self.waiting = 0
        self.ended = 0
        self.content_at = 0.0
        self.load = load
        self.progress.sweep(0, 0, 0.0, load, self.now)

    def passes(self, seconds: float, each: Callable[[], None] = lambda: None) -> float | None:
        """The first verdict within so many seconds."""
        for _sweep in range(int(seconds / SWEEP_S)):
            self.now += SWEEP_S
            each()
            silent = self.progress.sweep(self.waiting, self.ended, self.content_at, self.load, self.now)
            if silent is not None:
                return silent
        return None


def test_requests_and_no_content_for_long_are_a_hang() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 1
    assert endpoint.passes(SILENT_S - 1) is None
    assert endpoint.passes(2) == pytest.approx(SILENT_S, abs=2 * SWEEP_S)


def test_an_engine_that_reports_nothing_is_given_longer() -> None:
    endpoint = Endpoint(load=None)
    endpoint.waiting = 1
    assert endpoint.passes(SILENT_BLIND_S - 1) is None
    assert endpoint.passes(2) is not None


def test_an_engine_that_reports_no_more_is_given_as_long_as_one_that_never_did() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 1
    assert endpoint.passes(SILENT_S / 2) is None
    endpoint.load = None
    assert endpoint.passes(SILENT_BLIND_S - SILENT_S / 2 - 1) is None
    assert endpoint.passes(2) is not None


def test_without_requests_there_is_no_silence() -> None:
    endpoint = Endpoint()
    assert endpoint.passes(10 * SILENT_S) is None
    endpoint.waiting = 1
    assert endpoint.passes(SILENT_S - 1) is None


def test_content_of_any_request_ends_a_silence() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 5
    for _again in range(4):
        assert endpoint.passes(SILENT_S - 1) is None
        endpoint.content_at = endpoint.now


def test_an_engine_whose_numbers_move_works_without_a_byte() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 1
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps % 100 == 0:
            endpoint.load = EngineLoad(endpoint.now, running=2.0, waiting=0.0, kv_usage=0.5, work=float(steps))

    assert endpoint.passes(10 * SILENT_S, step) is None


def test_a_queue_that_grows_is_no_work() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 1

    def more() -> None:
        endpoint.load = EngineLoad(endpoint.now, running=2.0, waiting=endpoint.now, kv_usage=0.5, work=7.0)

    assert endpoint.passes(SILENT_S + 1, more) is not None


def test_an_engine_that_was_silent_for_long_and_spoke_is_given_more() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 1
    endpoint.passes(50)
    endpoint.content_at = endpoint.now
    assert endpoint.passes(149) is None
    assert endpoint.passes(3) is not None


def test_what_it_is_given_has_an_end() -> None:
    endpoint = Endpoint(load=None)
    endpoint.waiting = 1
    endpoint.passes(290)
    endpoint.content_at = endpoint.now
    assert endpoint.passes(LONGEST_S + 1) is not None


def test_a_restarted_engine_is_judged_anew() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 1
    endpoint.passes(SILENT_S - 1)
    endpoint.progress.restarted()
    assert endpoint.passes(SILENT_S - 1) is None


def test_bad_requests_that_are_refused_at_once_are_no_hang_though_no_content_comes() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 4

    def refused() -> None:
        endpoint.ended += 10

    assert endpoint.passes(10 * SILENT_S, refused) is None


def test_a_hang_is_found_behind_clients_that_give_up_and_among_some_refusals() -> None:
    endpoint = Endpoint()
    endpoint.waiting = 20
    sweeps = 0

    def leave() -> None:
        nonlocal sweeps
        sweeps += 1
        endpoint.ended += sweeps % 6 == 0  # of 20 one leaves every 1.5 s: each waits 30 s

    assert endpoint.passes(SILENT_S + 1, leave) is not None


def test_a_reader_is_told_how_many_wait_and_for_how_long() -> None:
    assert hung_detail(61.3, 1).startswith("hung: 1 request waits and nothing came for 61 s")
    assert "3 requests wait" in hung_detail(61.3, 3)

# SPDX-License-Identifier: Apache-2.0
"""What an engine's report adds to what the gateway knows itself (G4)."""

from __future__ import annotations

import pytest

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.routing.others import KV_PRESSURE_S, UNREPORTED, others


def test_the_gateways_own_requests_are_not_counted_twice() -> None:
    found = others(EngineLoad(0.0, running=3, waiting=2, kv_usage=0.0), own=5)
    assert (found.running, found.waiting) == (0, 0)


def test_requests_of_others_are_taken_for_waiting_ones_first() -> None:
    found = others(EngineLoad(0.0, running=3, waiting=2, kv_usage=0.0), own=2)
    assert (found.running, found.waiting) == (1, 2)


def test_a_report_that_is_older_than_the_own_requests_takes_nothing_away() -> None:
    found = others(EngineLoad(0.0, running=0, waiting=0, kv_usage=0.0), own=50)
    assert (found.running, found.waiting, found.queue_s, found.kv_s) == (0, 0, 0.0, 0.0)


def test_each_number_that_is_missing_has_its_prior() -> None:
    idle = others(EngineLoad(0.0, 0, 0, 0.0), own=0)
    assert others(EngineLoad(0.0, None, 0, 0.0), own=0).running > idle.running
    assert others(EngineLoad(0.0, 0, None, 0.0), own=0).queue_s > idle.queue_s
    assert others(EngineLoad(0.0, 0, 0, None), own=0).kv_s > idle.kv_s


def test_half_a_cache_costs_its_seconds_and_a_full_one_is_bounded() -> None:
    assert others(EngineLoad(0.0, 0, 0, 0.5), own=0).kv_s == pytest.approx(KV_PRESSURE_S)
    assert others(EngineLoad(0.0, 0, 0, 0.9), own=0).kv_s == pytest.approx(9 * KV_PRESSURE_S)
    assert 100 < others(EngineLoad(0.0, 0, 0, 1.0), own=0).kv_s < 200


def test_no_report_is_as_one_without_numbers() -> None:
    nothing = others(EngineLoad(0.0), own=0)
    assert (nothing.running, nothing.waiting, nothing.queue_s, nothing.kv_s) == (
        UNREPORTED.running,
        UNREPORTED.waiting,
        UNREPORTED.queue_s,
        UNREPORTED.kv_s,
    )
    assert nothing.reported
    assert not others(None, own=9).reported

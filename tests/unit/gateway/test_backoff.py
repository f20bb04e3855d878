# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from llmgw.gateway.processes.backoff import LONGEST_S, SETTLED_S, Backoff


def test_a_process_that_ends_once_is_started_again_at_once() -> None:
    assert Backoff().ended(3600.0) == 0.0
    assert Backoff().ended(0.1) == 0.0


def test_one_that_ends_again_and_again_is_waited_for_longer_each_time_up_to_a_bound() -> None:
    backoff = Backoff()
    waits = [backoff.ended(0.1) for _end in range(40)]
    assert waits[:5] == [0.0, 0.5, 1.0, 2.0, 4.0]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_S


def test_one_that_lived_for_long_begins_anew() -> None:
    backoff = Backoff()
    for _end in range(5):
        backoff.ended(0.1)
    assert backoff.ended(SETTLED_S) == 0.0

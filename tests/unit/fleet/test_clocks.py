# SPDX-License-Identifier: Apache-2.0
"""A node's wrong clock makes its facts neither old nor new."""

from __future__ import annotations

import pytest

from llmgw.fleet.clocks import on_our_clock
from llmgw.nodekit import contract

NOW = 1_760_000_000.0


def told(at: float) -> contract.NodeFacts:
    probes = (contract.Probe("gpus", 1.0, ok=True, at=at - 3), contract.Probe("units", 1.0, ok=True))
    return contract.NodeFacts(collected_at=at, system=contract.System(clock=at - 4), probes=probes)


@pytest.mark.parametrize("late", [-4.0, 0.0, 100.0])
def test_a_clock_that_is_about_right_is_believed(late: float) -> None:
    facts = told(NOW - late)
    assert on_our_clock(facts, NOW) is facts


@pytest.mark.parametrize(("late", "words"), [(3600.0, "3600 s behind"), (-600.0, "600 s ahead of")])
def test_times_of_a_wrong_clock_are_moved_and_the_clock_is_named(late: float, words: str) -> None:
    facts = on_our_clock(told(NOW - late), NOW)
    assert facts.collected_at == NOW
    assert [probe.at for probe in facts.probes] == [NOW - 3, None]
    assert facts.system is not None
    assert facts.system.clock == NOW - late - 4
    (finding,) = facts.findings
    assert (finding.code, finding.severity) == ("clock-skew", "warn")
    assert words in finding.message


def test_facts_without_a_time_stay_without_one() -> None:
    assert on_our_clock(contract.NodeFacts(), NOW).collected_at is None

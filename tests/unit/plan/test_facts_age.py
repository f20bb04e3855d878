# SPDX-License-Identifier: Apache-2.0
"""How old facts are said to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.nodekit import contract
from llmgw.plan.facts_age import age_in_words, old_facts_line, oldest_facts
from tests.support.fleets import fleet, node


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute"),
        (59.9, "less than a minute"),
        (60, "1 min"),
        (3599, "59 min"),
        (3 * 3600 + 1800, "3 h"),
        (86400, "1 day"),
        (2.9 * 86400, "2 days"),
    ],
)
def test_an_age_is_said_in_its_largest_unit(seconds: float, words: str) -> None:
    assert age_in_words(seconds) == words


def test_the_node_that_was_read_the_longest_ago_counts() -> None:
    aged = fleet(replace(node("n1"), oldest_age_s=9.0), replace(node("n2", units=None), oldest_age_s=12000.0))
    assert oldest_facts(aged) == (12000.0, "n2")
    assert old_facts_line(aged) == "The facts of n2 are 3 h old: `llmgw facts refresh` reads them anew."


def test_units_count_though_they_do_not_age_by_themselves() -> None:
    read = (contract.Probe("units", 0.1, ok=True, at=400.0),)
    assert oldest_facts(fleet(replace(node("n1", probes=read), oldest_age_s=9.0))) == (600.0, "n1")


def test_young_or_unknown_facts_need_no_word() -> None:
    assert old_facts_line(fleet(replace(node("n1"), oldest_age_s=299.0))) is None
    assert old_facts_line(fleet()) is None
    assert oldest_facts(fleet(replace(node("n1"), facts=None))) is None

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from llmgw.cli.facts_units import unit_line
from llmgw.nodekit import contract

NAME = "llmgw-chat.0.0.service"


def line(**fields: Any) -> str:
    unit = contract.ObservedUnit(name=NAME, port=18000, active_state="active", sub_state="running", **fields)
    return unit_line(unit, 1040.0).removeprefix(f"{NAME}: ")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "active/running, port 18000"),
        ({"restarts": 2}, "active/running, port 18000, 2 restarts"),
        ({"state": "ready", "state_since": 1010.0, "progress": 1.0}, "ready for 30s, port 18000"),
        ({"state": "ready"}, "ready, port 18000"),
        (
            {
                "state": "loading",
                "state_since": 1000.0,
                "deadline": 1640.0,
                "progress": 0.325,
                "reason": "loading weights, 50 %",
            },
            "loading for 40s, 32 %, 10m left, port 18000: loading weights, 50 %",
        ),
        (
            {"state": "draining", "state_since": 1000.0, "deadline": 1030.0, "reason": "it was asked to stop"},
            "draining for 40s, 10s over its time, port 18000: it was asked to stop",
        ),
    ],
)
def test_a_unit_is_told_in_a_line(fields: dict[str, Any], words: str) -> None:
    assert line(**fields) == words


def test_without_the_moment_of_the_facts_nothing_is_said_of_time() -> None:
    unit = contract.ObservedUnit(name=NAME, state="loading", state_since=1000.0, deadline=1640.0)
    assert unit_line(unit, None) == f"{NAME}: loading, port -"

# SPDX-License-Identifier: Apache-2.0
"""What is read of a guard's lines is what a guard prints: the lines here are those of guards that ran."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.engine_logs.group import ended_by_another, waited_for
from tests.unit.module_utils.guard_world import World

DIGEST = "sha256:" + "a" * 64
BEGINS = f"llmgw-guard: rank 1 at 10.0.0.2:18012, one of 2 members of group {DIGEST}\n"
REFUSED = f"llmgw-guard: refused a connection from 10.0.0.9: rank 1 is of group x and rank 0 of {DIGEST}: apply\n"
TOGETHER = "llmgw-guard: all 2 members are here: starting the engine\n"
ENDS = "llmgw-guard: the group ends: rank 0 at 10.0.0.1:18002 was silent for 5 s\n"


def waiting(*ranks: int) -> str:
    whom = ", ".join(f"rank {rank} at 10.0.0.{rank + 1}:18002 (connection refused)" for rank in ranks)
    return f"llmgw-guard: waiting for {whom} (group {DIGEST})\n"


@pytest.mark.parametrize(
    ("log", "whom"),
    [
        ("", None),
        ("vLLM server version 0.33.0\n", None),
        (BEGINS, "it waits for the other members of its group"),
        (BEGINS + REFUSED, "it waits for the other members of its group"),
        (BEGINS + waiting(0), "it waits for rank 0 at 10.0.0.1:18002 (connection refused)"),
        (BEGINS + waiting(0) + REFUSED * 20, "it waits for rank 0 at 10.0.0.1:18002 (connection refused)"),
        (BEGINS + waiting(0) + TOGETHER, None),
        (BEGINS + waiting(0) + TOGETHER + "engine\n" + REFUSED, None),
        (BEGINS + TOGETHER + ENDS, None),
        (BEGINS + TOGETHER + ENDS + BEGINS, "it waits for the other members of its group"),
    ],
)
def test_a_member_waits_from_its_start_until_all_are_here(log: str, whom: str | None) -> None:
    assert waited_for(log) == whom


def test_a_member_that_waits_for_many_says_so_within_bounds() -> None:
    said = waited_for(BEGINS + waiting(*range(1, 30)))
    assert said is not None
    assert said.startswith("it waits for rank 1 at 10.0.0.2:18002 (connection refused), rank 2 at ")
    assert len(said) < 300


def test_what_a_guard_prints_while_it_waits_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 2)
    world.lose_power(1)
    world.run(10)
    assert (
        waited_for("".join(f"llmgw-guard: {line}\n" for line in world.said))
        == "it waits for rank 1 at host1:1 (no answer)"
    )


def test_an_end_that_is_laid_to_another_member_is_told_from_ones_own() -> None:
    own = (
        BEGINS + TOGETHER + "llmgw-guard: the group ends: the engine of rank 1 at 10.0.0.2:18012 ended with status 1\n"
    )
    assert ended_by_another(own.splitlines()) is None
    found = ended_by_another((BEGINS + TOGETHER + ENDS).splitlines())
    assert found is not None
    assert (found.line, found.why) == (2, "rank 0 at 10.0.0.1:18002 was silent for 5 s")

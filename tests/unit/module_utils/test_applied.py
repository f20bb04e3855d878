# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import applied
from ansible_collections.llmgw.fleet.plugins.module_utils.applied import Applied

AT = 1796047380.0  # 2026-11-30 14:03:00 UTC
SEEN = Applied(12, "a", "ops@ctl1", AT)


def test_another_plan_of_the_same_generation_comes_too_late_and_is_told_who_won() -> None:
    assert applied.overtaken(SEEN, 12, "b", AT + 120) == (
        "generation 12 was applied here by ops@ctl1 at 14:03 UTC (2 minutes ago), this plan is of generation 12 too: "
        "another controller was quicker"
    )


def test_an_older_generation_comes_too_late_whatever_its_plan() -> None:
    for plan in ("a", "b", None):
        said = applied.overtaken(SEEN, 11, plan, AT + 5)
        assert said == (
            "generation 12 was applied here by ops@ctl1 at 14:03 UTC (5 seconds ago), this plan is of generation 11: "
            "another controller is ahead"
        )


@pytest.mark.parametrize(
    ("seen", "generation", "plan"),
    [
        (Applied(), 1, "b"),
        (SEEN, 13, "b"),
        (SEEN, 13, None),
        (SEEN, 12, "a"),
        (SEEN, 12, None),
        (Applied(12), 12, "b"),
    ],
)
def test_nobody_else_comes_too_late(seen: Applied, generation: int, plan: str | None) -> None:
    assert applied.overtaken(seen, generation, plan, AT) is None


@pytest.mark.parametrize(
    ("later", "words"),
    [
        (-0.05, " at 14:03 UTC (0 seconds ago)"),
        (0, " at 14:03 UTC (0 seconds ago)"),
        (1, " at 14:03 UTC (1 second ago)"),
        (89, " at 14:03 UTC (89 seconds ago)"),
        (90, " at 14:03 UTC (1 minute ago)"),
        (3600, " at 14:03 UTC (60 minutes ago)"),
        (3 * 3600, " at 14:03 UTC (3 hours ago)"),
        (30 * 3600, " on 2026-11-30 at 14:03 UTC (30 hours ago)"),
        (3 * 86400, " on 2026-11-30 at 14:03 UTC (3 days ago)"),
        (-600, " at 14:03 UTC"),
    ],
)
def test_ages_are_told_in_the_unit_that_a_person_would_take(later: float, words: str) -> None:
    assert applied.whose(Applied(at=AT), AT + later) == words


def test_of_what_is_not_known_nothing_is_said() -> None:
    assert applied.whose(Applied(12), AT) == ""
    assert applied.whose(Applied(by="ops@ctl1"), AT) == " by ops@ctl1"
    assert applied.overtaken(Applied(12), 11, None, AT) == (
        "generation 12 was applied here, this plan is of generation 11: another controller is ahead"
    )


def test_a_note_comes_back_as_it_was() -> None:
    for one in (SEEN, SEEN._replace(routes_digest="sha256:x"), Applied(3)):
        assert applied.parse(applied.note(one)) == one
    assert set(json.loads(applied.note(SEEN))) == {"generation", "plan_id", "by", "at"}


def test_what_a_note_names_is_one_line_of_bounded_length() -> None:
    long = Applied(1, "p", "x\n" * 10_000, AT)
    assert applied.parse(applied.note(long)).by == "x" * 200
    assert applied.parse(json.dumps({"by": "\x1b[31mred\r\n"})).by == "[31mred"


@given(
    st.binary() | st.dictionaries(st.sampled_from(Applied._fields), st.none() | st.integers() | st.floats() | st.text())
)
def test_no_note_breaks_the_reader(said: object) -> None:
    text = said if isinstance(said, bytes) else json.dumps(said)
    seen = applied.parse(text)
    applied.overtaken(seen, 1, "b", AT)
    applied.note(seen)


@given(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["a", "b", None]), st.sampled_from(["a", "b", None]))
def test_what_does_not_come_too_late_is_noted_and_then_keeps_its_rivals_out(
    before: int, generation: int, theirs: str | None, ours: str | None
) -> None:
    seen = Applied(before, theirs)
    if applied.overtaken(seen, generation, ours, AT) is not None:
        assert not applied.newer(seen, generation, ours)
        return
    noted = Applied(generation, ours) if applied.newer(seen, generation, ours) else seen
    assert noted.generation == generation
    assert applied.overtaken(noted, generation, ours, AT) is None
    if ours is not None:
        assert applied.overtaken(noted, generation, "another", AT) is not None

# SPDX-License-Identifier: Apache-2.0
"""The line of requests that wait. Each property has a seeded defect that makes it fail, tried by the last test."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.gateway.admit import line as module
from llmgw.gateway.admit.line import DrainRate, Line

KEYS = st.sampled_from(["a", "b", "c", "d"])
PRIORITIES = st.integers(-1, 1)


@dataclass(frozen=True)
class Step:
    """What happens next: `passed` seconds later."""

    what: str
    key: str
    priority: int
    passed: int
    patience: int
    which: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["offer", "offer", "offer", "take", "remove", "sweep"]),
        KEYS,
        PRIORITIES,
        st.integers(0, 3),
        st.integers(0, 9),
        st.integers(0, 20),
    ),
    max_size=60,
)


@dataclass
class Seen:
    """What came out of a line, and what should still be in it."""

    waiting: dict[int, tuple[int, str, float]]
    taken: list[int]
    late: list[int]
    removed: list[int]
    refused: int = 0


def played(line: Line[int], steps: list[Step]) -> Seen:
    """Plays the steps, and looks after each that nothing comes out that may not."""
    seen = Seen({}, [], [], [])
    now = 0.0
    for number, step in enumerate(steps):
        now += step.passed
        if step.what == "offer":
            deadline = inf if step.patience == 9 else now + step.patience
            if line.offer(number, step.priority, step.key, now, deadline):
                seen.waiting[number] = (step.priority, step.key, deadline)
            else:
                seen.refused += 1
        elif step.what == "take":
            item = line.take(now)
            if item is not None:
                assert seen.waiting.pop(item)[2] > now
                seen.taken.append(item)
        elif step.what == "remove" and seen.waiting:
            item = sorted(seen.waiting)[step.which % len(seen.waiting)]
            assert line.remove(item)
            del seen.waiting[item]
            seen.removed.append(item)
        elif step.what == "sweep":
            gone = line.expired(now)
            assert all(seen.waiting.pop(item)[2] <= now for item in gone)
            seen.late += gone
            assert all(deadline > now for _priority, _key, deadline in seen.waiting.values())
    return seen


def what_is_gone_never_comes_out(steps: list[Step]) -> None:
    line: Line[int] = Line(5)
    seen = played(line, steps)
    out = Counter(seen.taken + seen.late + seen.removed)
    assert max(out.values(), default=1) == 1
    left = []
    while (item := line.take(0.0)) is not None:
        left.append(item)
    assert sorted(left + line.expired(inf)) == sorted(seen.waiting)
    assert not len(line)


def never_more_wait_than_may(steps: list[Step]) -> None:
    line: Line[int] = Line(3)
    for number, step in enumerate(steps):
        if step.what == "offer":
            had_room = len(line) < 3
            assert line.offer(number, step.priority, step.key, number, inf) == had_room
        elif step.what == "take":
            line.take(number)
        assert len(line) <= 3


def a_higher_priority_goes_first(steps: list[Step]) -> None:
    line: Line[int] = Line(100)
    offered = {number: step for number, step in enumerate(steps) if line.offer(number, step.priority, step.key, 0, inf)}
    taken = [offered[item].priority for item in iter(lambda: line.take(0.0), None)]
    assert taken == sorted(taken, reverse=True)


def each_key_that_waits_is_served_within_as_many_turns_as_there_are_keys(steps: list[Step]) -> None:
    line: Line[int] = Line(100)
    waits: Counter[str] = Counter()
    unserved: Counter[str] = Counter()
    keys: dict[int, str] = {}
    for number, step in enumerate(steps):
        if step.what == "offer":
            line.offer(number, 0, step.key, number, inf)
            keys[number] = step.key
            waits[step.key] += 1
        else:
            item = line.take(number)
            if item is None:
                continue
            served = keys[item]
            waits[served] -= 1
            unserved[served] = 0
            for key in (key for key in waits if waits[key] and key != served):
                unserved[key] += 1
                assert unserved[key] < 4


def within_a_key_the_oldest_goes_first(steps: list[Step]) -> None:
    line: Line[int] = Line(100)
    for number, step in enumerate(steps):
        line.offer(number, 0, step.key, 0, inf)
    taken = list(iter(lambda: line.take(0.0), None))
    for key in "abcd":
        mine = [item for item in taken if steps[item].key == key]
        assert mine == sorted(mine)


def nobody_gives_way_to_one_who_has_as_many_or_counts_less(steps: list[Step]) -> None:
    line: Line[int] = Line(5)
    seen = played(line, [step for step in steps if step.what == "offer"])
    for step in steps:
        item = line.gives_way(step.priority, step.key)
        if item is None:
            continue
        assert len(line) == 5
        priority, key, _deadline = seen.waiting[item]
        counts = Counter(entry[:2] for entry in seen.waiting.values())
        assert priority == min(entry[0] for entry in seen.waiting.values())
        assert priority < step.priority or counts[priority, key] > counts[priority, step.key] + 1
        assert item == max(number for number, entry in seen.waiting.items() if entry[:2] == (priority, key))


PROPERTIES: list[Callable[[list[Step]], None]] = [
    what_is_gone_never_comes_out,
    never_more_wait_than_may,
    a_higher_priority_goes_first,
    each_key_that_waits_is_served_within_as_many_turns_as_there_are_keys,
    within_a_key_the_oldest_goes_first,
    nobody_gives_way_to_one_who_has_as_many_or_counts_less,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_of_every_line(holds: Callable[[list[Step]], None]) -> None:
    @given(STEPS)
    def run(steps: list[Step]) -> None:
        holds(steps)

    run()


def test_nobody_can_fill_the_line_for_himself_alone() -> None:
    line: Line[int] = Line(6)
    for number in range(6):
        assert line.offer(number, 0, "greedy", 0.0, inf)
    assert not line.has_room(0, "greedy")
    for number in range(6, 9):
        item = line.gives_way(0, "modest")
        assert item is not None
        assert line.remove(item)
        assert line.offer(number, 0, "modest", 0.0, inf)
    assert not line.has_room(0, "modest")
    assert [line.take(0.0) for _turn in range(6)] == [0, 6, 1, 7, 2, 8]


def test_a_line_may_be_made_shorter_while_some_wait() -> None:
    line: Line[str] = Line(3)
    for item in "xyz":
        line.offer(item, 0, item, 0.0, inf)
    line.max_queue = 1
    assert len(line) == 3
    assert not line.offer("w", 0, "w", 0.0, inf)
    assert line.gives_way(9, "w") is None
    assert not line.has_room(9, "w")
    assert [line.take(0.0) for _turn in range(3)] == ["x", "y", "z"]
    assert line.offer("w", 0, "w", 0.0, inf)


def test_one_who_is_late_is_told_once_and_can_still_leave() -> None:
    line: Line[str] = Line(3)
    for item, deadline in {"late": 2.0, "gone": 1.0, "there": 3.0}.items():
        line.offer(item, 0, "k", 0.0, deadline)
    assert line.take(2.0) == "there"
    assert line.remove("gone")
    assert not line.remove("gone")
    assert line.expired(9.0) == ["late"]
    assert line.expired(9.0) == []
    assert line.take(9.0) is None


def test_the_earliest_deadline_is_told_first() -> None:
    line: Line[int] = Line(9)
    for item in (3, 1, 2):
        line.offer(item, item, str(item), 0.0, float(item))
    assert line.expired(2.5) == [1, 2]
    assert len(line) == 1


def test_a_line_that_ends_lets_everybody_out_once() -> None:
    line: Line[int] = Line(9)
    for number, deadline in enumerate([5.0, inf, 1.0]):
        line.offer(number, number, "a", 0.0, deadline)
    line.take(2.0)
    assert sorted(line.clear()) == [0, 2]
    assert (len(line), line.clear(), line.expired(inf), line.take(9.0)) == (0, [], [], None)
    assert line.offer(0, 0, "a", 9.0, inf)


def test_what_is_kept_of_those_who_left_does_not_grow() -> None:
    line: Line[int] = Line(4)
    assert line.offer(-1, 0, "patient", 0.0, 1e5)
    for number in range(5_000):
        assert line.offer(number, 1, str(number % 7), number / 1000, 1e6)
        assert line.take(number / 1000) == number
    assert len(line._due) < 100
    assert line.take(5.0) == -1
    assert not line._levels
    assert not line._places


def test_the_wait_is_told_by_the_rate_at_which_the_line_moves() -> None:
    line: Line[int] = Line(1000)
    assert line.wait_s(0.0) is None
    for number in range(500):
        line.offer(number, 0, "k", 0.0, inf)
    assert line.wait_s(5.0) is None
    for number in range(400):
        line.take(number / 4)
    assert line.wait_s(100.0) == pytest.approx(25, rel=0.1)


def test_a_line_that_stands_still_has_an_ever_longer_wait() -> None:
    line: Line[int] = Line(1000)
    for number in range(100):
        line.offer(number, 0, "k", 0.0, inf)
    for number in range(50):
        line.take(number / 10)
    waits = [line.wait_s(now) for now in (5.0, 10.0, 40.0, 400.0)]
    assert None not in waits
    assert waits == sorted(waits, key=float)  # type: ignore[arg-type]
    assert (waits[-1] or 0) > 1000


def test_a_quiet_hour_says_nothing_about_the_rate() -> None:
    line: Line[int] = Line(1000)
    for number in range(200):
        line.offer(number, 0, "k", 0.0, inf)
    for number in range(200):
        line.take(number / 10)
    for number in range(10):
        line.offer(number, 0, "k", 3600.0, inf)
    assert line.wait_s(3600.0) == pytest.approx(1, rel=0.2)


def test_two_who_leave_at_one_moment_are_no_endless_rate() -> None:
    rate = DrainRate()
    assert rate.per_s(0.0) is None
    rate.begin(5.0)
    rate.add(5.0)
    rate.add(5.0)
    assert 0 < (rate.per_s(5.0) or 0) <= 2


def _forgets_to_take_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "remove", lambda self, item: item in self._places)


def _one_too_many(patch: pytest.MonkeyPatch) -> None:
    offer = Line.offer

    def slack(self: Line[int], *what: Any) -> bool:
        self.max_queue += 1
        try:
            return offer(self, *what)
        finally:
            self.max_queue -= 1

    patch.setattr(Line, "offer", slack)


def _lowest_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "max", min, raising=False)


class _Unmoving(OrderedDict[Any, Any]):
    def move_to_end(self, key: Any, last: bool = True) -> None:
        del key, last


def _keys_stay_in_front(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "OrderedDict", _Unmoving)


class _Backwards(OrderedDict[Any, Any]):
    def __iter__(self) -> Any:
        return reversed(list(super().__iter__()))


def _youngest_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "OrderedDict", _Backwards)


def _anyone_gives_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Line, "gives_way", lambda self, _priority, _key: next(iter(self._places), None))


DEFECTS = dict(
    zip(
        PROPERTIES,
        [
            _forgets_to_take_out,
            _one_too_many,
            _lowest_first,
            _keys_stay_in_front,
            _youngest_first,
            _anyone_gives_way,
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[list[Step]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(STEPS)
    def defective(steps: list[Step]) -> None:
        holds(steps)

    with pytest.raises(AssertionError):
        defective()

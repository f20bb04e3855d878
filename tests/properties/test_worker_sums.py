# SPDX-License-Identifier: Apache-2.0
"""What holds of the sums over workers, whatever happens to them. The last test tries each property on a defect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.gateway.processes import elsewhere, sharing

ENDPOINTS = ("a 10.0.0.1 1", "b 10.0.0.2 1")
EVENTS = st.lists(
    st.tuples(st.sampled_from(["begin", "end", "die", "start"]), st.integers(0, 4), st.sampled_from(ENDPOINTS)),
    max_size=60,
)


@dataclass
class Worker:
    """What one worker counts."""

    in_flight: Counter[str] = field(default_factory=Counter)
    good: Counter[str] = field(default_factory=Counter)
    last_byte: float = 0.0

    def numbers(self) -> dict[str, float]:
        found: dict[str, float] = {f"^endpoint\t{one}\tlast_byte": self.last_byte for one in ENDPOINTS}
        found |= {f"=endpoint\t{one}\tin_flight": self.in_flight[one] for one in ENDPOINTS}
        return found | {f"+endpoint\t{one}\tgood": self.good[one] for one in self.good}


class World:
    """Workers that live and die, the sums over them, and what was truly asked and answered."""

    def __init__(self) -> None:
        self.workers = [Worker(), Worker()]
        self.retired: dict[str, float] = {}
        self.truth: Counter[str] = Counter()
        self.now = 0.0

    def play(self, events: list[tuple[str, int, str]]) -> None:
        for event, number, endpoint in events:
            self.now += 1
            if event == "start":
                self.workers.append(Worker())
            elif self.workers:
                self._one(event, self.workers[number % len(self.workers)], endpoint)

    def _one(self, event: str, worker: Worker, endpoint: str) -> None:
        if event == "die":
            self.workers.remove(worker)
            self.retired = sharing.total([self.retired, sharing.kept(worker.numbers())])
        elif event == "begin":
            worker.in_flight[endpoint] += 1
        elif worker.in_flight[endpoint]:
            worker.in_flight[endpoint] -= 1
            worker.good[endpoint] += 1
            worker.last_byte = self.now
            self.truth[endpoint] += 1

    def sums(self) -> dict[str, float]:
        return sharing.total([self.retired, *(worker.numbers() for worker in self.workers)])


def nothing_that_was_counted_is_lost_with_its_worker(world: World) -> None:
    sums = world.sums()
    assert {one: sums.get(f"+endpoint\t{one}\tgood", 0) for one in ENDPOINTS} == {
        one: world.truth[one] for one in ENDPOINTS
    }


def in_flight_is_what_living_workers_have(world: World) -> None:
    sums = world.sums()
    for one in ENDPOINTS:
        expected = sum(worker.in_flight[one] for worker in world.workers)
        assert sums.get(f"=endpoint\t{one}\tin_flight", 0) == expected


def a_moment_is_the_latest_of_all(world: World) -> None:
    moments = [worker.last_byte for worker in world.workers]
    if moments:
        assert world.sums()[f"^endpoint\t{ENDPOINTS[0]}\tlast_byte"] == max(moments)


def a_workers_own_and_the_others_make_the_sum(world: World) -> None:
    sums = world.sums()
    for worker in world.workers:
        others = elsewhere.without(sums, worker.numbers())
        for one in ENDPOINTS:
            requests, _tokens = others.endpoints.get(one, (0, 0))
            assert requests + worker.in_flight[one] == sums[f"=endpoint\t{one}\tin_flight"]


PROPERTIES: tuple[Callable[[World], None], ...] = (
    nothing_that_was_counted_is_lost_with_its_worker,
    in_flight_is_what_living_workers_have,
    a_moment_is_the_latest_of_all,
    a_workers_own_and_the_others_make_the_sum,
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda one: one.__name__)
@given(events=EVENTS)
def test_it_holds(holds: Callable[[World], None], events: list[tuple[str, int, str]]) -> None:
    world = World()
    world.play(events)
    holds(world)


def _adds_all(readings: Any) -> dict[str, float]:
    summed: Counter[str] = Counter()
    for numbers in readings:
        summed.update(numbers)
    return dict(summed)


def _keeps_nothing(_numbers: Any) -> dict[str, float]:
    return {}


def _forgets_the_own(everything: Any, _own: Any) -> Any:
    return WITHOUT(everything, {})


WITHOUT = elsewhere.without
DEFECTS: dict[Callable[[World], None], tuple[Any, str, Any]] = {
    nothing_that_was_counted_is_lost_with_its_worker: (sharing, "kept", _keeps_nothing),
    in_flight_is_what_living_workers_have: (sharing, "kept", dict),
    a_moment_is_the_latest_of_all: (sharing, "total", _adds_all),
    a_workers_own_and_the_others_make_the_sum: (elsewhere, "without", _forgets_the_own),
}


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda one: one.__name__)
def test_each_property_finds_its_defect(holds: Callable[[World], None], monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, defect = DEFECTS[holds]
    monkeypatch.setattr(where, name, defect)

    @settings(
        max_examples=500, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), deadline=None
    )
    @given(EVENTS)
    def search(events: list[tuple[str, int, str]]) -> None:
        world = World()
        world.play(events)
        holds(world)

    with pytest.raises((AssertionError, ExceptionGroup)):
        search()

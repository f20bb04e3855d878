# SPDX-License-Identifier: Apache-2.0
"""What must hold of breakers and progress whatever happens. Each property has a seeded defect that makes it fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.gateway.endpoints import breaker, ejection
from llmgw.gateway.endpoints.breaker import Breaker, Cause, verdict
from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.health import Answered, Refused
from llmgw.gateway.table import LiveEndpoint, LiveRoute, Table
from tests.gateway.harness import bundle, endpoint, route

GOOD = Answered(200, ("m",), 200)
LONG_S = 700.0
"""Longer than any pause and any silence."""


@dataclass(frozen=True)
class Event:
    kind: str
    which: int
    times: int
    seconds: float


EVENTS = st.builds(
    Event,
    kind=st.sampled_from(
        ["bad", "bad", "bad", "good", "good", "neutral", "ask", "ask", "content", "down", "up", "wait", "wait", "load"]
    ),
    which=st.integers(0, 4),
    times=st.integers(1, 30),
    seconds=st.sampled_from([0.0, 0.25, 1.0, 6.0, 40.0, 80.0]),
)


@dataclass(frozen=True)
class Case:
    order: tuple[int, ...]
    events: tuple[Event, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 5))
    return Case(tuple(draw(st.permutations(range(count)))), tuple(draw(st.lists(EVENTS, max_size=25))))


class Place:
    host, model = "127.0.0.1", "m"

    def __init__(self, number: int) -> None:
        self.port = 1000 + number


class World:
    """One service behind a table, and a clock."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self.table = Table(lambda _name: None)
        self.table.swap(bundle(1, [route([endpoint(Place(one), one) for one in order])]), 0.0)
        self.now = 1000.0
        self.count = len(order)
        for live in self.endpoints:
            self.table.judge(live, GOOD, self.now)
        self.table.sweep(self.now)

    @property
    def route(self) -> LiveRoute:
        return self.table.routes["chat"]

    @property
    def endpoints(self) -> tuple[LiveEndpoint, ...]:
        return self.route.endpoints

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + (0.25 if seconds < 10 else 2.5), end)
            self.table.sweep(self.now)

    def takes(self, event: Event) -> None:
        table = self.table
        live = table.endpoints[f"chat/{event.which % self.count}@n1"]
        for _time in range(event.times if event.kind in {"bad", "good", "neutral"} else 1):
            self._one(event.kind, live)
        self.wait(event.seconds)

    def _one(self, kind: str, live: LiveEndpoint) -> None:
        table = self.table
        if kind == "ask":
            table.dispatched(live, self.now)
        elif kind in {"good", "bad", "neutral"}:
            if live.in_flight:
                table.released(live)
            table.outcome(live, {"good": True, "bad": False, "neutral": None}[kind], "cut", self.now)
        elif kind == "content":
            table.progress(live, self.now)
        elif kind == "down":
            table.judge(live, Refused("connection refused", closed=True), self.now)
        elif kind == "up":
            table.judge(live, GOOD, self.now)
        elif kind == "load":
            table.report(live, EngineLoad(self.now, running=1.0, kv_usage=0.5), self.now + 2)

    def told(self) -> dict[str, tuple[Any, ...]]:
        return {
            live.name: (live.state, live in self.route.ready, live in self.route.trials, live.detail(self.now))
            for live in self.endpoints
        }


def at_most_half_of_those_that_do_not_hang_are_out(case: Case) -> None:
    world = World(case.order)
    for event in case.events:
        world.takes(event)
        up = [live for live in world.endpoints if live.up and live.breaker.cause is not Cause.HUNG]
        out = [live for live in up if live.ejected]
        assert len(out) <= len(up) // 2
        assert not up or world.route.ready


def whatever_happened_an_endpoint_that_is_up_is_asked_again(case: Case) -> None:
    world = World(case.order)
    for event in case.events:
        world.takes(event)
    for live in world.endpoints:
        world.table.judge(live, GOOD, world.now)
    asked: Counter[str] = Counter()
    for _step in range(int(LONG_S / 5)):
        world.wait(5.0)
        asked.update(live.name for live in world.route.ready)
        for live in world.route.trials:
            world.table.dispatched(live, world.now)  # nobody ever hears of it again
    assert all(asked[live.name] >= 2 for live in world.endpoints)


def an_endpoint_that_works_comes_back_by_requests_alone(case: Case) -> None:
    world = World(case.order)
    for event in case.events:
        world.takes(event)
    for live in world.endpoints:
        world.table.judge(live, GOOD, world.now)
        while live.in_flight:
            world.table.outcome(live, None, "client_left", world.now)
            world.table.released(live)
    for _step in range(int(LONG_S / 5)):
        world.wait(5.0)
        for live in world.route.ready:
            world.table.dispatched(live, world.now)
            world.table.progress(live, world.now)
            world.table.outcome(live, ok=True, reason="", now=world.now)
            world.table.released(live)
    assert all(live.breaker.cause is None and not live.ejected for live in world.endpoints)
    assert len(world.route.ready) == world.count


def what_clients_do_wrong_and_a_full_engine_never_open_it(case: Case) -> None:
    world = World(case.order)
    for event in case.events:
        live = world.endpoints[event.which % world.count]
        status = (400, 401, 404, 422, 429, 503)[event.times % 6]
        for _time in range(event.times):
            world.table.outcome(live, verdict(status), f"status_{status}", world.now)
        world.wait(event.seconds)
        assert all(one.breaker.cause is None for one in world.endpoints)


def the_order_of_endpoints_does_not_matter(case: Case) -> None:
    world, sorted_world = World(case.order), World(tuple(sorted(case.order)))
    for event in case.events:
        world.takes(event)
        sorted_world.takes(event)
        assert world.told() == sorted_world.told()


def one_trial_is_out_at_a_time(case: Case) -> None:
    world = World(case.order)
    for event in case.events:
        world.takes(event)
        for live in world.route.trials:
            world.table.dispatched(live, world.now)
            assert live not in world.route.ready


PROPERTIES = [
    at_most_half_of_those_that_do_not_hang_are_out,
    whatever_happened_an_endpoint_that_is_up_is_asked_again,
    an_endpoint_that_works_comes_back_by_requests_alone,
    what_clients_do_wrong_and_a_full_engine_never_open_it,
    the_order_of_endpoints_does_not_matter,
    one_trial_is_out_at_a_time,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_it_holds(holds: Callable[[Case], None]) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases())
    def check(case: Case) -> None:
        holds(case)

    check()


def _all_open_are_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ejection, "taken_out", lambda pairs: frozenset(name for name, one in pairs if one.cause is not None))


def _a_trial_without_outcome_is_not_given_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(breaker, "TRIAL_AGAIN_S", 1e9)


def _a_good_answer_of_a_trial_is_not_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Breaker, "_proves", lambda self: self.cause is Cause.FAILURES and not self.trying)


def _a_full_engine_is_ill(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "verdict", lambda status: False if status == 503 else breaker.verdict(status))


def _the_first_in_the_list_are_out(patch: pytest.MonkeyPatch) -> None:
    def first(pairs: list[tuple[str, Breaker]]) -> frozenset[str]:
        ill = [name for name, one in pairs if one.cause is not None]
        return frozenset(ill[: len(pairs) // 2])

    patch.setattr(ejection, "taken_out", first)


def _a_trial_stays_due(patch: pytest.MonkeyPatch) -> None:
    def try_now(self: Breaker, now: float) -> None:
        self.trying, self.until = True, now

    patch.setattr(Breaker, "try_now", try_now)


DEFECTS: dict[Callable[[Case], None], Callable[[pytest.MonkeyPatch], None]] = {
    at_most_half_of_those_that_do_not_hang_are_out: _all_open_are_out,
    whatever_happened_an_endpoint_that_is_up_is_asked_again: _a_trial_without_outcome_is_not_given_again,
    an_endpoint_that_works_comes_back_by_requests_alone: _a_good_answer_of_a_trial_is_not_enough,
    what_clients_do_wrong_and_a_full_engine_never_open_it: _a_full_engine_is_ill,
    the_order_of_endpoints_does_not_matter: _the_first_in_the_list_are_out,
    one_trial_is_out_at_a_time: _a_trial_stays_due,
}


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(
        max_examples=400,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(case=cases())
    def defective(case: Case) -> None:
        holds(case)

    with pytest.raises(AssertionError):
        defective()

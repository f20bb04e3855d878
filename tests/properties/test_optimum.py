# SPDX-License-Identifier: Apache-2.0
"""Placement beside the best there is (P8): few fewer replicas than any placement has room for, few more moves than the
fewest. Each bound has a defect that breaks it, tried by the tests at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from llmgw.model.replica import ProfileSpec
from llmgw.placement import assign, board, ledger, queue, rearrange
from tests.properties.placement_cases import Case, placement_cases, seeded_case
from tests.properties.quality import MORE_MOVES, SHORT_OF_PLACES, Figures, answer, measure

FLEETS = 1000
DEFECTIVE_FLEETS = 300


def few_are_without_a_place(figures: Figures) -> None:
    for priority in figures.possible:
        assert figures.shortfall(priority) <= SHORT_OF_PLACES


def few_move_that_need_not(figures: Figures) -> None:
    assert figures.disturbed <= figures.least * (1 + MORE_MOVES)
    assert figures.excess() <= MORE_MOVES


def nothing_is_better_than_the_best(figures: Figures) -> None:
    assert figures.impossible == []


@pytest.fixture(scope="module")
def figures() -> Figures:
    found = measure(map(seeded_case, range(FLEETS)))
    print("", *found.lines(), sep="\n")  # noqa: T201 - for whoever runs it with -s
    return found


@pytest.mark.slow
def test_the_fleets_have_something_to_decide(figures: Figures) -> None:
    assert min(figures.possible.values()) > FLEETS
    assert figures.least > FLEETS / 10
    assert figures.had_to_leave > FLEETS / 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "holds",
    [few_are_without_a_place, few_move_that_need_not, nothing_is_better_than_the_best],
    ids=lambda holds: holds.__name__,
)
def test_over_many_fleets(holds: Callable[[Figures], None], figures: Figures) -> None:
    holds(figures)


@settings(max_examples=60)
@given(case=placement_cases())
def test_no_placement_is_better_than_the_best(case: Case) -> None:
    one = answer(case)
    assert one.placed <= one.possible
    assert one.placed < one.possible or one.disturbed >= one.least


def _first_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first node by name that has room, in the order of names, and nobody makes room."""
    monkeypatch.setattr(board, "total", lambda _terms: 0.0)
    monkeypatch.setattr(queue.Queue, "_hard", lambda _self, _service: (0, 0, 0, 0))
    monkeypatch.setattr(assign, "without_moves", lambda _board, _service, _replica: None)


def _nobody_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "preempting", lambda _board, _service, _replica: None)


def _more_give_way_than_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the fewest devices leaves first, nobody goes back, and the dearest way that was found is taken."""
    monkeypatch.setattr(rearrange._Search, "_back_again", lambda _self, left: left)
    monkeypatch.setattr(rearrange._Search, "_reluctance", lambda _self, one, *_: len(one.leader.devices))
    monkeypatch.setattr(rearrange, "_cheapest", lambda one: tuple(-part for part in one.cost))


def _devices_serve_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    promise = ledger.Ledger.promise

    def forgetful(self: ledger.Ledger, service: str, profile: ProfileSpec, _devices: object, *more: Any) -> None:
        promise(self, service, profile, (), *more)

    monkeypatch.setattr(ledger.Ledger, "promise", forgetful)


@pytest.mark.parametrize(
    ("defect", "holds"),
    [
        (_first_fit, few_are_without_a_place),
        (_nobody_gives_way, few_are_without_a_place),
        (_more_give_way_than_must, few_move_that_need_not),
        (_devices_serve_twice, nothing_is_better_than_the_best),
    ],
)
def test_a_defect_is_seen(
    defect: Callable[[pytest.MonkeyPatch], None], holds: Callable[[Figures], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [seeded_case(seed) for seed in range(DEFECTIVE_FLEETS)]
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        holds(measure(cases))

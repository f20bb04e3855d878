# SPDX-License-Identifier: Apache-2.0
"""How far the planner's answers are from the best there is, over many small fleets: replicas placed, and moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from llmgw.placement.assign import place
from llmgw.placement.instances import instances_of
from llmgw.placement.select import select
from tests.properties.oracle import Best, optimum
from tests.properties.placement_cases import Case

SHORT_OF_PLACES = 0.02
"""The share of the replicas of a priority that may be without a place which the best placement has for them."""
MORE_MOVES = 0.05
"""The share by which moves may be above the fewest."""


@dataclass(frozen=True)
class Answer:
    """One fleet: what the planner did, beside the best. Both by priority, the highest first."""

    placed: tuple[int, ...]
    possible: tuple[int, ...]
    priorities: tuple[int, ...]
    had_to_leave: int
    """Running replicas whose node or devices went."""
    disturbed: int
    """Other running replicas that the planner takes from their places."""
    least: int
    """As many as the best placement takes from theirs."""


def answer(case: Case) -> Answer:
    """The planner's answer for one fleet, and the best."""
    outcome = place(case.catalog, case.fleet)
    selection = select(case.catalog, instances_of(case.fleet))
    spread = [service for service in case.catalog.services if service.spread is not None]
    shares = {str(service.name): outcome.board.tally(service).share or 0 for service in spread}
    best: Best = optimum(case.catalog, case.fleet, selection.kept, shares)
    priorities = tuple(sorted(best.placed, reverse=True))
    placed = Counter(one.service.priority for one in outcome.placement.assignments)
    stay = {one.replica for one in outcome.placement.assignments if one.kept}
    return Answer(
        placed=tuple(placed[priority] for priority in priorities),
        possible=tuple(best.placed[priority] for priority in priorities),
        priorities=priorities,
        had_to_leave=len(selection.displaced),
        disturbed=sum(instance.replica not in stay for _, instance, _ in selection.kept),
        least=best.disturbed,
    )


@dataclass
class Figures:
    """Sums over fleets."""

    fleets: int = 0
    placed: Counter[int] = field(default_factory=Counter)
    possible: Counter[int] = field(default_factory=Counter)
    short: list[int] = field(default_factory=list)
    """The fleets in which the planner places fewer than it could, by their place in the row."""
    impossible: list[int] = field(default_factory=list)
    """Those in which it claims more than there can be."""
    had_to_leave: int = 0
    disturbed: int = 0
    least: int = 0
    disturbed_alike: int = 0
    """Moves where the planner places as many as the best does: there they compare one by one."""
    least_alike: int = 0

    def add(self, one: Answer) -> None:
        """Count one fleet."""
        self.placed.update(dict(zip(one.priorities, one.placed, strict=True)))
        self.possible.update(dict(zip(one.priorities, one.possible, strict=True)))
        if one.placed < one.possible:
            self.short.append(self.fleets)
        if one.placed > one.possible or (one.placed == one.possible and one.disturbed < one.least):
            self.impossible.append(self.fleets)
        if one.placed == one.possible:
            self.disturbed_alike += one.disturbed
            self.least_alike += one.least
        self.had_to_leave += one.had_to_leave
        self.disturbed += one.disturbed
        self.least += one.least
        self.fleets += 1

    def shortfall(self, priority: int) -> float:
        """The share of the replicas of a priority without a place that they could have."""
        return 1 - self.placed[priority] / max(1, self.possible[priority])

    def excess(self) -> float:
        """The share by which moves that nothing forces are above the fewest, where as many are placed."""
        return self.disturbed_alike / max(1, self.least_alike) - 1

    def lines(self) -> Iterator[str]:
        """The figures for people."""
        for priority in sorted(self.possible, reverse=True):
            yield (
                f"priority {priority}: {self.placed[priority]} of {self.possible[priority]} replicas placed that the"
                f" best places, {self.shortfall(priority):.2%} fewer (at most {SHORT_OF_PLACES:.0%})"
            )
        yield f"{len(self.short)} of {self.fleets} fleets have a better placement"
        yield (
            f"moves: {self.had_to_leave} had to leave; of all others {self.disturbed} are taken from their places, the"
            f" best takes {self.least}; where as many are placed {self.disturbed_alike} against {self.least_alike},"
            f" {self.excess():.2%} more (at most {MORE_MOVES:.0%})"
        )


def measure(cases: Iterable[Case]) -> Figures:
    """The figures over some fleets."""
    figures = Figures()
    for case in cases:
        figures.add(answer(case))
    return figures

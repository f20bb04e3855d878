# SPDX-License-Identifier: Apache-2.0
"""What a cell may cost: replicas that must have been available at every moment, requests that may have failed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fleet.faults.injection import Target
from tests.fleet.faults.load import Request
from tests.fleet.faults.sampling import Sample
from tests.fleet.faults.steps import SERVICE, Shape

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Fallen:
    """What a fault met, when, and the requests in flight of every endpoint whose engine it took away."""

    target: Target
    at: float
    in_flight: dict[str, int]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was seen of a cell between two moments. `takes_away`: the step makes replicas unavailable on purpose."""

    old: Shape
    new: Shape
    fallen: Fallen
    began: float
    ended: float
    samples: tuple[Sample, ...]
    requests: tuple[Request, ...]
    takes_away: bool

    @property
    def failures(self) -> list[Request]:
        """The requests without a whole answer."""
        return [one for one in self.requests if one.failure is not None]

    @property
    def allowed(self) -> int:
        """How many requests may have failed: those that the engines which were taken away had in flight."""
        return sum(self.fallen.in_flight.values())

    @property
    def available(self) -> int:
        """The fewest replicas that were available at a time."""
        return min((one.available(SERVICE) for one in self.samples), default=0)

    @property
    def floor_before(self) -> int:
        """How many must be available until the fault: replicas - max_unavailable."""
        away = self.new.max_unavailable if self.takes_away else 0
        return min(self.old.replicas, self.new.replicas) - away

    @property
    def floor(self) -> int:
        """How many must be from the fault on. What the rollout had in work was not available anyway."""
        target = self.fallen.target
        service, number, _rank = target.unit.split(".")
        in_work = f"{service}/{number}@{target.host}"
        return self.floor_before - len(self.fallen.in_flight.keys() - {in_work})


def judge(facts: Facts) -> list[str]:
    """What must not have happened, a sentence each."""
    found = []
    for name, floor, samples in (
        ("before the fault", facts.floor_before, [one for one in facts.samples if one.at < facts.fallen.at]),
        ("after the fault", facts.floor, [one for one in facts.samples if one.at >= facts.fallen.at]),
    ):
        low = [one for one in samples if one.available(SERVICE) < floor]
        if low:
            worst = min(low, key=lambda one: one.available(SERVICE))
            states = {name: one.state + (", leaving" if one.leaving else "") for name, one in worst.endpoints.items()}
            found.append(
                f"{name} only {worst.available(SERVICE)} available, not {floor}, in {len(low)} samples, the worst "
                f"{worst.at - facts.fallen.at:+.1f} s from the fault: {states}"
            )
    failures = facts.failures
    if len(failures) > facts.allowed:
        shown = "; ".join(
            f"{one.began - facts.fallen.at:+.1f} to {one.ended - facts.fallen.at:+.1f} s, "
            f"{'stream' if one.stream else 'whole'}, {one.tokens} tokens: {one.failure}"
            for one in failures[:_SHOWN]
        )
        found.append(f"{len(failures)} requests failed, not at most {facts.allowed}: {shown}")
    return found

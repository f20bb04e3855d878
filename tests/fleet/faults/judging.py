# SPDX-License-Identifier: Apache-2.0
"""What a cell may cost: replicas that must have been available at every moment, requests that may have failed."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fleet.faults.injection import Target
from tests.fleet.faults.load import Request
from tests.fleet.faults.sampling import Sample
from tests.fleet.faults.steps import SERVICE, Shape

_SHOWN = 4
FIRST_BYTE_S = 20.0
"""`timeouts.first_byte` of the fleet that is tried (site.py)."""


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
        """How many requests may have failed: the most that each engine which was taken away had in flight until its
        gateway noticed. Where that took longer than a request may wait, their places were taken again.
        """
        total = 0
        for name, at_once in self.fallen.in_flight.items():
            unnoticed = [one for one in self.samples if self.fallen.at <= one.at <= self._noticed(name)]
            most = max((one.endpoints[name].in_flight for one in unnoticed if name in one.endpoints), default=0)
            rounds = 1 + int((self._noticed(name) - self.fallen.at) // FIRST_BYTE_S)
            total += max(at_once, most) * rounds
        return total

    def _noticed(self, name: str) -> float:
        """When the gateway first told that an endpoint is not available, from the fault on; the fault's own moment
        where it was not before it either.
        """
        for sample in self.samples:
            seen = sample.endpoints.get(name)
            if sample.at >= self.fallen.at and (seen is None or not seen.available):
                return sample.at
        return self.fallen.at

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
    def in_work(self) -> str:
        """The endpoint that the rollout had in work as the fault struck."""
        service, number, _rank = self.fallen.target.unit.split(".")
        return f"{service}/{number}@{self.fallen.target.host}"

    @property
    def floor(self) -> int:
        """How many must be from the fault on. What the rollout had in work was not available anyway; if it had just
        gone on to the next one, that one was still in rotation when the next was drained, as far as anybody could see.
        """
        gone_on = self.in_work in self.fallen.in_flight and self._went_on_unknowing()
        return self.floor_before - len(self.fallen.in_flight.keys() - (set() if gone_on else {self.in_work}))

    def _went_on_unknowing(self) -> bool:
        """Whether another endpoint was drained after the fault, while the one in work still counted as available."""
        for sample in self.samples:
            drained = [name for name, one in sample.endpoints.items() if one.state == "draining"]
            if sample.at >= self.fallen.at and drained and self.in_work not in drained:
                seen = sample.endpoints.get(self.in_work)
                return seen is not None and seen.available and len(drained) <= self.new.max_unavailable
        return False


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

# SPDX-License-Identifier: Apache-2.0
"""The continuous mode for Prometheus: families computed from what it remembers and what its last round found.

A number that no round could find is an absent series, never zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from llmgw.apply.reconcile import REASONS, Judgement, Seen, actions_of
from llmgw.apply.reconcile_state import Standing
from llmgw.model.plan import ActionKind
from llmgw.plan.drift import KINDS as DRIFT_KINDS

OUTCOMES = ("in-order", "mended", "withheld", "would-mend", "changed", "failed", "error", "interrupted")


@dataclass(frozen=True, slots=True)
class Found:
    """What the last round found; None: it could not tell. `judgement` and `seen` are of the fleet as the round left it.

    `budget_left` and `unread` are known also in rounds that could not plan.
    """

    seconds: float | None = None
    seen: Seen | None = None
    judgement: Judgement | None = None
    budget_left: int | None = None
    unread: int | None = None


class ReconcileCollector:
    """A prometheus_client collector over what the loop last `told` it."""

    def __init__(self) -> None:
        self._told = (Standing(), Found())

    def tell(self, standing: Standing, found: Found) -> None:
        """From now on the families are about these. Both never change, so that any thread may ask meanwhile."""
        self._told = (standing, found)

    def collect(self) -> Iterator[Metric]:
        """All families of the continuous mode."""
        standing, found = self._told
        yield from _standing(standing)
        yield from _round(found)


def registry(collector: ReconcileCollector) -> CollectorRegistry:
    """A registry of these families alone."""
    made = CollectorRegistry()
    made.register(collector)
    return made


def _standing(standing: Standing) -> Iterator[Metric]:
    rounds = CounterMetricFamily("llmgw_reconcile_rounds", "Rounds, by how they ended.", labels=["outcome"])
    for outcome in OUTCOMES:
        rounds.add_metric([outcome], standing.rounds.get(outcome, 0))
    yield rounds
    begun = CounterMetricFamily(
        "llmgw_reconcile_actions", "Actions of the plans that were begun, by kind.", labels=["kind"]
    )
    for kind in _kinds():
        begun.add_metric([kind], standing.actions.get(kind, 0))
    yield begun
    yield from _known("llmgw_reconcile_last_round_timestamp_seconds", "When a round last ended.", standing.last_round)
    yield from _known(
        "llmgw_reconcile_last_success_timestamp_seconds",
        "When a round last ended with nothing left to do of what it may do.",
        standing.last_success,
    )


def _round(found: Found) -> Iterator[Metric]:
    yield from _known("llmgw_reconcile_round_seconds", "How long the last round took.", found.seconds)
    yield from _known(
        "llmgw_reconcile_budget_left", "Actions that may still be begun within the hour.", found.budget_left
    )
    yield from _known(
        "llmgw_reconcile_unreachable_nodes", "Hosts that could not be read in the last round.", found.unread
    )
    if found.seen is None or found.judgement is None:
        return
    plan = found.seen.decision.plan
    yield _by(
        "llmgw_reconcile_pending_actions",
        "Actions that the plan wants.",
        "kind",
        _kinds(),
        Counter(action.kind.value for action in actions_of(plan)),
    )
    yield _by(
        "llmgw_reconcile_drift",
        "What is not as it was last applied.",
        "kind",
        DRIFT_KINDS,
        Counter(one.kind for one in plan.drift),
    )
    yield _by(
        "llmgw_reconcile_withheld",
        "Whether a plan is held back for this reason.",
        "reason",
        REASONS,
        Counter({one.reason for one in found.judgement.withheld}),
    )
    yield from _known("llmgw_reconcile_unplaced_replicas", "Replicas that have no place.", len(plan.unplaced))
    yield from _known(
        "llmgw_reconcile_frozen",
        "Whether too many nodes are lost at once for anything to be moved.",
        plan.frozen is not None,
    )


def _kinds() -> tuple[str, ...]:
    return tuple(kind.value for kind in ActionKind if kind is not ActionKind.KEEP)


def _known(name: str, what: str, value: float | None) -> Iterator[Metric]:
    if value is not None:
        yield GaugeMetricFamily(name, what, value=value)


def _by(name: str, what: str, label: str, words: tuple[str, ...], counts: Counter[str]) -> Metric:
    family = GaugeMetricFamily(name, what, labels=[label])
    for word in (*words, *sorted(set(counts) - set(words))):
        family.add_metric([word], counts[word])
    return family

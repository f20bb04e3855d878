# SPDX-License-Identifier: Apache-2.0
"""One round of the continuous mode after the other: read the fleet, decide, say what is new, mend what may be mended.

What a round touches is behind `Hands`; whether it may is decided in llmgw.apply.reconcile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from llmgw.apply import reconcile_report as report
from llmgw.apply import reconcile_state as state
from llmgw.apply.inputs import Inputs
from llmgw.apply.reconcile import (
    REFUSED,
    Brakes,
    Judgement,
    Past,
    Seen,
    Spending,
    actions_of,
    budget_left,
    failed,
    judge,
)
from llmgw.apply.reconcile_metrics import Found, ReconcileCollector
from llmgw.apply.reconcile_report import Item, News
from llmgw.decide import Options, decide
from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import NODE_GROUP
from llmgw.model.plan import Plan
from llmgw.plan.text import summary_line

OK, ERROR, UNPLACED, INTERRUPTED = 0, 1, 3, 130
CHANGES = 2
"""What a round returns when changes are left that it did not make."""
READ_WHOLE_EVERY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """One reading of all hosts: Ansible's status, whose facts were kept, and what it said when it did not begin."""

    status: int
    stored: frozenset[str]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """How an apply ended: the exit status of `llmgw apply`, and what went wrong. `refused`: nothing was touched, since
    looking at the hosts again made another plan of it.
    """

    status: int
    errors: tuple[str, ...] = ()
    refused: bool = False


class Hands(Protocol):
    """All that a round reads and does outside itself."""

    def now(self) -> float:
        """Unix seconds."""

    def sweep(self, gather: list[str]) -> Sweep:
        """Reads these parts of every host's facts and keeps them."""

    def read(self, now: float) -> Inputs:
        """Catalog, inventory and facts as they lie there now. Raises LlmgwError."""

    def history(self, now: float) -> tuple[Spending, ...]:
        """What the continuous mode has begun before, by the history of applies."""

    def at_work(self, now: float) -> str | None:
        """Which apply is under way on this controller, in words."""

    def apply(self, plan: Plan, say: Callable[[str], None]) -> Applied:
        """Carries out this plan or none; every line of it goes to `say`."""

    def stopping(self) -> bool:
        """Whether the operator wants an end."""


@dataclass(frozen=True, slots=True)
class Round:
    """How a round ended: `outcome` is one of `reconcile_metrics.OUTCOMES`; `status` as of `llmgw apply`, and 2 where
    changes are left. `cut`: an apply was cut short.
    """

    outcome: str
    status: int
    cut: bool = False


class Loop:
    """Rounds over one facts cache. Every line goes to `say`; `collector` is told how every round ended."""

    def __init__(
        self, facts: Path, hands: Hands, brakes: Brakes, say: Callable[[News], None], *, dry_run: bool = False
    ) -> None:
        self.collector = ReconcileCollector()
        self._facts = facts
        self._hands = hands
        self._brakes = brakes
        self._say = say
        self._dry_run = dry_run
        self._standing, warning = state.load(facts)
        if warning is not None:
            say(News("problem", warning))

    def forget_what_was_said(self) -> None:
        """From now on everything is new."""
        self._standing = replace(self._standing, said={})

    def round(self) -> Round:
        """Reads, decides, says and mends once. Raises LlmgwError where it cannot be remembered."""
        began = self._hands.now()
        self._standing = state.dated(self._standing, self._hands.history(began), began)
        gather = ["all"] if self._reads_all(began) else ["volatile"]
        sweep = self._hands.sweep(gather)
        if self._hands.stopping():
            return self._end(Round("interrupted", INTERRUPTED), began, Found())
        if gather == ["all"] and sweep.stored:
            self._standing = replace(self._standing, read_whole=began)
        try:
            inputs = self._hands.read(self._hands.now())
            seen = self._seen(inputs, sweep.stored)
        except LlmgwError as error:
            ended, found = self._broken((error,)), Found(budget_left=self._left())
            return self._end(ended, began, found)
        hosts = _hosts(inputs)
        if hosts and not sweep.stored:
            words = "\n".join(("no host could be read: nothing is changed", *sweep.words))
            self._tell((Item(report.PROBLEM, "sweep", words),), (report.PROBLEM,))
            return self._end(Round("error", ERROR), began, Found(unread=len(hosts), budget_left=self._left()))
        if not inputs.fleet.nodes:
            words = f"the inventory names no nodes (its group {NODE_GROUP} has no host): nothing is changed"
            self._tell(
                (*report.problem_items(inputs.problems), Item(report.PROBLEM, "nodes", words)), (report.PROBLEM,)
            )
            return self._end(
                Round("error", ERROR), began, Found(unread=len(set(hosts) - sweep.stored), budget_left=self._left())
            )
        return self._judged(inputs, seen, began)

    def _judged(self, inputs: Inputs, seen: Seen, began: float) -> Round:
        judgement = self._judge(seen)
        self._tell((*report.problem_items(inputs.problems), *report.items_of(seen, judgement)))
        if self._hands.stopping():
            return self._end(Round("interrupted", INTERRUPTED), began, Found(budget_left=judgement.left))
        ended = self._passive(seen, judgement)
        if judgement.mend and not self._dry_run:
            ended = self._mend(seen, judgement)
            if ended.outcome == "interrupted":
                return self._end(ended, began, Found(budget_left=self._left()))
            try:
                after = self._hands.read(self._hands.now())
                seen = self._seen(after, frozenset(_hosts(after)) - seen.unread)
            except LlmgwError as error:
                return self._end(self._worse(ended, self._broken((error,))), began, Found(budget_left=self._left()))
            judgement = self._judge(seen)
            self._tell((*report.problem_items(after.problems), *report.items_of(seen, judgement)))
        if ended.status == OK and (seen.decision.plan.unplaced or _refused(judgement)):
            ended = replace(ended, status=UNPLACED)
        return self._end(ended, began, Found(None, seen, judgement, judgement.left, len(seen.unread)))

    def _passive(self, seen: Seen, judgement: Judgement) -> Round:
        """How a round ends that changes nothing."""
        unplaced = bool(seen.decision.plan.unplaced) or _refused(judgement)
        if judgement.withheld:
            return Round("withheld", UNPLACED if unplaced else CHANGES)
        if judgement.mend:
            return Round("would-mend", UNPLACED if unplaced else CHANGES)
        return Round("in-order", OK)

    def _mend(self, seen: Seen, judgement: Judgement) -> Round:
        plan, begun, before = seen.decision.plan, self._hands.now(), self._standing
        kinds = Counter(action.kind.value for action in actions_of(plan))
        self._standing = replace(
            self._standing,
            spent=(*self._standing.spent, Spending(begun, judgement.size)),
            actions=dict(Counter(self._standing.actions) + kinds),
        )
        # Before anything is touched: what is begun and not remembered would not count.
        state.save(self._facts, self._standing)
        self._say(News("mending", summary_line(plan), {"actions": judgement.size}))
        applied = self._hands.apply(plan, lambda line: self._say(News("apply", line)))
        ended = self._hands.now()
        if applied.refused:
            self._standing = before
            why = "the fleet is another one by now and nothing was touched: the next round looks again"
            self._say(News("changed", "\n".join((why, *applied.errors))))
            return Round("changed", CHANGES)
        self._standing = replace(self._standing, spent=(*self._standing.spent[:-1], Spending(ended, judgement.size)))
        if applied.status in (OK, UNPLACED):
            self._standing = replace(self._standing, failure=None)
            self._say(News("mended", f"{_count(judgement.size)} in {ended - begun:.0f} s"))
            return Round("mended", applied.status)
        for error in applied.errors:
            self._say(News("apply", error))
        if applied.status == INTERRUPTED:
            self._say(News("interrupted", "what was begun, the next round sees and finishes"))
            return Round("interrupted", INTERRUPTED, cut=True)
        self._standing = replace(self._standing, failure=failed(plan, self._standing.failure, ended))
        self._say(News("failed", f"the apply ended with status {applied.status}", {"status": applied.status}))
        return Round("failed", applied.status)

    def _broken(self, errors: tuple[LlmgwError, ...]) -> Round:
        """A round whose inputs cannot be read: everything stays as it is."""
        if self._hands.stopping():
            return Round("interrupted", INTERRUPTED)
        self._tell(tuple(report.problem_items(errors)), (report.PROBLEM,))
        return Round("error", ERROR)

    def _worse(self, ended: Round, other: Round) -> Round:
        return ended if ended.status not in (OK, UNPLACED) else other

    def _seen(self, inputs: Inputs, stored: frozenset[str]) -> Seen:
        decision = decide(inputs.catalog, inputs.fleet, Options(inputs=inputs.digests))
        return Seen(decision, inputs.fleet, frozenset(_hosts(inputs)) - stored, inputs.declared_lost)

    def _judge(self, seen: Seen) -> Judgement:
        now = self._hands.now()
        past = Past(self._spent(now), self._standing.failure, self._hands.at_work(now))
        return judge(seen, past, self._brakes, now)

    def _spent(self, now: float) -> tuple[Spending, ...]:
        return state.spent_of(self._standing, self._hands.history(now), now)

    def _left(self) -> int:
        now = self._hands.now()
        return budget_left(self._spent(now), self._brakes.max_actions, now)

    def _reads_all(self, now: float) -> bool:
        last = self._standing.read_whole
        return last is None or not 0 <= now - last < READ_WHOLE_EVERY_S

    def _tell(self, items: tuple[Item, ...], sections: tuple[str, ...] = report.SECTIONS) -> None:
        """Says what is new in these sections; what was said in others stays said."""
        for line in report.news(items, self._standing.said, sections):
            self._say(line)
        kept = {name: lines for name, lines in self._standing.said.items() if name not in sections}
        self._standing = replace(self._standing, said={**kept, **report.remembered(items)})

    def _end(self, ended: Round, began: float, found: Found) -> Round:
        now = self._hands.now()
        standing = self._standing
        self._standing = replace(
            standing,
            rounds={**standing.rounds, ended.outcome: standing.rounds.get(ended.outcome, 0) + 1},
            last_round=now,
            last_success=now if ended.outcome in ("in-order", "mended") else standing.last_success,
            failure=None if ended.outcome == "in-order" else standing.failure,
            spent=tuple(one for one in standing.spent if one.at > now - 2 * 3600.0),
        )
        self.collector.tell(self._standing, replace(found, seconds=max(0.0, now - began)))
        state.save(self._facts, self._standing)
        return ended


def _hosts(inputs: Inputs) -> tuple[str, ...]:
    nodes, gateways = inputs.fleet.nodes, inputs.fleet.gateways
    return tuple(sorted({*(one.name for one in nodes), *(one.name for one in gateways)}))


def _refused(judgement: Judgement) -> bool:
    return any(one.reason == REFUSED for one in judgement.withheld)


def _count(size: int) -> str:
    return "routes" if size == 0 else f"{size} action{'' if size == 1 else 's'}"

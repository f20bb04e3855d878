# SPDX-License-Identifier: Apache-2.0
"""Whether the continuous mode may carry a plan out, and what keeps it from that, in sentences. Pure.

It mends what a person would mend without thinking, and little of it at a time. Everything that looks like a mistake, a
large failure or a large change is left to a person: `llmgw apply` does it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from llmgw.decide import Decision
from llmgw.model.ids import EndpointId
from llmgw.model.node import FleetSnapshot, GatewayHost
from llmgw.model.plan import Action, ActionKind, Plan
from llmgw.model.route import RouteTable
from llmgw.routes.build import endpoint_id
from llmgw.routes.codec import routes_digest

WINDOW_S = 3600.0
"""The budget holds for every stretch of this length."""
BACK_OFF_S = 120.0
LONGEST_BACK_OFF_S = 3600.0

FROZEN, STOPS_EVERYTHING, UNREACHABLE = "frozen", "stops-everything", "unreachable"
REFUSED, BUDGET, BACK_OFF, APPLY_RUNS = "rollout-refused", "budget", "back-off", "apply-runs"
REASONS = (FROZEN, STOPS_EVERYTHING, UNREACHABLE, REFUSED, BUDGET, BACK_OFF, APPLY_RUNS)
_READY = "ready"
_COMES_OR_GOES = (ActionKind.CREATE, ActionKind.STOP, ActionKind.STAND_IN)
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Brakes:
    """What holds the continuous mode back: actions in any hour, and whether it may move replicas away from lost nodes,
    which nobody can look at.
    """

    max_actions: int = 10
    move_lost: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a round looks at. `unread`: hosts whose facts could not be read in it; `declared_lost`: those that somebody
    said are lost.
    """

    decision: Decision
    fleet: FleetSnapshot
    unread: frozenset[str] = frozenset()
    declared_lost: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Spending:
    """Actions that the continuous mode has begun, and when (Unix seconds; their end, where it is known)."""

    at: float
    actions: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The last apply, when it failed: what it was to do (`plan_key`), when it ended, how many have failed in a row."""

    key: str
    at: float
    in_a_row: int


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier rounds did, and which apply somebody else has under way, in words."""

    spent: tuple[Spending, ...] = ()
    failure: Failure | None = None
    at_work: str | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """One thing that keeps a plan from being carried out: `reason` is one of `REASONS`."""

    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What comes of a plan in this round. `size`: actions that it costs; `left`: how many the budget still has."""

    mend: bool
    size: int
    left: int
    withheld: tuple[Withheld, ...] = ()


def judge(seen: Seen, past: Past, brakes: Brakes, now: float) -> Judgement:
    """What comes of a round's plan at `now` (Unix seconds)."""
    left = budget_left(past.spent, brakes.max_actions, now)
    plan = seen.decision.plan
    found = (*held_back(seen, brakes, left), *_backing_off(plan, past.failure, now), *_waiting(plan, past.at_work))
    return Judgement(plan.changes and not found, size_of(seen), left, found)


def held_back(seen: Seen, brakes: Brakes, left: int) -> Iterator[Withheld]:
    """Everything in the plan itself that keeps it from being carried out without being asked for. `left`: actions that
    may still be begun.
    """
    plan = seen.decision.plan
    for rollout in plan.rollouts:
        if rollout.refused:
            fix = f"; {rollout.fix}" if rollout.fix else ""
            yield Withheld(REFUSED, f"the rollout of {rollout.service} is refused: {rollout.reason}{fix}")
    if not plan.changes:
        return
    if plan.frozen is not None:
        yield Withheld(FROZEN, f"frozen: {plan.frozen}; `llmgw apply --allow-mass-loss` is for a person to say")
    if (stopped := _stops_everything(seen)) is not None:
        yield Withheld(STOPS_EVERYTHING, stopped)
    if (blind := _blind(plan, seen.unread - seen.declared_lost, brakes)) is not None:
        yield Withheld(UNREACHABLE, blind)
    size = size_of(seen)
    if size > left or brakes.max_actions == 0:
        yield Withheld(BUDGET, _too_large(size, left, brakes.max_actions))


def budget_left(spent: Iterable[Spending], max_actions: int, now: float) -> int:
    """How many actions may still be begun now; what lies in the future (a clock went back) counts too."""
    return max(0, max_actions - sum(one.actions for one in spent if one.at > now - WINDOW_S))


def actions_of(plan: Plan) -> tuple[Action, ...]:
    """The actions that change something."""
    return tuple(action for action in plan.actions if action.kind is not ActionKind.KEEP)


def size_of(seen: Seen) -> int:
    """What the plan costs: its actions, and endpoints that it takes from gateways although no action stops them, as
    when hosts have left the inventory.
    """
    return len(actions_of(seen.decision.plan)) + len(_withdrawn(seen))


def plan_key(plan: Plan) -> str:
    """Tells plans apart that do other things: a digest of the catalog and of which replicas change where. How (created,
    started again) is left out, since a failure may change it.
    """
    catalog = plan.inputs.catalog if plan.inputs is not None else None
    what = sorted((one.replica, *one.nodes, *one.devices) for one in actions_of(plan))
    return hashlib.sha256(json.dumps([catalog, what]).encode()).hexdigest()[:32]


def failed(plan: Plan, before: Failure | None, now: float) -> Failure:
    """What is remembered of a plan that failed just now."""
    return Failure(plan_key(plan), now, before.in_a_row + 1 if before is not None else 1)


def back_off_s(failure: Failure) -> float:
    """How long the same plan is not tried again."""
    return float(min(LONGEST_BACK_OFF_S, BACK_OFF_S * 2 ** min(failure.in_a_row - 1, 20)))


def _backing_off(plan: Plan, failure: Failure | None, now: float) -> Iterator[Withheld]:
    if failure is None or not plan.changes or plan_key(plan) != failure.key:
        return
    pause = back_off_s(failure)
    if abs(now - failure.at) < pause:  # a clock that went back far does not make it wait for ever
        times = f", {failure.in_a_row} times in a row" if failure.in_a_row > 1 else ""
        yield Withheld(
            BACK_OFF,
            f"the same plan failed at {_clock(failure.at)}{times}: it is tried again at {_clock(failure.at + pause)},"
            " or when it has become another",
        )


def _waiting(plan: Plan, at_work: str | None) -> Iterator[Withheld]:
    if at_work is not None and plan.changes:
        yield Withheld(APPLY_RUNS, f"{at_work} is under way: what it leaves, the round after it sees")


def _stops_everything(seen: Seen) -> str | None:
    """Why the plan looks like an emptied catalog or inventory; None where something goes on serving."""
    plan = seen.decision.plan
    stops = [action.replica for action in actions_of(plan) if action.kind is ActionKind.STOP]
    gone = sorted({*stops, *_withdrawn(seen)})
    if any(route.endpoints for route in seen.decision.routes.routes):
        # What begins anew does not go on: a catalog in which everything has another name stops everything.
        if not gone or any(action.kind not in _COMES_OR_GOES for action in plan.actions):
            return None
    elif not gone:
        # A gateway that does not tell its endpoints may have some all the same.
        untold = sorted(one.name for one in seen.fleet.gateways if _may_route(one, seen.decision.routes))
        if not untold:
            return None
        gone = [f"whatever {name} routes to" for name in untold]
    named = ", ".join(gone[:_NAMED]) + (f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else "")
    return f"nothing would be left that serves: it takes down {named}. If that is meant, `llmgw apply` does it"


def _may_route(gateway: GatewayHost, routes: RouteTable) -> bool:
    """Whether a gateway has other routes than these, and does not tell to what."""
    other = gateway.bundle is not None and gateway.bundle.routes_digest != routes_digest(routes)
    return other and (gateway.facts is None or not gateway.facts.reachable)


def _withdrawn(seen: Seen) -> frozenset[EndpointId]:
    """Endpoints that some gateway finds ready and that would be routed to no more, without an action that says so."""
    ready = {
        EndpointId(one.endpoint)
        for gateway in seen.fleet.gateways
        if gateway.facts is not None
        for one in gateway.facts.endpoints
        if one.state == _READY
    }
    routed = {one.id for route in seen.decision.routes.routes for one in route.endpoints}
    acted = {
        endpoint_id(action.replica, node)
        for action in actions_of(seen.decision.plan)
        for node in (*action.nodes, *action.from_nodes)
    }
    return frozenset(ready - routed - acted)


def _blind(plan: Plan, unread: Collection[str], brakes: Brakes) -> str | None:
    """Why the plan takes something away from hosts that nobody could look at; None where it does not."""
    said = []
    for action in actions_of(plan):
        leaves = action.from_nodes if action.kind is ActionKind.MOVE else action.nodes
        hosts = sorted(set(leaves) & set(unread))
        if not hosts or action.kind not in (ActionKind.MOVE, ActionKind.STOP):
            continue
        if action.kind is ActionKind.MOVE and brakes.move_lost:
            continue
        does = "move {} away from" if action.kind is ActionKind.MOVE else "stop {} on"
        said.append(f"{does.format(action.replica)} {', '.join(hosts)}")
    if not said:
        return None
    more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    those = f"{'; '.join(said[:_NAMED])}{more}"
    fix = "If it is gone, say so by llmgw_lost of the host (or --move-lost), or `llmgw apply` does it"
    return f"it would {those}, which could not be read in this round. {fix}"


def _too_large(size: int, left: int, most: int) -> str:
    if most == 0:
        return "nothing is mended here (--max-actions 0): `llmgw apply` does it"
    wants = f"it takes {_count(size)}"
    if size > most:
        return f"{wants}, and no more than {most} may be done in an hour (--max-actions): `llmgw apply` does it by hand"
    there = f"{left} {'is' if left == 1 else 'are'} left"
    return f"{wants}, and of {most} in an hour {there}: it waits for the rest, or `llmgw apply` does it by hand"


def _count(size: int) -> str:
    return f"{size} action{'' if size == 1 else 's'}"


def _clock(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S} UTC"

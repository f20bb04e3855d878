# SPDX-License-Identifier: Apache-2.0
"""When the continuous mode mends, and what it says when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.apply import reconcile
from llmgw.apply.reconcile import (
    BACK_OFF,
    BUDGET,
    FROZEN,
    REFUSED,
    STOPS_EVERYTHING,
    UNREACHABLE,
    Brakes,
    Failure,
    Judgement,
    Past,
    Seen,
    Spending,
    back_off_s,
    failed,
    judge,
    plan_key,
)
from llmgw.decide import decide
from llmgw.model.ids import NodeName, ReplicaId, ServiceName
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import Action, ActionKind, Rollout, Strategy
from llmgw.model.replica import Catalog
from llmgw.nodekit import contract
from tests.support.fleets import catalog, fleet, node, service
from tests.support.world import World

NOW = 10_000.0


def seen(wanted: Catalog, known: FleetSnapshot, *unread: str) -> Seen:
    return Seen(decide(wanted, known), known, frozenset(unread))


def running(nodes: int = 4, **replicas: int) -> World:
    world = World(fleet(*(node(f"n{number}") for number in range(nodes))))
    world.apply(catalog(*(service(name, count) for name, count in replicas.items())))
    return world


def verdict(one: Seen, past: Past | None = None, **brakes: object) -> Judgement:
    return judge(one, past or Past(), replace(Brakes(), **brakes), NOW)  # type: ignore[arg-type]


def reasons(judgement: Judgement) -> list[str]:
    assert judgement.mend is False
    return [one.reason for one in judgement.withheld]


def why(judgement: Judgement) -> str:
    (one,) = judgement.withheld
    return one.why


def test_nothing_to_do_is_neither_mended_nor_withheld() -> None:
    world = running(chat=3)
    assert verdict(seen(catalog(service("chat", 3)), world.fleet)) == Judgement(mend=False, size=0, left=10)


def test_what_fits_the_budget_is_mended() -> None:
    world = running(chat=3)
    judgement = verdict(seen(catalog(service("chat", 5)), world.fleet))
    assert judgement == Judgement(mend=True, size=2, left=10)


def test_what_does_not_fit_is_withheld_whole_and_says_what_it_wants_and_what_is_left() -> None:
    one = seen(catalog(service("chat", 6)), running(chat=3).fleet)
    spent = Past((Spending(NOW - 3599, 6), Spending(NOW - 1, 2), Spending(NOW - 3600, 100)))
    judgement = verdict(one, spent)
    assert (judgement.size, judgement.left) == (3, 2)
    assert reasons(judgement) == [BUDGET]
    assert "takes 3 actions, and of 10 in an hour 2 are left" in why(judgement)
    assert "no more than 2 may be done" in why(verdict(one, max_actions=2))
    assert "`llmgw apply`" in why(verdict(one, max_actions=2))
    assert verdict(one, max_actions=3).mend


def test_no_budget_at_all_means_that_nothing_is_ever_mended() -> None:
    world = running(chat=3)
    gateways = tuple(replace(one, bundle=None) for one in world.fleet.gateways)
    one = seen(catalog(service("chat", 3)), replace(world.fleet, gateways=gateways))
    assert one.decision.plan.changes, "routes are to be published, which costs no action"
    assert verdict(one).mend
    assert verdict(one, Past((Spending(NOW, 10),))).mend
    assert reasons(verdict(one, max_actions=0)) == [BUDGET]


def test_what_was_begun_in_the_future_by_a_clock_that_went_back_counts() -> None:
    one = seen(catalog(service("chat", 5)), running(chat=3).fleet)
    assert reasons(verdict(one, Past((Spending(NOW + 9999, 9),)))) == [BUDGET]


def test_a_frozen_fleet_is_left_alone() -> None:
    world = running(chat=4)
    for name in ("n0", "n1"):
        world.state(name, NodeState.LOST)
    one = seen(catalog(service("chat", 5)), world.fleet, "n0", "n1")
    assert FROZEN in reasons(verdict(one, move_lost=True))
    assert "2 of 4 nodes are lost" in verdict(one).withheld[0].why


def test_an_emptied_catalog_is_not_carried_out() -> None:
    world = running(chat=2, code=1)
    judgement = verdict(seen(catalog(), world.fleet))
    assert reasons(judgement) == [STOPS_EVERYTHING]
    assert "takes down chat/0, chat/1, code/0" in why(judgement)
    assert verdict(seen(catalog(service("code", 1)), world.fleet)).mend


def test_a_catalog_in_which_everything_has_another_name_stops_everything_that_serves() -> None:
    judgement = verdict(seen(catalog(service("talk", 2)), running(chat=2).fleet))
    assert reasons(judgement) == [STOPS_EVERYTHING]
    assert verdict(seen(catalog(service("talk", 2), service("code", 1)), running(chat=2, code=1).fleet)).mend


def test_an_emptied_inventory_is_not_published() -> None:
    world = running(chat=2)
    ready = contract.GatewayFacts(
        reachable=True,
        endpoints=tuple(contract.EndpointHealth(name, "ready") for name in ("chat/0@n0", "chat/1@n1")),
    )
    gateways = tuple(replace(one, facts=ready) for one in world.fleet.gateways)
    empty = FleetSnapshot((), gateways, world.fleet.taken_at)
    judgement = verdict(seen(catalog(service("chat", 2)), empty))
    assert reasons(judgement) == [STOPS_EVERYTHING]
    assert "chat/0@n0, chat/1@n1" in why(judgement)


def test_endpoints_that_gateways_lose_with_the_inventory_cost_as_much_as_actions() -> None:
    world = running(chat=4)
    names = [f"{unit.replica}@{one.name}" for one in world.fleet.nodes for unit in world.units(one.name)]
    ready = contract.GatewayFacts(
        reachable=True, endpoints=tuple(contract.EndpointHealth(name, "ready") for name in names)
    )
    gateways = tuple(replace(one, facts=ready) for one in world.fleet.gateways)
    half = FleetSnapshot(world.fleet.nodes[:2], gateways, world.fleet.taken_at)
    whole = FleetSnapshot(world.fleet.nodes, gateways, world.fleet.taken_at)
    wanted = catalog(service("chat", 4))
    assert verdict(seen(wanted, whole)).size == 0
    assert verdict(seen(wanted, half)).size == 4, "two to create, and two that gateways have now"


def test_what_is_taken_from_a_host_that_could_not_be_read_is_left_to_people() -> None:
    world = running(chat=4, nodes=12)
    victim = next(one.name for one in world.fleet.nodes if world.units(one.name))
    world.state(victim, NodeState.LOST)
    one = seen(catalog(service("chat", 4)), world.fleet, victim)
    assert {action.kind for action in reconcile.actions_of(one.decision.plan)} == {ActionKind.MOVE}
    judgement = verdict(one)
    assert reasons(judgement) == [UNREACHABLE]
    assert f"away from {victim}, which could not be read" in why(judgement)
    assert verdict(one, move_lost=True).mend
    assert verdict(replace(one, declared_lost=frozenset({victim}))).mend, "somebody said so"


def test_a_stop_on_a_host_that_could_not_be_read_is_left_to_people_too() -> None:
    one = seen(catalog(service("chat", 2)), running(chat=3).fleet)
    (stop,) = reconcile.actions_of(one.decision.plan)
    assert stop.kind is ActionKind.STOP
    assert reasons(verdict(replace(one, unread=frozenset(stop.nodes)), move_lost=True)) == [UNREACHABLE]
    assert verdict(replace(one, unread=frozenset({"n0", "n1", "n2", "n3"} - set(stop.nodes)))).mend


def test_hosts_that_do_not_answer_keep_nobody_from_mending_the_others() -> None:
    assert verdict(seen(catalog(service("chat", 4)), running(chat=3).fleet, "n0", "gw")).mend


def test_a_refused_rollout_holds_everything_back_and_says_why() -> None:
    one = seen(catalog(service("chat", 4)), running(chat=3).fleet)
    refused = Rollout(
        ServiceName("code"), Strategy.IN_PLACE, 2, 0, reason="no card is free", fix="raise max_unavailable"
    )
    plan = replace(one.decision.plan, rollouts=(refused,))
    judgement = verdict(replace(one, decision=replace(one.decision, plan=plan)))
    assert reasons(judgement) == [REFUSED]
    assert why(judgement) == "the rollout of code is refused: no card is free; raise max_unavailable"
    nothing = replace(plan, waves=())
    assert reasons(verdict(replace(one, decision=replace(one.decision, plan=nothing)))) == [REFUSED]


def test_the_same_plan_that_failed_waits_and_another_does_not() -> None:
    world = running(chat=3)
    one = seen(catalog(service("chat", 4)), world.fleet)
    failure = failed(one.decision.plan, None, NOW - 119)
    assert reasons(verdict(one, Past(failure=failure))) == [BACK_OFF]
    assert "failed at 02:44:41 UTC: it is tried again at 02:46:41 UTC" in why(verdict(one, Past(failure=failure)))
    assert verdict(one, Past(failure=replace(failure, at=NOW - 120))).mend
    assert verdict(seen(catalog(service("chat", 5)), world.fleet), Past(failure=failure)).mend


def test_the_pause_doubles_up_to_an_hour_and_a_clock_that_went_back_far_does_not_make_it_longer() -> None:
    pauses = [back_off_s(Failure("k", 0.0, in_a_row)) for in_a_row in (1, 2, 3, 5, 6, 500)]
    assert pauses == [120, 240, 480, 1920, 3600, 3600]
    one = seen(catalog(service("chat", 4)), running(chat=3).fleet)
    failure = replace(failed(one.decision.plan, Failure("x", 0, 1), NOW), in_a_row=6)
    assert reasons(verdict(one, Past(failure=replace(failure, at=NOW + 3000)))) == [BACK_OFF]
    assert verdict(one, Past(failure=replace(failure, at=NOW + 4000))).mend


def test_failures_count_in_a_row() -> None:
    plan = seen(catalog(service("chat", 4)), running(chat=3).fleet).decision.plan
    first = failed(plan, None, NOW)
    assert (first.in_a_row, failed(plan, first, NOW).in_a_row) == (1, 2)


def test_how_a_failure_left_a_replica_makes_no_other_plan_of_it() -> None:
    plan = seen(catalog(service("chat", 4)), running(chat=3).fleet).decision.plan
    (create,) = reconcile.actions_of(plan)
    again = replace(plan, generation=99, actions=(replace(create, kind=ActionKind.START, reasons=("it failed",)),))
    assert plan_key(again) == plan_key(plan)
    elsewhere = replace(plan, actions=(replace(create, nodes=(NodeName("n9"),)),))
    assert plan_key(elsewhere) != plan_key(plan)


def sized(actions: int) -> Seen:
    """A round whose plan takes so many actions."""
    one = BASE
    kinds = (ActionKind.REWRITE, ActionKind.UPDATE, ActionKind.START)
    made = tuple(
        Action(kinds[number % 3], ReplicaId(f"chat/{number}"), ServiceName("chat"), (NodeName("n0"),))
        for number in range(actions)
    )
    return replace(one, decision=replace(one.decision, plan=replace(one.decision.plan, actions=made)))


BASE = seen(catalog(service("chat", 4)), running(chat=3).fleet)
History = list[tuple[float, int, bool]]
histories: st.SearchStrategy[History] = st.lists(
    st.tuples(st.floats(0.5, 4000), st.integers(0, 14), st.booleans()), min_size=1, max_size=25
)


def the_budget_holds_in_every_hour(rounds: History) -> None:
    brakes, now = Brakes(max_actions=10), 0.0
    past, begun = Past(), list[tuple[float, int]]()
    for pause, size, fails in rounds:
        now += pause
        one = sized(size)
        if reconcile.judge(one, past, brakes, now).mend:
            begun.append((now, size))
            failure = failed(one.decision.plan, past.failure, now) if fails else None
            past = Past((*past.spent, Spending(now, size)), failure)
    for end, _size in begun:
        assert sum(size for at, size in begun if end - 3600 < at <= end) <= 10


def what_fits_is_mended_at_once_where_nothing_failed(rounds: History) -> None:
    brakes, now = Brakes(max_actions=10), 0.0
    past = Past()
    for pause, size, _fails in rounds:
        now += pause
        within = sum(one.actions for one in past.spent if one.at > now - 3600)
        mend = reconcile.judge(sized(size), past, brakes, now).mend
        assert mend == (within + size <= 10)
        if mend:
            past = Past((*past.spent, Spending(now, size)))


PROPERTIES = (the_budget_holds_in_every_hour, what_fits_is_mended_at_once_where_nothing_failed)


def check(holds: Callable[[History], None], examples: int = 150, *, quick: bool = False) -> None:
    phases = [Phase.generate] if quick else list(Phase)
    profile = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    profile(given(histories)(holds))()


@pytest.mark.parametrize("holds", PROPERTIES)
def test_property(holds: Callable[[History], None]) -> None:
    check(holds)


def _short_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "WINDOW_S", 3000.0)


def _rewrites_cost_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        reconcile,
        "size_of",
        lambda one: sum(action.kind is not ActionKind.REWRITE for action in reconcile.actions_of(one.decision.plan)),
    )


def _resets_by_the_clock(patch: pytest.MonkeyPatch) -> None:
    def left(spent: tuple[Spending, ...], most: int, now: float) -> int:
        return most - sum(one.actions for one in spent if one.at // 3600 == now // 3600)

    patch.setattr(reconcile, "budget_left", left)


def _forgets_the_last(patch: pytest.MonkeyPatch) -> None:
    real = reconcile.budget_left
    patch.setattr(reconcile, "budget_left", lambda spent, most, now: real(spent[:-1], most, now))


@pytest.mark.parametrize("seed", [_short_window, _rewrites_cost_nothing, _resets_by_the_clock, _forgets_the_last])
def test_a_seeded_defect_breaks_the_budget(
    seed: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed(monkeypatch)
    with pytest.raises(AssertionError):
        check(the_budget_holds_in_every_hour, quick=True)

# SPDX-License-Identifier: Apache-2.0
"""Rounds of the continuous mode over a world in memory; real hosts are in tests/fleet/test_reconcile.py."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from llmgw.apply import reconcile_state
from llmgw.apply.reconcile import Brakes, Spending
from llmgw.apply.reconcile_loop import Applied
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.fleet import store
from tests.support.fleets import catalog, service
from tests.support.reconciling import Bench

TOO_LARGE = (
    "withheld: it takes 37 actions, and no more than 10 may be done in an hour (--max-actions): `llmgw apply` does it"
    " by hand"
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "facts")


def test_a_fleet_in_order_is_told_nothing_of_and_left_alone(bench: Bench) -> None:
    ended = bench.loop.round()
    assert (ended.outcome, ended.status, bench.heard(), bench.hands.applies) == ("in-order", 0, [], [])


def test_what_differs_is_said_and_mended_and_then_all_is_in_order(bench: Bench) -> None:
    bench.want(4)
    ended = bench.loop.round()
    assert (ended.outcome, ended.status) == ("mended", 0)
    (plan,) = bench.hands.applies
    assert plan.inputs is not None
    lines = bench.heard()
    assert lines[0].startswith("pending: create chat/3 on n")
    assert lines[1].startswith("mending: Plan: 1 to create")
    assert lines[2:] == ["apply: n1  chat.0  started", "mended: 1 action in 1 s"]
    assert bench.round() == "in-order"
    assert bench.heard() == []


def test_the_first_round_and_one_a_day_read_everything(bench: Bench) -> None:
    for _round in range(2):
        bench.round()
    bench.restarted()
    bench.round()
    bench.hands.clock += 24 * 3600
    for _round in range(2):
        bench.round()
    bench.hands.clock -= 90 * 24 * 3600
    bench.round()
    assert bench.hands.gathered == [["all"], ["volatile"], ["volatile"], ["all"], ["volatile"], ["all"]]


def test_a_reading_that_reaches_nobody_is_no_reading_of_everything(bench: Bench) -> None:
    bench.hands.silent = {"n0", "n1", "n2", "n3", "gw"}
    ended = bench.loop.round()
    assert (ended.outcome, ended.status) == ("error", 1)
    assert bench.heard() == ["problem: no host could be read: nothing is changed\nansible said why"]
    assert "llmgw_reconcile_unreachable_nodes 5.0" in bench.metrics()
    bench.hands.silent = set()
    bench.round()
    assert bench.hands.gathered == [["all"], ["all"]]


def test_a_plan_beyond_the_budget_is_withheld_whole_and_said_once(bench: Bench) -> None:
    bench.want(40)
    for _round in range(3):
        ended = bench.loop.round()
        assert (ended.outcome, ended.status) == ("withheld", 2)
    assert bench.hands.applies == []
    lines = bench.heard()
    assert sum(line.startswith("pending: create") for line in lines) == 37
    assert [line for line in lines if not line.startswith("pending")] == [TOO_LARGE]
    assert 'llmgw_reconcile_withheld{reason="budget"} 1.0' in bench.metrics()
    assert 'llmgw_reconcile_pending_actions{kind="create"} 37.0' in bench.metrics()
    bench.want(4)
    assert bench.round() == "mended"
    assert any(line.startswith("withheld: no longer: it takes 37 actions") for line in bench.heard())


def test_what_is_left_of_the_budget_is_no_news_and_another_plan_beyond_it_is(bench: Bench) -> None:
    bench.want(9)
    assert bench.round() == "mended"
    bench.want(15)
    assert bench.round() == "withheld"
    bench.heard()
    bench.hands.told = (Spending(bench.hands.clock, 8),)
    assert bench.round() == "withheld"
    assert bench.heard() == []
    bench.want(16)
    bench.round()
    (line,) = [line for line in bench.heard() if line.startswith("withheld")]
    assert "it takes 7 actions, and of 10 in an hour 2 are left" in line


def test_a_restart_neither_fills_the_budget_nor_says_anything_again(bench: Bench) -> None:
    bench.want(10)
    assert bench.round() == "mended"
    bench.want(14)
    assert bench.round() == "withheld"
    bench.heard()
    bench.restarted()
    assert bench.round() == "withheld"
    assert bench.heard() == []
    assert "llmgw_reconcile_budget_left 3.0" in bench.metrics()
    bench.hands.clock += 3600
    assert bench.round() == "mended"


@pytest.mark.parametrize("keeps_state", [True, False])
def test_the_history_of_applies_counts_where_what_was_remembered_is_lost(bench: Bench, keeps_state: bool) -> None:
    bench.want(10)
    assert bench.round() == "mended"
    bench.hands.told = (Spending(bench.hands.clock, 9),)
    if not keeps_state:
        (bench.facts / reconcile_state.STATE).unlink()
    bench.restarted()
    bench.want(12)
    assert bench.round() == "withheld"
    assert "llmgw_reconcile_budget_left 1.0" in bench.metrics()


@pytest.mark.parametrize("at", ["1e300", "Infinity", "1100000.0"])
def test_what_was_begun_later_than_now_counts_for_an_hour(bench: Bench, at: str) -> None:
    bench.round()
    (bench.facts / reconcile_state.STATE).write_text(f'{{"spent": [{{"at": {at}, "actions": 50}}]}}')
    bench.want(4)
    bench.restarted()
    assert bench.round() == "withheld"
    bench.hands.clock += 1800
    bench.restarted()
    assert bench.round() == "withheld"
    bench.hands.clock += 1900
    bench.restarted()
    assert bench.round() == "mended"


def test_what_the_history_says_was_begun_later_than_now_counts_for_an_hour_over_restarts(bench: Bench) -> None:
    bench.hands.told = (Spending(bench.hands.clock + 10**6, 50),)
    bench.want(4)
    assert bench.round() == "withheld"
    bench.hands.clock += 1800
    bench.restarted()
    assert bench.round() == "withheld"
    bench.hands.clock += 1900
    bench.restarted()
    assert bench.round() == "mended"


def test_an_inventory_without_nodes_is_said_and_is_no_success(bench: Bench) -> None:
    bench.round()
    success = [line for line in bench.metrics().splitlines() if line.startswith("llmgw_reconcile_last_success")]
    whole = bench.hands.world.fleet
    for gateways in ((), whole.gateways):
        bench.hands.world.fleet = replace(whole, nodes=(), gateways=gateways)
        ended = bench.restarted().round()
        assert (ended.outcome, ended.status, bench.hands.applies) == ("error", 1, [])
    assert [line for line in bench.metrics().splitlines() if line.startswith(success[0].split()[0])] == success
    assert bench.heard() == ["problem: the inventory names no nodes (its group fleet has no host): nothing is changed"]
    bench.hands.world.fleet = whole
    assert bench.round() == "in-order"
    assert bench.heard() == [
        "problem: gone: the inventory names no nodes (its group fleet has no host): nothing is changed"
    ]


def test_a_failed_apply_is_not_tried_again_at_once_and_each_time_waits_longer(bench: Bench) -> None:
    bench.want(4)
    bench.hands.mishap = Applied(4, ("n1: it did not become ready",))
    ended = bench.loop.round()
    assert (ended.outcome, ended.status) == ("failed", 4)
    assert "apply: n1: it did not become ready" in bench.heard()
    attempts = [bench.hands.clock]
    bench.brakes = Brakes(max_actions=1000)
    for _turn in range(90):
        bench.restarted()
        bench.hands.clock += 120
        if bench.round() == "failed":
            attempts.append(bench.hands.clock)
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    for pause, least in zip(pauses, (120, 240, 480, 960, 1920, 3600, 3600), strict=False):
        assert least <= pause <= least + 150
    assert len(pauses) >= 6
    bench.hands.mishap = None
    bench.want(5)
    assert bench.round() == "mended", "another plan does not wait"


def test_nothing_is_begun_while_somebody_applies(bench: Bench) -> None:
    bench.hands.other = "an apply by ops@ctl1"
    assert bench.round() == "in-order"
    bench.want(4)
    assert bench.round() == "withheld"
    assert "withheld: an apply by ops@ctl1 is under way: what it leaves, the round after it sees" in bench.heard()
    assert bench.hands.applies == []
    bench.hands.other = None
    assert bench.round() == "mended"


def test_an_apply_that_finds_another_plan_has_done_and_cost_nothing_and_is_tried_again(bench: Bench) -> None:
    bench.want(4)
    bench.hands.mishap = Applied(1, ("Host n1: units. [saved-plan-changed]",), refused=True)
    ended = bench.loop.round()
    assert (ended.outcome, ended.status) == ("changed", 2)
    assert bench.heard()[-1].startswith("changed: the fleet is another one by now")
    assert "llmgw_reconcile_budget_left 10.0" in bench.metrics()
    assert 'llmgw_reconcile_actions_total{kind="create"} 0.0' in bench.metrics()
    bench.hands.mishap = None
    assert bench.round() == "mended"


def test_a_broken_catalog_is_said_once_keeps_everything_and_ends_with_its_mending(bench: Bench) -> None:
    bench.want(4)
    first = LlmgwError("catalog-syntax", "no YAML", where="catalog.yaml:3:1")
    bench.hands.broken = LlmgwErrors([first, LlmgwError("catalog-key", "no key")])
    for _round in range(3):
        ended = bench.loop.round()
        assert (ended.outcome, ended.status) == ("error", 1)
    assert bench.hands.applies == []
    assert bench.heard() == [
        "problem: catalog.yaml:3:1: no YAML [catalog-syntax]",
        "problem: no key [catalog-key]",
    ]
    assert "pending_actions" not in bench.metrics()
    assert "llmgw_reconcile_budget_left 10.0" in bench.metrics()
    bench.hands.broken = None
    assert bench.round() == "mended"
    assert bench.heard()[:2] == [
        "problem: gone: catalog.yaml:3:1: no YAML [catalog-syntax]",
        "problem: gone: no key [catalog-key]",
    ]


def test_hosts_that_could_not_be_read_are_named_and_named_again_when_they_answer(bench: Bench) -> None:
    bench.hands.silent = {"n2"}
    bench.hands.problems = (LlmgwError("facts-broken", "the facts are no JSON", where="n2.json"),)
    for _round in range(2):
        assert bench.round() == "in-order"
    assert bench.heard() == [
        "problem: n2.json: the facts are no JSON [facts-broken]",
        "unread: n2 could not be read in this round",
    ]
    assert "llmgw_reconcile_unreachable_nodes 1.0" in bench.metrics()
    bench.hands.silent, bench.hands.problems = set(), ()
    bench.round()
    assert bench.heard() == [
        "problem: gone: n2.json: the facts are no JSON [facts-broken]",
        "unread: read again: n2 could not be read in this round",
    ]


def test_a_dry_run_says_everything_and_touches_nothing(bench: Bench) -> None:
    bench.want(4)
    loop = bench.restarted(dry_run=True)
    ended = loop.round()
    assert (ended.outcome, ended.status, bench.hands.applies) == ("would-mend", 2, [])
    (line,) = bench.heard()
    assert line.startswith("pending: create chat/3")
    assert "llmgw_reconcile_budget_left 10.0" in bench.metrics()


def test_what_has_no_place_is_the_status_of_a_round_that_went_well(bench: Bench) -> None:
    bench.hands.wanted = catalog(service("chat", 3), service("large", 1, spread="node", priority=-1))
    huge = replace(bench.hands.wanted.services[1].profiles[0], min_memory_bytes=10**15)
    services = (bench.hands.wanted.services[0], replace(bench.hands.wanted.services[1], profiles=(huge,)))
    bench.hands.wanted = replace(bench.hands.wanted, services=services)
    ended = bench.loop.round()
    assert ended.status == 3
    assert "unplaced: large/0 has no place (`llmgw plan --why large/0` says why)" in bench.heard()
    assert "llmgw_reconcile_unplaced_replicas 1.0" in bench.metrics()


@pytest.mark.parametrize("during", ["sweep", "read", "apply"])
def test_an_end_that_is_asked_for_is_no_failure_and_only_a_cut_apply_counts_as_cut(bench: Bench, during: str) -> None:
    bench.want(4)
    if during == "sweep":
        bench.hands.stop = True
    elif during == "read":
        bench.hands.stops_while_reading = True
    else:
        bench.hands.mishap = Applied(130)
    ended = bench.loop.round()
    assert (ended.outcome, ended.status, ended.cut) == ("interrupted", 130, during == "apply")
    assert len(bench.hands.applies) == (during == "apply")
    bench.hands.stop, bench.hands.mishap, bench.hands.stops_while_reading = False, None, False
    assert bench.restarted().round().outcome == "mended"


def test_nothing_is_begun_that_could_not_be_remembered(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", f"{path}: {len(text)}")

    bench.want(4)
    monkeypatch.setattr(reconcile_state, "write_atomically", full)
    with pytest.raises(LlmgwError, match="cannot be remembered: no space left on device"):
        bench.round()
    assert bench.hands.applies == []


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format_version": 99}', '{"spent": [{"at": "x"}]}', '{"rounds": 3}'])
def test_what_cannot_be_read_of_earlier_rounds_is_said_and_begun_anew(bench: Bench, text: str) -> None:
    bench.round()
    (bench.facts / reconcile_state.STATE).write_text(text)
    bench.heard()
    loop = bench.restarted()
    (line,) = bench.heard()
    assert ".reconcile.json" in line
    assert "begins anew" in line
    assert loop.round().outcome == "in-order"
    assert 'llmgw_reconcile_rounds_total{outcome="in-order"} 1.0' in bench.metrics()


def test_counters_go_on_over_restarts_and_moments_are_those_of_rounds(bench: Bench) -> None:
    bench.want(5)
    assert bench.round() == "mended"
    well = bench.hands.clock - 1
    bench.want(50)
    bench.restarted()
    assert bench.round() == "withheld"
    text = bench.metrics()
    for line in (
        'llmgw_reconcile_rounds_total{outcome="mended"} 1.0',
        'llmgw_reconcile_rounds_total{outcome="withheld"} 1.0',
        'llmgw_reconcile_rounds_total{outcome="failed"} 0.0',
        'llmgw_reconcile_actions_total{kind="create"} 2.0',
        'llmgw_reconcile_actions_total{kind="stop"} 0.0',
        'llmgw_reconcile_drift{kind="stopped"} 0.0',
        "llmgw_reconcile_frozen 0.0",
    ):
        assert line in text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["llmgw_reconcile_last_success_timestamp_seconds"]) == pytest.approx(well, abs=5)
    assert float(values["llmgw_reconcile_last_round_timestamp_seconds"]) > well
    assert 0 < float(values["llmgw_reconcile_round_seconds"]) < 30


def test_before_the_first_round_nothing_is_known(bench: Bench) -> None:
    names = {line.split("{")[0].split()[0] for line in bench.metrics().splitlines() if not line.startswith("#")}
    assert names == {"llmgw_reconcile_rounds_total", "llmgw_reconcile_actions_total"}


def test_facts_of_the_reconcile_state_are_nobodys_host(bench: Bench) -> None:
    bench.round()
    assert store.load_all(bench.facts) == {}

# SPDX-License-Identifier: Apache-2.0
"""What the continuous mode hands to Ansible and understands of its answers; runs on hosts are in tests/fleet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import history, reconcile_hands
from llmgw.apply.inputs import Paths
from llmgw.apply.reconcile import Spending
from llmgw.apply.reconcile_hands import FleetHands
from llmgw.apply.runner import Run
from llmgw.apply.saved import Saved, read
from llmgw.decide import Options, decide
from llmgw.model.ids import Digest
from llmgw.model.plan import PlanInputs
from tests.support.fleets import catalog, fleet, node, service

Event = dict[str, Any]
NOW = 1_800_000_000.0


class Ansible:
    """Stands in for a run: gives these events and this status."""

    def __init__(self, *events: Event, status: int = 0) -> None:
        self.events = events
        self.status = status
        self.run: Run | None = None
        self.saved: Saved | None = None
        self.cancelled: Callable[[], bool] | None = None

    def __call__(self, run: Run, on_event: Callable[[Event], None], cancelled: Callable[[], bool] | None = None) -> int:
        self.run, self.cancelled = run, cancelled
        if "llmgw_saved_plan" in run.variables:
            self.saved = read(Path(str(run.variables["llmgw_saved_plan"])))
        for event in self.events:
            on_event(event)
        return self.status


def answered(action: str, host: str = "n1", *, kind: str = "runner_on_ok", **answer: object) -> Event:
    return {"event": kind, "event_data": {"host": host, "resolved_action": f"llmgw.fleet.{action}", "res": answer}}


@pytest.fixture
def hands(tmp_path: Path) -> FleetHands:
    paths = Paths(tmp_path / "hosts.yml", tmp_path / "catalog.yaml", tmp_path / "facts")
    return FleetHands(paths, tmp_path / "history", lambda: False)


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ansible]:
    def stand_in(*events: Event, status: int = 0) -> Ansible:
        made = Ansible(*events, status=status)
        monkeypatch.setattr(reconcile_hands, "run_playbook", made)
        return made

    return stand_in


def plan() -> Any:
    inputs = PlanInputs(Digest("catalog"), Digest("inventory"))
    return decide(catalog(service("chat", 2)), fleet(node("n1")), Options(inputs=inputs)).plan


def test_a_host_was_read_when_its_facts_were_kept(hands: FleetHands, ansible: Callable[..., Ansible]) -> None:
    run = ansible(answered("node_facts", "n1"), answered("node_facts", "n2"), answered("store_facts", stored=["n1"]))
    swept = hands.sweep(["volatile"])
    assert (swept.status, swept.stored, swept.words) == (0, frozenset({"n1"}), ())
    assert run.run is not None
    assert (run.run.playbook, run.run.variables) == ("llmgw.fleet.discover", {"llmgw_gather": ["volatile"]})
    assert run.cancelled is hands.stopped


def test_a_reading_that_did_not_begin_says_why(hands: FleetHands, ansible: Callable[..., Ansible]) -> None:
    ansible({"event": "error", "stdout": "the vault is closed"}, status=1)
    swept = hands.sweep(["all"])
    assert swept.stored == frozenset()
    assert swept.words[0] == "the vault is closed"


def test_the_plan_that_was_judged_is_handed_over_and_gone_afterwards(
    hands: FleetHands, ansible: Callable[..., Ansible]
) -> None:
    run = ansible(answered("node_facts"), answered("record", problems=["the disk is full"]))
    said: list[str] = []
    made = plan()
    applied = hands.apply(made, said.append)
    assert (applied.status, applied.errors, applied.refused) == (0, (), False)
    assert said == ["the disk is full"]
    assert run.run is not None
    assert run.saved is not None
    assert [one.replica for one in run.saved.plan.actions] == [one.replica for one in made.actions]
    variables = dict(run.run.variables)
    assert not Path(str(variables.pop("llmgw_saved_plan"))).exists()
    assert variables == {"llmgw_command": "reconcile", "llmgw_history_dir": str(hands.history_directory)}


def test_a_plan_that_would_be_another_one_now_was_refused(hands: FleetHands, ansible: Callable[..., Ansible]) -> None:
    why = "The catalog has changed. [saved-plan-changed]"
    ansible(
        answered("node_facts"),
        answered("plan", kind="runner_on_failed", msg=why, llmgw_error="saved-plan-changed"),
        status=2,
    )
    applied = hands.apply(plan(), print)
    assert applied.refused
    assert why in applied.errors


def test_words_of_a_machine_do_not_say_that_nothing_was_touched(
    hands: FleetHands, ansible: Callable[..., Ansible]
) -> None:
    words = "The service chat failed: its engine said: no [saved-plan-changed]"
    ansible(
        answered("node_facts"),
        answered("plan", summary="", text=[], unplaced=[], refused=[], changes=True, problems=[]),
        answered("verdict", failure=[words], canaries=[]),
        {"event": "runner_on_failed", "event_data": {"host": "n1", "task_action": "fail", "res": {"msg": words}}},
        status=2,
    )
    applied = hands.apply(plan(), print)
    assert any("[saved-plan-changed]" in error for error in applied.errors)
    assert (applied.refused, applied.status) == (False, 4)


def test_another_error_of_planning_that_quotes_the_words_is_no_refusal(
    hands: FleetHands, ansible: Callable[..., Ansible]
) -> None:
    why = "facts of n1 say [saved-plan-changed] [facts-broken]"
    ansible(answered("node_facts"), answered("plan", kind="runner_on_failed", msg=why, llmgw_error="facts-broken"))
    assert not hands.apply(plan(), print).refused


def test_an_apply_that_reached_nobody_has_failed(hands: FleetHands, ansible: Callable[..., Ansible]) -> None:
    ansible()
    applied = hands.apply(plan(), print)
    assert (applied.status, applied.refused) == (1, False)
    assert "No host answered" in applied.errors[0]


def test_only_what_the_continuous_mode_began_counts_by_its_end_and_to_its_last_rewrite(hands: FleetHands) -> None:
    def applied(run: str, command: str, began: float, ended: float | None, *kinds: str, left_out: int = 0) -> None:
        actions = [{"kind": kind, "replica": "chat/0", "nodes": ["n1"], "from_nodes": []} for kind in kinds]
        record = {"generation": 1, "actions": actions, "actions_left_out": left_out, "catalog": {"digest": "d"}}
        history.begin(hands.history_directory, run, record, command, began)
        if ended is not None:
            history.end(hands.history_directory, run, "done", [], ended)

    applied("a", "reconcile", NOW, NOW + 50, "create", "rewrite")
    applied("b", "apply", NOW + 100, NOW + 150, "create")
    applied("c", "reconcile", NOW + 200, None, "start", left_out=7)
    assert hands.at_work(NOW + 300) == f"an apply by ? (`reconcile`, since {_clock(NOW + 200)})"
    history.end(hands.history_directory, "c", "done", [], NOW + 200)
    assert hands.at_work(NOW + 300) is None
    assert hands.history(NOW + 300) == (Spending(NOW + 200, 8), Spending(NOW + 50, 2))


def _clock(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M:%S} UTC"

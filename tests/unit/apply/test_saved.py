# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply.saved import Saved, SavedOptions, plan_digest, planned_digest, read, refusals, saved_text
from llmgw.decide import Options, decide
from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import Host, Stored
from llmgw.model.plan import Plan, PlanInputs
from llmgw.nodekit import contract, version
from llmgw.plan.codec import plan_inputs
from tests.support.fleets import catalog, facts, fleet, node, service
from tests.support.world import World

NOW = 1_780_000_000.0
HOSTS = (Host("n1", node=True, gateway=False), Host("n2", node=True, gateway=False))
STORED = {"n1": Stored(facts("n1")), "n2": Stored(facts("n2"))}
INPUTS = plan_inputs("sha256:c", HOSTS, STORED)
PLAN = decide(catalog(service(replicas=2)), fleet(node("n1"), node("n2"), node("n3")), Options(inputs=INPUTS)).plan
SAVED = Saved(PLAN, version(), saved_at=NOW, saved_by="ops@ctl1")


def changed(**facts_of: Callable[[contract.NodeFacts], contract.NodeFacts]) -> PlanInputs:
    """The digests after something happened on those hosts."""
    stored = dict(STORED)
    for host, change in facts_of.items():
        known = STORED[host].facts
        assert known is not None
        stored[host] = Stored(change(known))
    return plan_inputs("sha256:c", HOSTS, stored)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_a_saved_plan_comes_back_with_who_when_and_its_options(path: Path) -> None:
    options = SavedOptions(lost=("n9",), allow_mass_loss=True, limit=("n1", "n2"))
    path.write_text(saved_text(PLAN, options, "ops@ctl1", NOW))
    assert read(path) == replace(SAVED, options=options)


def test_a_saved_plan_holds_when_nothing_has_changed() -> None:
    assert refusals(SAVED, INPUTS, PLAN) == []


def test_generation_reasons_and_findings_make_no_other_plan() -> None:
    actions = tuple(replace(one, reasons=("12 GB are free",)) for one in PLAN.actions)
    same = replace(PLAN, generation=77, notes=("a note",), actions=actions)
    assert refusals(SAVED, INPUTS, same) == []
    assert plan_digest(same) == plan_digest(PLAN)


def test_a_refusal_says_whose_plan_it_was_that_nothing_was_touched_and_what_to_do() -> None:
    first, *_between, last = refusals(SAVED, replace(INPUTS, catalog=INPUTS.inventory), PLAN)
    assert "ops@ctl1" in first
    assert "2026-05-28 20:26 UTC" in first
    assert "nothing was touched" in first
    assert "llmgw plan --out" in last


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (replace(INPUTS, catalog=INPUTS.inventory), ["The catalog has changed."]),
        (plan_inputs("sha256:c", HOSTS[:1], STORED), ["The inventory has changed"]),
        (changed(n2=lambda known: replace(known, units=None)), ["What changed since: on n2 the units."]),
        (changed(n1=lambda known: replace(known, gpus=(contract.Gpu(0, "GPU-9", device_class="x"),))), ["devices"]),
        (changed(n1=lambda known: replace(known, drained=True, generation=9)), ["on n1 the generation and the marks."]),
        (plan_inputs("sha256:c", HOSTS, STORED | {"n1": Stored()}), ["n1 not known any more."]),
        (plan_inputs("sha256:c", HOSTS, {"n1": STORED["n1"]}), ["n2 not there any more."]),
        (plan_inputs("sha256:c", HOSTS, STORED | {"n3": Stored()}), ["n3 newly there."]),
        (plan_inputs("sha256:c", HOSTS, STORED | {"n1": replace(STORED["n1"], unreachable_since=1.0)}), ["answers"]),
    ],
)
def test_what_has_changed_is_named_with_its_host(inputs: PlanInputs, said: list[str]) -> None:
    told = refusals(SAVED, inputs, PLAN)[1:-1]
    assert len(told) == 1
    for words in said:
        assert words in told[0]


def test_a_host_of_which_nothing_was_known_then_is_named() -> None:
    before = replace(SAVED, plan=replace(PLAN, inputs=plan_inputs("sha256:c", HOSTS, STORED | {"n1": Stored()})))
    assert "What changed since: n1 not known then." in refusals(before, INPUTS, PLAN)


def test_of_very_many_hosts_not_all_are_named() -> None:
    many = {f"n{number:03}": Stored(facts("n1")) for number in range(100)}
    before = replace(SAVED, plan=replace(PLAN, inputs=plan_inputs("sha256:c", HOSTS, many)))
    bare = dict.fromkeys(many, Stored(contract.NodeFacts()))
    told = refusals(before, plan_inputs("sha256:c", HOSTS, bare), PLAN)
    assert len(told) == 3
    assert "n007 and 92 more the" in told[1]
    assert "n008" not in told[1]


def another() -> Plan:
    return decide(catalog(service(replicas=2)), fleet(node("n1")), Options(inputs=INPUTS)).plan


def test_a_plan_that_comes_out_different_names_the_replicas_and_what_would_be_done() -> None:
    told = refusals(SAVED, INPUTS, another())
    assert "Catalog, inventory and hosts are as they were" in told[1]
    assert any(line.startswith("chat/1: create on n2 when it was saved, create on n1 now.") for line in told)
    gone = refusals(SAVED, INPUTS, replace(PLAN, actions=PLAN.actions[:1]))
    assert any("nothing now" in line for line in gone)


def test_the_same_actions_with_other_units_are_another_plan() -> None:
    told = refusals(SAVED, INPUTS, replace(PLAN, waves=()))
    assert any("with other units or in another order" in line for line in told)


def test_a_plan_is_the_same_when_it_is_made_again() -> None:
    def made() -> Plan:
        world = World(fleet(node("n1"), node("n2")))
        world.apply(catalog(service(replicas=2)))
        return decide(catalog(service(replicas=3), service("new", 1)), world.fleet).plan

    assert plan_digest(made()) == plan_digest(made())


def document(**changes: Any) -> str:
    return json.dumps(json.loads(saved_text(PLAN, SavedOptions(), "ops@ctl1", NOW)) | changes)


WHOLE = document()
OLD_PLAN = json.loads(WHOLE)["plan"] | {"format_version": 1}
NEW_PLAN = json.loads(WHOLE)["plan"] | {"format_version": 99}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        (WHOLE[: len(WHOLE) // 2], "cut off"),
        ("[" * 100_000, "no JSON"),
        ("null", "no saved plan"),
        ("{}", "no saved plan"),
        ('{"format_version": 1, "plan": {}}', "no saved plan"),
        (json.dumps(json.loads(WHOLE)["plan"]), "only what --out writes"),
        (json.dumps(OLD_PLAN), "older llmgw"),
        (document(format_version=0), "older llmgw"),
        (document(format_version=2), "newer llmgw"),
        (document(plan=OLD_PLAN), "saved by an older llmgw"),
        (document(plan=NEW_PLAN), "saved by a newer llmgw"),
        (document(llmgw_version="0.0.1"), "another version of llmgw: 0.0.1"),
        (document(plan={"format_version": 2}), "broken"),
        (document(plan=json.loads(WHOLE)["plan"] | {"inputs": None}), "what it was made from"),
        (document(options=5), "broken"),
        (document(saved_at=1e300), "no time"),
        (document(saved_at=float("nan")), "no time"),
    ],
)
def test_what_is_no_saved_plan_of_this_llmgw_is_refused_with_a_fix(path: Path, text: str, said: str) -> None:
    path.write_text(text)
    with pytest.raises(LlmgwError, match=said) as raised:
        read(path)
    assert raised.value.code == "saved-plan"
    assert "llmgw plan --out" in str(raised.value.fix)


def test_a_plan_that_an_older_llmgw_saved_is_refused_as_such() -> None:
    path = Path(__file__).parents[2] / "fixtures/saved-plans/plan-format-1.json"
    assert json.loads(path.read_text())["plan"]["format_version"] == 1
    with pytest.raises(LlmgwError, match="saved by an older llmgw") as raised:
        read(path)
    assert "llmgw plan --out" in str(raised.value.fix)


def test_a_file_that_is_not_there_or_no_file_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing", tmp_path):
        with pytest.raises(LlmgwError, match=r"no such file|no regular file"):
            read(place)


def test_a_plan_that_does_not_know_what_it_was_made_from_is_not_saved() -> None:
    with pytest.raises(LlmgwError):
        saved_text(replace(PLAN, inputs=None), SavedOptions(), "ops@ctl1", NOW)


def test_a_plan_is_told_from_every_other_by_what_it_was_made_from_and_is_about(path: Path) -> None:
    path.write_text(WHOLE)
    assert planned_digest(read(path).plan) == planned_digest(PLAN) != ""
    assert planned_digest(another()) != planned_digest(PLAN)
    later = replace(PLAN, inputs=changed(n2=lambda known: replace(known, generation=9)))
    assert planned_digest(later) != planned_digest(PLAN)
    assert planned_digest(replace(PLAN, inputs=None)) == ""

# SPDX-License-Identifier: Apache-2.0
"""What people are told of marks: what became of each, what still keeps a node out, and what comes next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply.marks import Answers
from llmgw.cli.marks_devices import named_devices
from llmgw.cli.marks_text import document, told
from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import Host
from llmgw.model.node import Node
from llmgw.nodekit import contract
from tests.support.fleets import facts, fleet, node, with_facts

NOW = 1000.0


def mark(name: str, action: str, device: str | None = None, found: str | None = None) -> dict[str, Any]:
    return {"mark": name, "device": device, "action": action, "found": found}


def lines(verb: str, one: Node, *marks: dict[str, Any], inventory: Path | None = None, **variables: Any) -> list[str]:
    host = Host("n1", node=True, gateway=False, variables=variables)
    answers = Answers(marks={"n1": list(marks)})
    said = told(verb, answers, fleet(one), [host], inventory or Path("/nowhere/hosts.yml"))
    assert said.errors == ()
    return [line for line in said.lines if line.startswith("n1  ")]


@pytest.mark.parametrize(
    ("verb", "name", "action", "sentence"),
    [
        ("cordon", "cordoned", "set", "n1  cordoned now"),
        ("cordon", "cordoned", "changed", "n1  was cordoned already; the reason is now another one"),
        ("cordon", "cordoned", "kept", "n1  was cordoned already"),
        ("uncordon", "cordoned", "removed", "n1  its cordon mark is gone"),
        ("uncordon", "cordoned", "kept", "n1  was not cordoned by a mark"),
        ("uncordon", "cordoned", "failed", "n1  its cordon mark could not be made or taken away"),
        ("drain", "drained", "set", "n1  drained now"),
        ("undrain", "drained", "removed", "n1  its drain mark is gone"),
    ],
)
def test_each_change_is_one_sentence(verb: str, name: str, action: str, sentence: str) -> None:
    assert lines(verb, node("n1"), mark(name, action)) == [sentence]


def test_a_device_whose_mark_could_not_go_is_not_said_to_have_none() -> None:
    said = lines("clear", node("n1"), mark("quarantined", "failed", device="GPU-x"))
    assert said == ["n1  the mark of GPU-x could not be taken away"]


def test_who_was_first_and_why_is_told() -> None:
    known = replace(facts("n1"), cordoned=True, cordon_mark=contract.NodeMark("ops@ctl2", NOW - 7200, "new kernel"))
    one = replace(with_facts(node("n1"), known), cordoned=True)
    assert lines("cordon", one, mark("cordoned", "kept")) == ["n1  was cordoned already by ops@ctl2 2h ago: new kernel"]


def test_a_host_variable_that_still_holds_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/n1.yml").write_text("a: 1\nllmgw_cordoned: true\n")
    one = replace(node("n1"), cordoned=True)
    said = lines("uncordon", one, mark("cordoned", "removed"), inventory=tmp_path / "hosts.yml", llmgw_cordoned=True)
    place = f"{tmp_path}/host_vars/n1.yml:2"
    assert said[1:] == [f"n1  is still cordoned: its host variable llmgw_cordoned is true ({place}); take it out there"]
    nowhere = lines("uncordon", one, mark("cordoned", "removed"), llmgw_cordoned=True)
    assert nowhere[1:] == ["n1  is still cordoned: its host variable llmgw_cordoned is true; take it out there"]


def test_the_other_mark_that_keeps_a_node_out_is_told() -> None:
    drained = replace(node("n1"), drained=True)
    assert lines("uncordon", drained, mark("cordoned", "removed"))[1:] == [
        "n1  is still drained (`llmgw nodes undrain` ends that)"
    ]
    assert lines("uncordon", drained, mark("cordoned", "removed"), llmgw_drained=True)[1:] == [
        "n1  is still drained (host variable llmgw_drained)"
    ]
    cordoned = replace(node("n1"), cordoned=True)
    assert lines("undrain", cordoned, mark("drained", "removed"))[1:] == [
        "n1  is still cordoned (`llmgw nodes uncordon` ends that)"
    ]
    assert lines("drain", cordoned, mark("drained", "set")) == ["n1  drained now"]


def test_a_cleared_device_has_its_name_and_what_it_was_out_for() -> None:
    one = node("n1", 2, quarantined=())
    said = lines(
        "clear",
        one,
        mark("quarantined", "removed", "GPU-n1-1", "card 1 had XID 79"),
        mark("quarantined", "kept", "GPU-gone"),
    )
    assert said == [
        "n1  1 (GPU-n1-1) is no longer quarantined; it was for this: card 1 had XID 79",
        "n1  GPU-gone was not quarantined",
    ]
    assert lines("clear", one) == ["n1  no device of it was quarantined"]


def test_a_device_that_is_still_bad_is_told_before_the_next_apply_marks_it_again() -> None:
    bad = contract.Finding("xid-fatal", "block", "card 1 had XID 79", subject="GPU-n1-1")
    one = node("n1", 4, quarantined=(), findings=(bad,))
    said = lines("clear", one, mark("quarantined", "removed", "GPU-n1-1"))
    assert said[1:] == [
        "n1  GPU-n1-1 still has the finding xid-fatal (card 1 had XID 79): the next apply marks it again"
    ]


def sentences(verb: str, *marks: dict[str, Any]) -> tuple[str, ...]:
    return told(verb, Answers(marks={"n1": list(marks)}), fleet(node("n1")), (), Path("hosts.yml")).lines


@pytest.mark.parametrize("verb", ["cordon", "uncordon", "drain", "undrain", "clear"])
def test_what_comes_next_is_told_in_a_short_line_only_where_something_was_done(verb: str) -> None:
    name = {"clear": "quarantined"}.get(verb, "cordoned" if "cordon" in verb else "drained")
    action = "set" if verb in ("cordon", "drain") else "removed"
    _what, following = sentences(verb, mark(name, action, "GPU-a" if verb == "clear" else None))
    assert "llmgw " in following
    assert len(following) <= 80
    failed = told(verb, Answers(failed={"n1": "no room"}), fleet(node("n1")), (), Path("hosts.yml"))
    assert (failed.lines, failed.errors) == ((), ("n1  FAILED: no room",))


def test_where_no_mark_was_there_to_take_away_nothing_comes_of_it() -> None:
    assert sentences("uncordon", mark("cordoned", "kept")) == ("n1  was not cordoned by a mark",)
    assert sentences("undrain", mark("drained", "kept")) == ("n1  was not drained by a mark",)
    assert sentences("clear") == ("n1  no device of it was quarantined",)
    assert len(sentences("drain", mark("drained", "kept"))) == 2  # it is drained: what that means is told again


def test_nodes_that_did_not_answer_are_told_with_what_works_without_them() -> None:
    answers = Answers(marks={"n1": [mark("drained", "set")]}, unreached={"n2": "no route"}, status=4)
    said = told("drain", answers, fleet(node("n1"), node("n2")), (), Path("hosts.yml"))
    assert said.errors[0] == "n2  does not answer: no route"
    assert "llmgw_drained: true" in said.errors[1]
    later = told("undrain", answers, fleet(node("n1"), node("n2")), (), Path("hosts.yml"))
    assert later.errors[1] == "The marks of a node that does not answer stay until it does."


def test_json_has_every_node_that_was_asked_for_as_it_is_now() -> None:
    known = replace(facts("n1"), quarantined=(contract.QuarantinedDevice("GPU-a"),))
    one = replace(with_facts(node("n1"), known), drained=True)
    answers = Answers(marks={"n1": [mark("drained", "set")]}, unreached={"n2": "no route"})
    first, second = document(answers, fleet(one, node("n2")), ["n2", "n1"])["nodes"]
    assert (first["name"], first["drained"], first["cordoned"], first["error"]) == ("n1", True, False, None)
    assert [one["device"] for one in first["quarantined"]] == ["GPU-a"]
    assert (second["marks"], second["error"], second["quarantined"]) == (None, "no route", None)


def split() -> contract.NodeFacts:
    instances = tuple(contract.MigInstance(f"MIG-{number}", number) for number in (0, 1))
    card = contract.Gpu(2, "GPU-c", mig_mode=True, mig_instances=instances)
    return replace(facts("n1"), gpus=(contract.Gpu(0, "GPU-a"), card), quarantined=())


def test_devices_are_named_as_they_are_shown_or_by_their_uuid() -> None:
    assert named_devices("n1", split(), ["0", "2/mig1", "GPU-gone", "0"]) == ["GPU-a", "MIG-1", "GPU-gone"]
    assert named_devices("n1", None, ["GPU-a"]) == ["GPU-a"]


def test_a_card_stands_for_its_instances_that_are_marked() -> None:
    one = replace(split(), quarantined=(contract.QuarantinedDevice("MIG-1"),))
    assert named_devices("n1", one, ["2"]) == ["MIG-1"]
    both = replace(one, quarantined=(*(one.quarantined or ()), contract.QuarantinedDevice("GPU-c")))
    assert named_devices("n1", both, ["2"]) == ["GPU-c", "MIG-1"]
    assert named_devices("n1", split(), ["2"]) == ["GPU-c"]


def test_a_node_without_cards_says_so() -> None:
    with pytest.raises(LlmgwError, match="n1 has no devices, so '0' names none"):
        named_devices("n1", replace(facts("n1"), gpus=()), ["0"])


@pytest.mark.parametrize("known", [None, replace(facts("n1"), gpus=None)])
def test_where_the_cards_are_unknown_a_number_names_none(known: contract.NodeFacts | None) -> None:
    with pytest.raises(LlmgwError, match="the cards of n1 are unknown, so '2' names none"):
        named_devices("n1", known, ["2"])

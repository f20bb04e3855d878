# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog
from llmgw.placement.assign import place
from llmgw.placement.failures import failures
from llmgw.plan.failures_text import failure_lines, failures_document
from tests.support.fleets import catalog, fleet, node, profile, service

CLASS = "h200-141g"
ONE = profile("one", classes=(CLASS,), gpus=1)


def short(wanted: Catalog, there: FleetSnapshot) -> dict[tuple[str, str], dict[str, int]]:
    found = failures(place(wanted, there))
    return {(one.kind, one.name): {str(loss.service): loss.short for loss in one.short} for one in found}


def test_a_node_whose_replicas_fit_elsewhere_leaves_nobody_short() -> None:
    there = fleet(node("n1", gpus=2), node("n2", gpus=2))
    found = failures(place(catalog(service("chat", 2, (ONE,))), there))
    assert [one.name for one in found] == ["n1", "n2"]
    assert all(not one.short for one in found)
    assert failure_lines(found) == [
        "Any one node of the 2 that hold replicas may be lost: all of them fit on the rest."
    ]


def test_a_node_whose_replicas_fit_nowhere_else_leaves_their_service_short() -> None:
    there = fleet(node("n1", gpus=2), node("n2", gpus=2))
    wanted = catalog(service("chat", 3, (ONE,)))
    assert short(wanted, there) == {("node", "n1"): {"chat": 1}, ("node", "n2"): {"chat": 1}}
    assert failure_lines(failures(place(wanted, there))) == [
        "`!`: replicas would find no other place; `*`: a service would stand still until it runs elsewhere.",
        "! node n1, n2: chat would have 2 of 3",
    ]


def test_what_is_left_goes_to_the_higher_priority() -> None:
    there = fleet(node("n1", gpus=2), node("n2", gpus=1, cordoned=True), node("n3"))
    low = service("low", 1, (profile("low", classes=(CLASS,), gpus=1),))
    outcome = place(catalog(low, service("high", 1, (ONE,), priority=5)), there)
    assert {one.leader.node for one in outcome.placement.assignments} == {"n1"}
    uncordoned = fleet(node("n1", gpus=2), node("n2", gpus=1))
    assert short(catalog(low, service("high", 1, (ONE,), priority=5)), uncordoned)["node", "n1"] == {"low": 1}


def test_a_rack_is_lost_as_one() -> None:
    there = fleet(*(node(f"n{number}", gpus=1, labels={"rack": "ab"[number // 2]}) for number in range(4)))
    assert short(catalog(service("chat", 3, (ONE,))), there)["rack", "a"] == {"chat": 1}


def test_a_service_of_one_replica_is_down_until_it_runs_elsewhere() -> None:
    there = fleet(node("n1", gpus=1), node("n2", gpus=1))
    found = failures(place(catalog(service("chat", 1, (ONE,))), there))
    assert [(one.name, loss.down, loss.short) for one in found for loss in one.losses] == [("n1", True, 0)]
    assert failure_lines(found)[-1] == "* node n1: nothing would serve chat until it runs elsewhere"


def test_the_share_of_the_racks_that_are_left_grows() -> None:
    there = fleet(*(node(f"n{number}", gpus=2, labels={"rack": "ab"[number % 2]}) for number in range(2)))
    wanted = catalog(service("chat", 2, (ONE,), spread="rack"))
    assert short(wanted, there)["rack", "a"] == {}


def test_asking_leaves_the_placement_as_it_was() -> None:
    there = fleet(node("n1", gpus=2, labels={"rack": "a"}), node("n2", gpus=2, labels={"rack": "b"}))
    outcome = place(catalog(service("chat", 3, (ONE,), spread="rack")), there)
    board = outcome.board
    before = (dict(board.assigned), {name: one.taken for name, one in board.ledgers.items()})
    share = board.tally(board.catalog.services[0]).share
    first = failures(outcome)
    assert (dict(board.assigned), {name: one.taken for name, one in board.ledgers.items()}) == before
    assert board.tally(board.catalog.services[0]).share == share
    assert failures(outcome) == first


def test_an_empty_fleet_says_so() -> None:
    outcome = place(catalog(service("chat", 1, (ONE,))), fleet(node("n1")))
    assert failure_lines(failures(outcome)) == ["No node holds a replica."]


def test_the_document_tells_every_loss() -> None:
    found = failures(place(catalog(service("chat", 1, (ONE,))), fleet(node("n1", gpus=1))))
    assert failures_document(found) == {
        "format_version": 1,
        "unplaced": [],
        "failures": [
            {
                "kind": "node",
                "name": "n1",
                "nodes": ["n1"],
                "losses": [{"service": "chat", "wanted": 1, "replicas": 1, "lost": 1, "short": 1, "down": True}],
            }
        ],
    }


def test_a_service_that_is_short_already_is_told_by_what_the_catalog_asks_for() -> None:
    outcome = place(catalog(service("chat", 3, (ONE,))), fleet(node("n1", gpus=2)))
    unplaced = [one.replica for one in outcome.placement.unplaced]
    assert failure_lines(failures(outcome), unplaced)[1:3] == [
        "1 replica has no place even now: chat/2 (`llmgw plan` says why)",
        "! node n1: chat would have 0 of 3, and has 2 now",
    ]
    document = failures_document(failures(outcome), unplaced)
    assert document["unplaced"] == ["chat/2"]
    assert document["failures"][0]["losses"][0]["wanted"] == 3


def test_the_same_loss_of_a_node_and_its_rack_is_told_once() -> None:
    there = fleet(node("n1", gpus=2, labels={"rack": "a"}), node("n2", gpus=1, labels={"rack": "b"}))
    lines = failure_lines(failures(place(catalog(service("chat", 3, (ONE,))), there)))
    assert lines[1:] == [
        "! node n1: chat would have 1 of 3",
        "! node n2: chat would have 2 of 3",
        "  rack a (n1), b (n2): no more than what is in brackets",
    ]


def test_a_rack_of_several_nodes_is_told_for_itself() -> None:
    there = fleet(*(node(f"n{number}", gpus=1, labels={"rack": "ab"[number // 2]}) for number in range(4)))
    lines = failure_lines(failures(place(catalog(service("chat", 4, (ONE,))), there)))
    assert "! rack a, b: chat would have 2 of 4" in lines
    assert not any("brackets" in line for line in lines)


def test_without_anything_to_tell_there_are_no_signs_to_explain() -> None:
    there = fleet(node("n1", gpus=2), node("n2", gpus=2))
    assert not any("`!`" in line for line in failure_lines(failures(place(catalog(service("chat", 2, (ONE,))), there))))

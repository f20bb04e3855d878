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
    assert failure_lines(failures(place(wanted, there))) == ["! node n1, n2: chat would have 2 of 3"]


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
        "failures": [
            {
                "kind": "node",
                "name": "n1",
                "nodes": ["n1"],
                "losses": [{"service": "chat", "replicas": 1, "lost": 1, "short": 1, "down": True}],
            }
        ],
    }

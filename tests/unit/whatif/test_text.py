# SPDX-License-Identifier: Apache-2.0
"""Answers in words, where a fleet directory would be much for a line."""

from __future__ import annotations

from dataclasses import replace

from llmgw.model.ids import NodeName, ReplicaId, ServiceName
from llmgw.whatif.difference import Change, Difference
from llmgw.whatif.said import Said
from llmgw.whatif.smallest import Need, Never, Smallest
from llmgw.whatif.text import difference_lines, smallest_lines, supposed_lines


def change(replica: str, before: str = "", after: str = "") -> Change:
    was, now = (tuple(map(NodeName, text.split())) for text in (before, after))
    return Change(ReplicaId(replica), was, now)


def test_what_was_assumed_stands_below_what_was_supposed() -> None:
    said = (Said("n1 is drained"), Said("without n2", ("its 1 unit is gone",)))
    assert supposed_lines(said) == ["Supposed: n1 is drained", "Supposed: without n2", "    its 1 unit is gone"]


def test_a_difference_names_every_kind_of_change_once() -> None:
    found = Difference(
        gained=(change("a/0", "", "n1 n2"),),
        fits_no_more=(change("b/0", "n3"),),
        moves=(change("c/0", "n1", "n2"), change("c/1", "n1", "n1")),
    )
    assert difference_lines(found)[1:] == [
        "    placed now         a/0 on n1, n2",
        "    fits no more       b/0 (was on n3)",
        "    moves              c/0 n1 -> n2",
        "                       c/1 on n1, other devices",
    ]


def test_a_reason_is_told_once_for_those_that_follow_one_another_with_it() -> None:
    lost = tuple(replace(change(f"b/{number}", "n3"), why="n3 is drained") for number in range(2))
    lacking = tuple(replace(change(f"c/{number}"), asked_before=False, why="no room") for number in range(2))
    assert difference_lines(Difference(fits_no_more=lost, unplaced=lacking))[1:] == [
        "    fits no more       b/0 (was on n3): n3 is drained",
        "                       b/1 (was on n3), likewise",
        "    no place           c/0, c/1: no room",
    ]


def test_long_lists_are_cut_off_and_counted() -> None:
    found = Difference(
        gained=tuple(change(f"a/{number}", "", "n1") for number in range(14)),
        unplaced=tuple(change(f"b/{number}") for number in range(14)),
    )
    lines = difference_lines(found)
    assert lines[13].split() == ["and", "2", "more"]
    assert lines[14].endswith("b/10, b/11 and 2 more")


def test_no_difference_is_a_sentence() -> None:
    assert difference_lines(Difference())[1:] == ["    nothing changes"]


def test_the_smallest_number_is_told_with_what_is_known_of_it() -> None:
    found = Smallest("8 x h200-141g", 40, 99, tried=((0, 99), (39, 2), (40, 0)), exact=False)
    assert smallest_lines(found) == [
        "Smallest: 40 nodes with 8 x h200-141g for the 99 replicas without a place.",
        "    tried, and replicas that then have no place: 0 (99), 39 (2), 40 (0)",
    ]
    odd = Smallest("8 x h200-141g", 40, 99, tried=((0, 99), (38, 2), (39, 3), (40, 0)), exact=False, monotone=False)
    assert smallest_lines(odd)[1].startswith("    more nodes did not always place more, so a smaller number may do")


def test_what_stays_without_and_what_is_held_back_are_told_apart() -> None:
    never = (Never(ReplicaId("b/0"), ("needs label a=b",)), Never(ReplicaId("b/1"), ("needs label a=b",)))
    needs = (Need(ServiceName("a"), 3, 2, 1), Need(ServiceName("b"), 2, None, 2))
    found = Smallest("no devices", 1, 5, 1, never, needs, ((0, 5), (1, 2)))
    assert smallest_lines(found) == [
        "1 replica held back, see below: no hardware changes that.",
        "Smallest: 1 node with no devices for 3 of the 5 replicas without a place.",
        "    every smaller number was tried",
        "    a lacks 3: 2 of them would need 2 of their own, the rest fits on none",
        "    b lacks 2: none fits on such nodes, however many",
        "    b/0, b/1 have no place on them: needs label a=b",
    ]
    assert smallest_lines(Smallest("no devices", 0, 0, 1))[1] == (
        "Every other replica has a place: no node with no devices is needed."
    )

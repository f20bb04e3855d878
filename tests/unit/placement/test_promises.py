# SPDX-License-Identifier: Apache-2.0
"""What was promised and given back leaves no trace: the next question gets the answer that it would have got before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.ids import ModelName, NodeName
from llmgw.model.placement import Assignment
from llmgw.model.replica import Catalog, ModelSpec, ServiceSpec
from llmgw.nodekit import contract
from llmgw.placement.assign import place
from llmgw.placement.board import Board
from llmgw.placement.disks import Disks
from llmgw.placement.failures import failures
from tests.properties.placement_cases import Case, placement_cases
from tests.support.fleets import GB, catalog, fleet, node, profile, service, with_facts
from tests.support.placement_state import state

SIZES_GB = (5, 40, 90)


def needing(name: str, size_gb: int) -> ServiceSpec:
    weights = ModelSpec(ModelName(name), hf_id=f"org/{name}")
    return service(name, 1, (profile(name, model=weights, min_free_disk_bytes=size_gb * GB),))


def two_disks() -> tuple[Board, Catalog]:
    """n1 has disks of 100 and 90 GB, on which `a` and `b` have taken what they need; n2 has none."""
    disks = tuple(
        contract.Filesystem(mount_point=path, total_bytes=1000 * GB, free_bytes=free * GB)
        for path, free in (("/d0", 100), ("/d1", 90))
    )
    wanted = catalog(needing("a", 5), needing("b", 90))
    board = Board(wanted, fleet(node("n1", filesystems=disks), node("n2", filesystems=())))
    for one in wanted.services:
        board.take(the(board, one))
    return board, wanted


def the(board: Board, wanted: ServiceSpec) -> Assignment:
    found = board.find(wanted, wanted.profiles[0], f"{wanted.name}/0", outside={NodeName("n2")})  # type: ignore[arg-type]
    assert found is not None
    return found


def test_what_is_given_back_and_taken_again_is_on_the_same_disk() -> None:
    board, wanted = two_disks()
    before = state(board)
    for one in (f"{found.name}/0" for found in wanted.services):
        assignment = board.assigned[one]  # type: ignore[index]
        board.give_back(assignment)
        assert state(board)["bytes"] != before["bytes"]
        board.take(assignment)
        assert state(board) == before


def test_a_promise_of_disk_shrinks_to_what_the_others_of_its_model_need() -> None:
    disks = Disks()
    for size in (5, 40, 5):
        disks.promise(("n1", "/"), "m", size)
    disks.release(("n1", "/"), "m", 40)
    assert disks._total == {("n1", "/"): 5}
    disks.release(("n1", "/"), "m", 5)
    assert disks._total == {("n1", "/"): 5}
    disks.release(("n1", "/"), "m", 5)
    assert disks._total == {("n1", "/"): 0}


def test_asking_what_fails_leaves_every_promise_of_disk_where_it_was() -> None:
    board, wanted = two_disks()
    outcome = place(wanted, board.fleet)
    before = state(outcome.board)
    failures(outcome)
    assert state(outcome.board) == before


def test_a_device_that_two_hold_is_free_when_both_gave_it_back() -> None:
    wanted = catalog(*(service(name, 1, (profile(name, classes=("h200-141g",), gpus=1),)) for name in "ab"))
    board = Board(wanted, fleet(node("n1", gpus=1)))
    (ledger,) = board.ledgers.values()
    first = the(board, wanted.services[0])
    second = replace(first, replica="b/0", service=wanted.services[1], profile=wanted.services[1].profiles[0])  # type: ignore[arg-type]
    for one in (first, second):
        board.take(one)
    board.give_back(first)
    assert ledger.free_devices("h200-141g") == ()
    board.give_back(second)
    assert len(ledger.free_devices("h200-141g")) == 1


@st.composite
def with_disks(draw: st.DrawFn) -> Case:
    """Cases in which some nodes have one or two filesystems, a few of them shared, and some profiles fetch weights."""
    case = draw(placement_cases(most=4))
    nodes = []
    for one in case.fleet.nodes:
        assert one.facts is not None
        disks = tuple(
            contract.Filesystem(
                mount_point=f"/d{at}",
                total_bytes=1000 * GB,
                free_bytes=draw(st.sampled_from((50, 100, 300))) * GB,
                source="nas:/models" if (shared := draw(st.integers(0, 4)) == 0) else None,
                shared=shared,
            )
            for at in range(draw(st.integers(0, 2)))
        )
        nodes.append(with_facts(one, replace(one.facts, filesystems=disks)))
    services = []
    for found in case.catalog.services:
        weights = ModelSpec(ModelName(f"m{draw(st.integers(0, 2))}"), hf_id=f"org/{draw(st.sampled_from('abc'))}")
        ways = tuple(
            replace(way, model=weights, min_free_disk_bytes=draw(st.sampled_from(SIZES_GB)) * GB)
            if draw(st.booleans())
            else way
            for way in found.profiles
        )
        services.append(replace(found, profiles=ways))
    return Case(replace(case.fleet, nodes=tuple(nodes)), replace(case.catalog, services=tuple(services)))


@given(case=with_disks(), data=st.data())
def test_any_row_of_promises_given_back_in_turn_leaves_the_board_as_it_was(case: Case, data: st.DataObject) -> None:
    board = place(case.catalog, case.fleet, reasons=False).board
    before = state(board)
    given_up = data.draw(st.permutations(sorted(board.assigned)), label="given back")[: data.draw(st.integers(0, 6))]
    old = [board.assigned[replica] for replica in given_up]
    for one in old:
        board.give_back(one)
    between = state(board)
    new: list[Assignment] = []
    for one in data.draw(st.permutations(old), label="placed anew"):
        way = data.draw(st.sampled_from(one.service.profiles))
        found = board.find(one.service, way, one.replica)
        if found is not None:
            board.take(found)
            new.append(found)
    for one in reversed(new):
        board.give_back(one)
    assert state(board) == between
    for one in reversed(old):
        board.take(one)
    assert state(board) == before


@given(case=with_disks())
def test_asking_what_fails_leaves_the_board_as_it_was(case: Case) -> None:
    outcome = place(case.catalog, case.fleet, reasons=False)
    before = state(outcome.board)
    failures(outcome, ["pool"])
    assert state(outcome.board) == before

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.engines.deadlines import LEAST_S, UNKNOWN_S, patience_s, ready_timeout_s
from llmgw.model.node import Node
from llmgw.nodekit import contract
from tests.support.fleets import GB, model, with_facts
from tests.support.launches import HUB, N1, big, looking, member, placed, seen, started

SNAPSHOT = "/srv/hf/hub/models--org--big/snapshots/abc"


def on_disk(size: int | None, *, shared: bool | None) -> Node:
    return looking(seen(SNAPSHOT, size_bytes=size, shared=shared))


@pytest.mark.parametrize(
    ("node", "size", "expected"),
    [
        (on_disk(140 * GB, shared=False), None, LEAST_S + 700),
        (on_disk(140 * GB, shared=True), None, LEAST_S + 2800),
        (on_disk(140 * GB, shared=None), None, LEAST_S + 2800),
        (on_disk(None, shared=False), None, LEAST_S),
        (on_disk(None, shared=True), 40 * GB, LEAST_S + 800),
        (looking(), 40 * GB, LEAST_S + 800),
        (looking(), None, UNKNOWN_S),
        (looking(unknown=True), None, UNKNOWN_S),
        (replace(N1, facts=None), 1 * GB, LEAST_S + 20),
    ],
)
def test_weights_get_the_time_that_reading_them_takes(node: Node, size: int | None, expected: int) -> None:
    assert ready_timeout_s(big("vllm", model=replace(HUB, size_bytes=size)), node) == expected


def test_a_file_that_was_never_seen_gets_the_least() -> None:
    assert ready_timeout_s(big("vllm", model=model()), looking()) == LEAST_S


def test_what_the_profile_says_counts() -> None:
    assert ready_timeout_s(big("vllm", ready_timeout_s=60), on_disk(900 * GB, shared=True)) == 60


@given(st.integers(0, 2000 * GB), st.integers(0, 2000 * GB))
def test_larger_weights_never_get_less_time(one: int, other: int) -> None:
    small, large = sorted((one, other))
    for shared in (True, False):
        wanted = big("vllm")
        assert ready_timeout_s(wanted, on_disk(small, shared=shared)) <= ready_timeout_s(
            wanted, on_disk(large, shared=shared)
        )


def test_what_is_seen_of_weights_changes_the_deadline_and_not_the_process() -> None:
    nodes = on_disk(10 * GB, shared=True), on_disk(900 * GB, shared=True)
    few, many = (started(big("vllm"), member(0, node, 8), on=node) for node in nodes)
    assert few.readiness != many.readiness
    assert (few.argv, few.env) == (many.argv, many.env)


def patience(node: Node, source: str, written: int | None, **more: object) -> int:
    """Of a member whose unit on the node says so many seconds."""
    if written is not None:
        assert node.facts is not None
        text = f"[X-Llmgw]\nReadyTimeoutS={written}\n"
        unit = contract.ObservedUnit("llmgw-chat.0.0.service", replica="chat/0", rank=0, text=text)
        node = with_facts(node, replace(node.facts, units=(unit,)))
    own = member(0, node, 8)
    return patience_s(placed(big("vllm", **more), own), own, node, source)


HERE = on_disk(140 * GB, shared=False)
NOWHERE = looking()
UNREAD = looking(unknown=True)


@pytest.mark.parametrize("on", [HERE, NOWHERE, UNREAD])
def test_what_the_profile_says_is_not_held_back_by_a_unit(on: Node) -> None:
    assert patience(on, SNAPSHOT, 3600, ready_timeout_s=90) == 90
    assert patience(on, "org/big", 3600, ready_timeout_s=90) == 90


def test_a_member_with_a_path_keeps_its_time_while_its_weights_are_not_seen() -> None:
    assert patience(HERE, SNAPSHOT, None) == 1300
    for on in (HERE, NOWHERE, UNREAD, looking(seen(f"{SNAPSHOT}def", size_bytes=9 * GB))):
        assert patience(on, SNAPSHOT, 1300) == 1300
    unsure = on_disk(140 * GB, shared=None), on_disk(None, shared=False)
    assert [patience(on, SNAPSHOT, 1300) for on in unsure] == [1300, 1300]


def test_a_member_with_an_id_keeps_the_time_of_when_nothing_was_seen() -> None:
    for on in (HERE, NOWHERE, UNREAD):
        assert patience(on, "org/big", None) == UNKNOWN_S
        assert patience(on, "org/big", UNKNOWN_S) == UNKNOWN_S


def test_weights_that_take_longer_than_was_thought_are_given_longer() -> None:
    assert patience(on_disk(900 * GB, shared=True), "org/big", UNKNOWN_S) == LEAST_S + 18_000


def test_a_time_that_a_profile_no_longer_says_is_given_up() -> None:
    assert patience(HERE, SNAPSHOT, 7200) == 1300
    assert patience(HERE, "org/big", 7200) == UNKNOWN_S
    assert patience(NOWHERE, "org/big", 7200) == UNKNOWN_S


def test_vllm_is_given_the_same_day_whatever_its_profile_says() -> None:
    said = [started(big("vllm", ready_timeout_s=one), member(0, N1, 8), on=N1).env for one in (None, 60, 7200)]
    assert {one["VLLM_ENGINE_READY_TIMEOUT_S"] for one in said} == {"86400"}

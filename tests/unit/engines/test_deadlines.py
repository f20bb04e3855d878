# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.engines.deadlines import LEAST_S, UNKNOWN_S, ready_timeout_s
from llmgw.model.node import Node
from llmgw.nodekit import contract
from tests.support.fleets import GB, model, with_facts
from tests.support.launches import HUB, N1, big, looking, member, seen, started

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


@pytest.mark.parametrize(
    ("profile_s", "written", "expected"), [(None, 3600, 3600), (None, 700, 1300), (None, None, 1300), (90, 3600, 90)]
)
def test_weights_that_are_seen_later_rewrite_nothing(profile_s: int | None, written: int | None, expected: int) -> None:
    text = "[X-Llmgw]\n" + ("" if written is None else f"ReadyTimeoutS={written}\n")
    node = on_disk(140 * GB, shared=False)
    assert node.facts is not None
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", replica="chat/0", rank=0, text=text)
    there = with_facts(node, replace(node.facts, units=(unit,)))
    launch = started(big("vllm", ready_timeout_s=profile_s), member(0, there, 8), on=there)
    assert launch.readiness.ready_timeout_s == expected

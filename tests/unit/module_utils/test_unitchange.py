# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import unitchange
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit

SETTLED = ObservedUnit(
    name="llmgw-chat.0.0.service",
    active_state="active",
    sub_state="running",
    enabled=True,
    process_digest="p1",
    running_digest="p1",
    text_digest="t1",
    actual_text_digest="t1",
    edited=False,
    needs_reload=False,
)


def change(observed: ObservedUnit | None, process: str = "p1", text: str = "t1") -> str:
    return unitchange.change(observed, process, text)


def test_what_runs_as_it_should_is_kept() -> None:
    assert change(SETTLED) == "kept"


@pytest.mark.parametrize(
    ("present", "action"),
    [
        (None, "created"),
        (replace(SETTLED, actual_text_digest=None, active_state="failed"), "created"),
        (replace(SETTLED, actual_text_digest=None), "rewritten"),
        (replace(SETTLED, actual_text_digest=None, running_digest="p0"), "restarted"),
        (replace(SETTLED, running_digest="p0"), "restarted"),
        (replace(SETTLED, actual_text_digest="t0", text_digest="t0", process_digest="p0"), "rewritten"),
        (replace(SETTLED, edited=True), "rewritten"),
        (replace(SETTLED, needs_reload=True), "rewritten"),
        (replace(SETTLED, enabled=False), "rewritten"),
        (replace(SETTLED, enabled=None), "kept"),
        (replace(SETTLED, active_state="inactive", running_digest=None), "started"),
        (replace(SETTLED, active_state="activating", sub_state="auto-restart", running_digest=None), "started"),
        (replace(SETTLED, active_state="failed", running_digest=None, edited=True), "restarted"),
        (replace(SETTLED, running_digest=None), "kept"),
        (replace(SETTLED, running_digest=None, process_digest="p0"), "restarted"),
    ],
)
def test_the_digests_decide_what_happens(present: ObservedUnit | None, action: str) -> None:
    assert change(present) == action


def test_a_new_text_alone_restarts_nothing_and_a_new_process_does() -> None:
    assert change(SETTLED, text="t2") == "rewritten"
    assert change(SETTLED, process="p2", text="t2") == "restarted"

# SPDX-License-Identifier: Apache-2.0
"""The module as Ansible runs it: check mode predicts the real run, and a second run is no change (R3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from tests.systemd import by_ansible
from tests.systemd.node import Node, free_port

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def call(node: Node, tmp_path: Path) -> Call:
    def run(present: list[WantedUnit], *flags: str, absent: tuple[str, ...] = (), **options: Any) -> dict[str, Any]:
        units = [asdict(unit) for unit in present]
        return by_ansible.run(
            node.wrapped,
            tmp_path / "ansible",
            "llmgw.fleet.replica_units",
            *flags,
            scope="user",
            state_dir=str(node.state_dir),
            present=units,
            absent=list(absent),
            **{"generation": 1, **options},
        )

    return run


def actions(answer: dict[str, Any]) -> dict[str, str]:
    return {unit["name"]: unit["action"] for unit in answer["units"]}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_check_mode_predicts_exactly_what_a_run_then_does(node: Node, call: Call) -> None:
    ports = [free_port() for _ in range(3)]
    before = [node.engine("mod", ports[0]), node.engine("mox", ports[1]), node.engine("moy", ports[2])]
    after = [node.engine("mod", ports[0], "--max-num-seqs 2"), node.engine("mox", ports[1], description="new")]
    for present, absent, changed in (
        (before, (), True),
        (after, (before[2].name,), True),
        (after, (), False),
    ):
        predicted = call(present, "--check", "--diff", absent=absent)
        done = call(present, "--diff", absent=absent)
        assert done["failed"] is False, done["msg"]
        assert (predicted["changed"], predicted.get("diff")) == (changed, done.get("diff"))
        assert actions(predicted) == actions(done)
        assert done["changed"] is changed
    assert sorted(node.look()) == [unit.name for unit in after]


@pytest.mark.timeout(120)
def test_a_failure_says_what_failed_and_what_is_back(node: Node, call: Call) -> None:
    port = free_port()
    good, bad = node.engine("moz", port), node.engine("moz", port, "--fail-load 0.1")
    node.apply([good])
    answer = call([bad], generation=2, expected={good.name: good.text_digest})
    assert answer["failed"] is True
    assert answer["msg"].startswith(f"{good.name}: the device's memory ran out (it ended and was restarted ")
    assert answer["msg"].endswith("; the previous version was put back and is ready.")
    unit = answer["units"][0]
    assert (unit["action"], unit["state"], unit["put_back"]) == ("restarted", "failed", True)
    assert "CUDA out of memory" in unit["log_tail"]
    refused = call([bad], generation=3, expected={good.name: bad.text_digest})
    assert "is not as it was when the plan was made" in refused["msg"]

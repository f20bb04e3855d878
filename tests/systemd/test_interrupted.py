# SPDX-License-Identifier: Apache-2.0
"""A run that is killed, at whatever moment, leaves what the next run understands and finishes (R8)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from tests.systemd.node import ROOT, Node, Outcome, free_port

SEED = 20
POINTS = 8
"""How many moments are tried in one run of the tests; LLMGW_ALL_POINTS=1 tries every one."""


class Scene:
    """A node before and after a plan."""

    def __init__(self, node: Node, before: list[WantedUnit], after: list[WantedUnit]) -> None:
        self.node = node
        self.before = before
        self.after = after
        self.removed = sorted({unit.name for unit in before} - {unit.name for unit in after})

    def reset(self) -> None:
        self.node.clear()
        self.node.apply(self.before)

    def finish(self) -> Outcome:
        return self.node.apply(self.after, self.removed, generation=2)

    def call(self, kill_at: int) -> subprocess.CompletedProcess[str]:
        return killed(self.node, self.after, self.removed, kill_at)

    def check(self) -> None:
        seen = self.node.look()
        assert sorted(seen) == sorted(unit.name for unit in self.after)
        for unit in self.after:
            assert seen[unit.name].active_state == "active"
            assert seen[unit.name].running_digest == unit.process_digest
            assert seen[unit.name].actual_text_digest == unit.text_digest
            assert seen[unit.name].edited is False
            assert seen[unit.name].needs_reload is False
            assert seen[unit.name].enabled is True
            assert self.node.state.last_good(unit.name) == unit.text
            assert self.node.state.record(unit.name).process_digest == unit.process_digest
        files = (*self.node.unit_dir.rglob("*"), *self.node.state_dir.rglob("*"))
        gone = [path.name for path in files if path.name.startswith(tuple(self.removed)) and self.removed]
        assert gone == []


def killed(node: Node, present: list[WantedUnit], absent: list[str], at: int) -> subprocess.CompletedProcess[str]:
    """One call that kills itself at its Nth step."""
    request = {
        "prefix": node.wrapped.prefix,
        "environment": dict(node.wrapped.environment),
        "state_dir": str(node.state_dir),
        "present": [asdict(unit) for unit in present],
        "absent": absent,
        "generation": 2,
        "kill_at": at,
    }
    return subprocess.run(
        [sys.executable, Path(__file__).with_name("killed.py")],
        input=json.dumps(request),
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'collections'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def everything(node: Node) -> Scene:
    """Units that are restarted, rewritten, removed and created."""
    ports = [free_port() for _ in range(3)]
    before = [node.engine("restart", ports[0]), node.engine("rewrite", ports[1]), node.engine("remove", ports[2])]
    after = [
        node.engine("restart", ports[0], "--max-num-seqs 3"),
        node.engine("rewrite", ports[1], description="new words"),
        node.engine("create", ports[2]),
    ]
    return Scene(node, before, after)


def words_alone(node: Node) -> Scene:
    """Nothing but a text that is written in place: no other unit's change makes up for a forgotten step."""
    port = free_port()
    return Scene(node, [node.engine("words", port)], [node.engine("words", port, description="new words")])


def moments(total: int) -> list[int]:
    """The moments to try: the first and the last, and a choice of those between."""
    if os.environ.get("LLMGW_ALL_POINTS") or total <= POINTS:
        return list(range(1, total + 1))
    chosen = random.Random(SEED).sample(range(2, total), POINTS - 2)
    return sorted({1, total, *chosen})


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scene_of", [everything, words_alone])
def test_a_run_killed_at_any_moment_is_finished_by_the_next(node: Node, scene_of: Callable[[Node], Scene]) -> None:
    scene = scene_of(node)
    scene.reset()
    unharmed = scene.call(kill_at=0)
    assert unharmed.returncode == 0, unharmed.stderr
    scene.check()
    total = int(unharmed.stdout)
    for moment in moments(total):
        scene.reset()
        ended = scene.call(kill_at=moment)
        # The number of looks while waiting varies a little: the last moments may lie behind the end.
        assert ended.returncode == -signal.SIGKILL or moment > total - 10, (moment, ended.stderr)
        results = scene.finish().results
        assert {result.state for result in results.values()} <= {"ready", "absent"}, (moment, results)
        scene.check()
        again = scene.finish()
        assert (again.changed, again.diff) == (False, []), moment


def test_a_failure_that_an_interrupted_run_did_not_live_to_see_is_still_put_back(node: Node) -> None:
    port = free_port()
    good, bad = node.engine("twice", port), node.engine("twice", port, "--fail-load 2")
    node.apply([good])
    (node.unit_dir / good.name).write_text(bad.text)
    node.systemctl("daemon-reload")
    node.systemctl("restart", good.name)
    result = node.apply([bad], generation=2).results[good.name]
    assert (result.action, result.state, result.put_back) == ("kept", "failed", True)
    assert node.look()[good.name].running_digest == good.process_digest

# SPDX-License-Identifier: Apache-2.0
"""A run that is killed, at whatever moment, leaves what the next run understands and finishes (R8)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from tests.systemd.node import ROOT, Node, free_port

SEED = 20
POINTS = 8
"""How many moments are tried in one run of the tests; LLMGW_ALL_POINTS=1 tries every one."""


class Scene:
    """A node with a unit of every fate: it is restarted, rewritten, removed, created, or fails and is put back."""

    def __init__(self, node: Node) -> None:
        self.node = node
        ports = [free_port() for _ in range(3)]
        self.before = [
            node.engine("restart", ports[0]),
            node.engine("rewrite", ports[1]),
            node.engine("remove", ports[2]),
        ]
        self.after = [
            node.engine("restart", ports[0], "--max-num-seqs 3"),
            node.engine("rewrite", ports[1], description="new words"),
            node.engine("create", ports[2]),
        ]
        self.removed = self.before[2].name

    def call(self, kill_at: int) -> subprocess.CompletedProcess[str]:
        return killed(self.node, self.after, [self.removed], kill_at)

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
        assert [path.name for path in files if "remove" in path.name and "logs" not in path.parts] == []


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


def moments(total: int) -> Iterator[int]:
    """The moments to try: the first and the last, and a choice of those between."""
    if os.environ.get("LLMGW_ALL_POINTS"):
        yield from range(1, total + 1)
        return
    chosen = random.Random(SEED).sample(range(2, total), POINTS - 2)  # noqa: S311 - no secret
    yield from sorted({1, total, *chosen})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_killed_at_any_moment_is_finished_by_the_next(node: Node) -> None:
    scene = Scene(node)
    node.apply(scene.before)
    unharmed = scene.call(kill_at=0)
    assert unharmed.returncode == 0, unharmed.stderr
    scene.check()
    total = int(unharmed.stdout)
    assert total > POINTS
    for moment in moments(total):
        node.clear()
        node.apply(scene.before)
        ended = scene.call(kill_at=moment)
        # The number of looks while waiting varies a little: the last moments may lie behind the end.
        assert ended.returncode == -signal.SIGKILL or moment > total - 10, (moment, ended.stderr)
        outcome = node.apply(scene.after, [scene.removed], generation=2)
        assert {result.state for result in outcome.results.values()} <= {"ready", "absent"}, (moment, outcome.results)
        scene.check()
        again = node.apply(scene.after, [scene.removed], generation=2)
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

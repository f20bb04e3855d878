# SPDX-License-Identifier: Apache-2.0
"""Plans of one generation by several controllers: on a host exactly one of them is carried out (R9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from tests.systemd.node import ROOT, Node, free_port

CONTROLLERS = 3
ROUNDS = 3


class Rival:
    """A controller's module on this host, held back until `go`."""

    def __init__(self, node: Node, **options: Any) -> None:
        self._process = subprocess.Popen(
            node.wrapped.argv([sys.executable, str(Path(__file__).with_name("rival.py"))]),
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'collections'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(json.dumps({"scope": "user", "state_dir": str(node.state_dir), "lock_timeout_s": 120, **options}))
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def go(self) -> None:
        self._say("go")

    def answer(self) -> dict[str, Any]:
        said, _nothing = self._process.communicate(timeout=120)
        answer: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return answer


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_of_plans_of_one_generation_a_host_carries_out_the_first_alone(node: Node) -> None:
    port = free_port()

    def version(number: int) -> WantedUnit:
        return node.engine("race", port, f"--max-num-seqs {number}")

    node.apply([version(1)], generation=1)
    running = version(1)
    for generation in range(2, 2 + ROUNDS):
        plans = {f"plan-{number}": version(100 * generation + number) for number in range(CONTROLLERS)}
        rivals = {
            plan: Rival(
                node,
                present=[asdict(unit)],
                expected={running.name: running.text_digest},
                generation=generation,
                plan_id=plan,
                by=f"ops@{plan}",
            )
            for plan, unit in plans.items()
        }
        for rival in rivals.values():
            rival.go()
        answers = {plan: rival.answer() for plan, rival in rivals.items()}
        (winner,) = [plan for plan, answer in answers.items() if not answer.get("failed")]
        assert answers.pop(winner)["changed"] is True
        for answer in answers.values():
            assert answer["overtaken"] is True
            said = f"generation {generation} was applied here by ops@{winner} at "
            assert answer["msg"].startswith(said), answer["msg"]
            assert f"this plan is of generation {generation} too: another controller was quicker" in answer["msg"]
        running = plans[winner]
        seen = node.look()[running.name]
        assert (seen.running_digest, seen.actual_text_digest) == (running.process_digest, running.text_digest)
        assert node.state.applied()[:3] == (generation, winner, f"ops@{winner}")
    # The plan that a loser makes next is of a higher generation, and goes on from what it finds.
    assert node.state.generation() == 1 + ROUNDS

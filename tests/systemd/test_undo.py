# SPDX-License-Identifier: Apache-2.0
"""A wave is undone by the units as they were before it: what is so already stays, all else comes back (R4)."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from tests.systemd.node import Node, Outcome, free_port


class Wave:
    """Three units that a wave changes: one does well, one fails, one goes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        ports = [free_port() for _ in range(3)]
        self.well, self.ill, self.gone = (
            node.engine(name, port) for name, port in zip(("well", "ill", "gone"), ports, strict=True)
        )
        self.before = [self.well, self.ill, self.gone]
        self.new_well = node.engine("well", ports[0], "--max-num-seqs 3")
        self.new_ill = node.engine("ill", ports[1], "--fail-load 0.1")
        node.apply(self.before, generation=1)

    def run(self) -> Outcome:
        return self.node.apply([self.new_well, self.new_ill], [self.gone.name], generation=2)

    def undo(self) -> Outcome:
        return self.node.apply(self.before, generation=2)

    def is_as_before(self, *units: WantedUnit) -> None:
        seen = self.node.look()
        for unit in units or self.before:
            assert seen[unit.name].active_state == "active"
            assert seen[unit.name].running_digest == unit.process_digest
            assert seen[unit.name].actual_text_digest == unit.text_digest
            assert seen[unit.name].enabled is True
            assert self.node.state.last_good(unit.name) == unit.text
            assert self.node.state.record(unit.name).process_digest == unit.process_digest


@pytest.mark.timeout(180)
def test_what_was_put_back_stays_and_what_did_well_or_went_comes_back(node: Node) -> None:
    wave = Wave(node)
    done = wave.run().results
    assert (done[wave.ill.name].state, done[wave.ill.name].put_back) == ("failed", True)
    assert done[wave.well.name].state == "ready"
    pid = node.main_pid(wave.ill.name)
    undone = wave.undo()
    assert undone.actions == {wave.well.name: "restarted", wave.ill.name: "kept", wave.gone.name: "created"}
    assert {result.state for result in undone.results.values()} == {"ready"}
    assert node.main_pid(wave.ill.name) == pid
    wave.is_as_before()
    assert node.state.record(wave.ill.name).generation == 1  # nobody brought it anew
    again = wave.undo()
    assert (again.changed, again.diff) == (False, [])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("left", ["stopped", "failed", "new text and no process", "new text and the old process"])
def test_a_unit_that_the_wave_left_in_any_state_comes_back(node: Node, left: str) -> None:
    port = free_port()
    old, new = node.engine("left", port), node.engine("left", port, "--fail-load 0.1")
    node.apply([old], generation=1)
    if left == "failed":
        node.systemctl("kill", "--signal=KILL", old.name)
    if left.startswith("new text"):
        (node.unit_dir / old.name).write_text(new.text)
        node.systemctl("daemon-reload")
    if left in {"stopped", "failed", "new text and no process"}:
        node.systemctl("stop", old.name)
    result = node.apply([old], generation=2).results[old.name]
    expected = {"stopped": "started", "failed": "started", "new text and no process": "restarted"}
    assert (result.action, result.state) == (expected.get(left, "rewritten"), "ready")
    seen = node.look()[old.name]
    assert (seen.running_digest, seen.actual_text_digest) == (old.process_digest, old.text_digest)
    assert node.state.last_good(old.name) == old.text


@pytest.mark.timeout(180)
def test_a_wave_that_was_killed_before_its_end_is_undone_from_where_it_stopped(node: Node) -> None:
    wave = Wave(node)
    (node.unit_dir / wave.well.name).write_text(wave.new_well.text)
    node.systemctl("daemon-reload")
    node.systemctl("restart", wave.well.name)
    wave.undo()
    wave.is_as_before()

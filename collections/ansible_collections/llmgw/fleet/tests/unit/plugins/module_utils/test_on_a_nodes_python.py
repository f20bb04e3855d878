# SPDX-License-Identifier: Apache-2.0
"""What must come out the same on a node's Python as on the controller's: `ansible-test units` runs it with both."""

from __future__ import annotations

import dataclasses
import json
import sys

from ansible_collections.llmgw.fleet.plugins.module_utils import contract, process, unitfile


def test_a_digest_is_the_same_on_every_python() -> None:
    described = {"argv": ["llama-server", "\u00fc"], "port": 18000}
    digest = unitfile.digest(described)
    assert digest == "sha256:ed8652618b23afe5805daf6ca4b0e59d236e15cc5c57c4a3e1387a100b6e2b33"
    digest = unitfile.text_digest("[Unit]\nDescription=chat/0\n")
    assert digest == "sha256:bdd87d7a338aeb79fdc9a291c73d333738daa46cff6b821d0d1aa7eb1059de32"


def test_a_unit_says_what_was_written_into_it() -> None:
    header = unitfile.Header(replica="chat/0", rank=0, members=1, port=18000, devices=("GPU-1", "GPU-2"))
    assert unitfile.parse("[Unit]\nDescription=x\n\n" + unitfile.section(header)) == header


def test_facts_that_nobody_collected_are_unknown_and_travel_as_json() -> None:
    facts = json.loads(json.dumps(dataclasses.asdict(contract.NodeFacts())))
    assert facts["contract_version"] == contract.CONTRACT_VERSION
    assert facts["gpus"] is None
    assert facts["findings"] == []


def test_a_command_that_does_not_end_is_ended() -> None:
    result = process.run([sys.executable, "-c", "import time; time.sleep(60)"], 0.5, {})
    assert result.timed_out
    assert result.rc != 0


def test_a_command_that_ends_says_how() -> None:
    result = process.run([sys.executable, "-c", "print('out'); raise SystemExit(3)"], 20, {})
    assert (result.rc, result.stdout, result.timed_out) == (3, "out\n", False)

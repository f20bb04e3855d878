# SPDX-License-Identifier: Apache-2.0
"""The module capture, in this process and as a node's Python runs it."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.capture import loading, taking
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import parameters
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import Options
from ansible_collections.llmgw.fleet.plugins.modules import capture
from tests.unit.modules import in_process


def test_the_module_writes_a_capture_that_only_its_owner_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dest = tmp_path / "c.tar.gz"
    answer = in_process.run(capture, capsys, dest=str(dest), name="n1", module_version="1.2.3", scope="user")
    assert (answer["changed"], answer["name"], answer["dest"]) == (True, "n1", str(dest))
    assert answer["size_bytes"] == dest.stat().st_size
    assert stat.S_IMODE(dest.stat().st_mode) == 0o600
    recording = loading.load(str(dest))
    assert answer["calls"] == len(recording.calls)
    assert (recording.module_version, recording.options["scope"], recording.redacted) == ("1.2.3", "user", False)
    facts = taking.facts_in(recording)
    assert facts.system is not None
    assert facts.system.scope == "user"


def test_one_key_gives_one_stand_in_on_every_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [
        in_process.run(
            capture,
            capsys,
            dest=str(tmp_path / number),
            name="rack7-n3",
            redact=True,
            redact_key="0123456789abcdef",
            redact_names=["rack7-n3"],
        )["name"]
        for number in "ab"
    ]
    assert names[0] == names[1] != "rack7-n3"
    recordings = [loading.load(str(tmp_path / number)) for number in "ab"]
    assert [recording.redacted for recording in recordings] == [True, True]
    boots = [(facts.system.boot_id if facts.system else None) for facts in map(taking.facts_in, recordings)]
    assert boots[0] == boots[1]


def test_check_mode_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = in_process.run(capture, capsys, check=True, dest=str(tmp_path / "c"))
    assert answer["changed"] is True
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_fails_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = in_process.run(capture, capsys, dest=str(tmp_path / "none/c"))
    assert answer["failed"] is True
    assert answer["msg"] == f"the capture cannot be written to {tmp_path}/none/c: No such file or directory"


def test_a_part_that_does_not_exist_fails_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = in_process.run(capture, capsys, dest=str(tmp_path / "c"), gather=["nonsense"])
    assert answer["failed"] is True
    assert "nonsense" in answer["msg"]


def test_parameters_that_nobody_gave_are_the_usual_options() -> None:
    spec: dict[str, Any] = dict(parameters.SPEC)
    given = {name: about.get("default") for name, about in spec.items()}
    assert replace(parameters.options(given), gather=Options().gather) == Options()
    commands = {"vllm": "/opt/vllm", "sim": ["/opt/sim", "-x"]}
    assert parameters.options({**given, "engine_commands": commands}).engine_commands == {
        "vllm": ("/opt/vllm",),
        "sim": ("/opt/sim", "-x"),
    }

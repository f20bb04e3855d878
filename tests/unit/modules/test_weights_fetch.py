# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.modules import weights_fetch
from tests.support.hub import Hub, Model, serving, tensors
from tests.unit.modules.in_process import run

MODEL = Model({"config.json": b"{}", "tokenizer.json": b'{"a": 1}', "model.safetensors": tensors(100_000)})
TINY, OTHER = {"hf_id": "org/tiny"}, {"hf_id": "org/other"}


def options(hub: Hub, directory: Path, *models: dict[str, str], **more: Any) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "models": list(models),
        "python": sys.executable,
        "endpoint": hub.address,
        "token_file": str(directory / "no-token"),
        "margin_bytes": 0,
        **more,
    }


def test_what_is_missing_is_fetched_and_a_second_run_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Hub({"org/tiny": MODEL, "org/other": MODEL})) as hub:
        wanted = options(hub, tmp_path, TINY, OTHER)
        promised = run(weights_fetch, capsys, check=True, **wanted)
        assert (promised["changed"], [one["action"] for one in promised["models"]]) == (True, ["would fetch"] * 2)
        assert list(tmp_path.iterdir()) == []
        assert hub.asked == []
        first = run(weights_fetch, capsys, **wanted)
        assert (first["changed"], [one["action"] for one in first["models"]]) == (True, ["fetched"] * 2)
        assert {"commit", "path", "size_bytes", "fetched_bytes", "seconds"} <= set(first["models"][0])
        for check in (False, True):
            again = run(weights_fetch, capsys, check=check, **wanted)
            assert (again["changed"], [one["action"] for one in again["models"]]) == (False, ["there"] * 2)


def test_what_is_made_is_for_everybody_to_read_whatever_the_umask_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = os.umask(0o077)
    try:
        with serving(Hub({"org/tiny": MODEL})) as hub:
            run(weights_fetch, capsys, **options(hub, tmp_path / "new" / "models", TINY))
    finally:
        os.umask(before)
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o755}


def test_the_first_that_fails_ends_it_and_what_came_before_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Hub({"org/tiny": MODEL, "org/other": MODEL})) as hub:
        wanted = options(hub, tmp_path, TINY, {"hf_id": "org/none", "revision": "v1"}, OTHER)
        answer = run(weights_fetch, capsys, **wanted)
    assert answer["failed"]
    assert answer["changed"]
    assert answer["msg"].startswith(f"org/none@v1 could not be fetched to {tmp_path}. {hub.address} shows nobody")
    assert [one["hf_id"] for one in answer["models"]] == ["org/tiny"]


def test_all_models_together_have_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Hub({"org/tiny": MODEL}, hold_at={"model.safetensors": 10})) as hub:
        answer = run(weights_fetch, capsys, **options(hub, tmp_path, TINY, OTHER, timeout_s=3))
    assert "org/tiny could not be fetched" in answer["msg"]
    assert "It took more than" in answer["msg"]


def test_a_mirrors_password_is_in_no_answer_and_its_address_is_still_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for user in ("bob:hunter2@", ""):
        mirror = Hub(address=f"http://{user}127.0.0.1:9/hf")
        answer = run(weights_fetch, capsys, **options(mirror, tmp_path, TINY))
        assert answer["failed"]
        assert "http://127.0.0.1:9/hf does not answer this host" in answer["msg"]
        assert "hunter2" not in str(answer)


def test_a_mirrors_password_is_not_written_to_the_nodes_log() -> None:
    assert weights_fetch.ARGUMENTS["endpoint"] == {"type": "str", "no_log": True}


def test_a_fetch_runs_from_the_version_that_the_link_led_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = tmp_path / "weights/2.4.0/bin"
    version.mkdir(parents=True)
    (version / "python").write_text('#!/bin/sh\necho "$0" >"${0%/*}/seen"\nexit 1\n')
    (version / "python").chmod(0o755)
    (tmp_path / "weights/current").symlink_to("2.4.0")
    python = str(tmp_path / "weights/current/bin/python")
    run(weights_fetch, capsys, **{**options(Hub(), tmp_path / "models", TINY), "python": python})
    assert (version / "seen").read_text() == f"{version}/python\n"

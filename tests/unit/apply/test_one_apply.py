# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply import history
from llmgw.apply.one_apply import LOCK, the_only_apply
from llmgw.errors import LlmgwError

RECORD: dict[str, Any] = {"generation": 3, "by": "ci@ctl2", "catalog": {"digest": "", "path": ""}}
HOLDER = """
import sys, time
from pathlib import Path
from llmgw.apply.one_apply import the_only_apply
with the_only_apply(Path(sys.argv[1]), Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another(facts: Path, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is at an apply."""
    command = [sys.executable, "-c", HOLDER, str(facts), str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "held\n"
        try:
            yield running
        finally:
            running.kill()


def refused(facts: Path, directory: Path) -> str:
    with pytest.raises(LlmgwError) as raised, the_only_apply(facts, directory):
        pass
    assert raised.value.code == "apply-runs"
    assert raised.value.fix == "wait for it, or end it"
    return raised.value.why


def test_a_second_apply_is_refused_by_the_name_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMGW_BY", "root@ctl")
    with another(tmp_path / "facts", tmp_path / "history") as running:
        said = refused(tmp_path / "facts", tmp_path / "history")
        assert said.startswith("an apply of root@ctl runs since ")
        assert f"UTC (process {running.pid}); nothing was begun" in said


def test_an_apply_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    with another(tmp_path, tmp_path / "history") as running:
        running.kill()
        running.wait()
        with the_only_apply(tmp_path, tmp_path / "history"):
            assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    with the_only_apply(tmp_path, tmp_path / "history"):
        pass


def test_what_the_file_says_only_helps_the_message(tmp_path: Path) -> None:
    with another(tmp_path, tmp_path / "history"):
        for text in ("", "null", "{}", "\x00", '{"pid": 1e999, "since": 1e999, "by": ""}'):
            (tmp_path / LOCK).write_text(text)
            assert "an apply" in refused(tmp_path, tmp_path / "history")


def test_an_apply_that_the_history_knows_to_run_here_is_waited_for(tmp_path: Path) -> None:
    assert history.begin(tmp_path / "history", "run1", RECORD, "playbook", time.time()) == []
    said = refused(tmp_path / "facts", tmp_path / "history")
    assert f"an apply of ci@ctl2 runs since {time.strftime('%H', time.gmtime())}:" in said
    assert f"(process {os.getppid()})" in said
    history.end(tmp_path / "history", "run1", history.DONE, [], time.time())
    with the_only_apply(tmp_path / "facts", tmp_path / "history"):
        pass


def test_an_apply_of_another_machine_is_in_nobodys_way(tmp_path: Path) -> None:
    history.begin(tmp_path / "history", "run1", RECORD, "playbook", time.time())
    (path,) = (tmp_path / "history").glob("*run1.json")
    document = json.loads(path.read_text())
    document["process"]["host"] = "elsewhere"
    path.write_text(json.dumps(document))
    with the_only_apply(tmp_path / "facts", tmp_path / "history"):
        pass

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.apply import actions, lock
from llmgw.apply.lock import facts_of_a_host, held
from llmgw.errors import LlmgwError
from llmgw.fleet import store
from llmgw.nodekit import contract
from tests.support.fleets import facts
from tests.unit.apply.test_actions import discovered

WHOLE = facts("n1", gpus=1, collected_at=1000.0, hardware_key="boot 1")
HOLDER = """\
import sys
from pathlib import Path
from llmgw.apply.lock import held
with held(Path(sys.argv[1]), 0) as holder:
    print(holder, flush=True)
    sys.stdin.read()
"""


def test_the_second_is_told_who_holds_a_lock_and_gets_it_when_that_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "None\n"
        with held(path, 0.1) as holder:
            assert holder is not None
            assert holder.startswith(f"process {other.pid} (since 2")
        other.kill()
    with held(path, 0.1) as holder:
        assert holder is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x", "since": 1}', '{"pid": 1, "since": 1e99}'])
def test_a_holder_that_did_not_say_who_it_is_is_another_process(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.lock"
    with held(path, 0):
        path.write_text(text)
        with held(path, 0) as holder:
            assert holder == "another process"


def test_facts_that_stay_locked_are_not_kept_and_the_reason_names_the_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_of_a_host.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]
    with facts_of_a_host(tmp_path):
        kept = actions.keep_facts(tmp_path, {"n1": discovered(WHOLE)}, 2000.0)
    assert kept["stored"] == []
    assert f"held for 0.1 s by process {os.getpid()} " in kept["missing"]["n1"]
    assert store.load(tmp_path, "n1").facts is None


def test_a_place_where_no_lock_can_be_says_so(tmp_path: Path) -> None:
    (tmp_path / "facts").write_text("a file")
    with pytest.raises(LlmgwError, match="facts cannot be kept") as caught, facts_of_a_host(tmp_path / "facts"):
        pass
    assert caught.value.code == "facts-unwritable"
    with pytest.raises(LlmgwError, match="is a directory"), held(tmp_path, 0):
        pass


def test_two_readings_of_one_host_that_end_together_lose_nothing_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions.keep_facts(tmp_path, {"n1": discovered(WHOLE)}, 1000.0)
    load, reads, long_one = store.load, threading.Event(), []
    newer = replace(WHOLE, gpus=facts("n1", gpus=4).gpus, collected_at=1900.0)

    def keep_newer() -> None:
        actions.keep_facts(tmp_path, {"n1": discovered(newer)}, 2000.0)

    def slow(directory: Path, host: str) -> object:
        found = load(directory, host)
        if not reads.is_set():
            reads.set()
            thread = threading.Thread(target=keep_newer)
            thread.start()
            thread.join(1)  # without a lock it is done by now, with it it waits
            long_one.append(thread)
        return found

    monkeypatch.setattr(store, "load", slow)
    partly = contract.NodeFacts(collected_at=2000.0, hardware_key="boot 1", gathered=("memory",))
    actions.keep_facts(tmp_path, {"n1": discovered(partly)}, 2000.0)
    long_one[0].join(30)
    stored = load(tmp_path, "n1").facts
    assert stored is not None
    assert stored.gpus == newer.gpus
    assert lock.FACTS_LOCK not in store.load_all(tmp_path)

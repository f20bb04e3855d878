# SPDX-License-Identifier: Apache-2.0
"""Commands end in time, with all that they started, and say how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import process
from ansible_collections.llmgw.fleet.plugins.module_utils.process import MISSING, UNUSABLE

ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
LONG = "60"


def ended(pid: int, within_s: float = 5) -> bool:
    """Whether a process ends soon (a zombie has ended)."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_a_command_tells_its_status_and_both_outputs() -> None:
    result = process.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10, ENVIRONMENT)
    assert result == (3, "out\n", "err\n", False)


def test_a_missing_command_is_status_127_with_its_name() -> None:
    result = process.run(["no-such-command"], 10, ENVIRONMENT)
    assert result.rc == MISSING
    assert "no-such-command" in result.stderr


def test_what_cannot_be_executed_is_status_126() -> None:
    assert process.run(["/"], 10, ENVIRONMENT).rc == UNUSABLE
    assert process.run(["with\0zero"], 10, ENVIRONMENT).rc == UNUSABLE


def test_a_timeout_kills_the_whole_process_group(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    result = process.run(["sh", "-c", f"sleep {LONG} & echo $! > {noted}; wait"], 0.5, ENVIRONMENT)
    assert result.timed_out
    assert result.rc == -signal.SIGKILL
    assert ended(int(noted.read_text(encoding="utf-8")))


def test_a_child_that_keeps_the_pipes_open_is_not_waited_for() -> None:
    begun = time.monotonic()
    result = process.run(["sh", "-c", "sleep 60 & echo done"], 50, ENVIRONMENT)
    assert (result.rc, result.stdout, result.timed_out) == (0, "done\n", False)
    assert time.monotonic() - begun < 40


def test_a_child_that_goes_on_printing_is_not_listened_to() -> None:
    result = process.run(["sh", "-c", "(while :; do echo x; sleep 0.01; done) & exit 3"], 20, ENVIRONMENT)
    assert (result.rc, result.timed_out) == (3, False)


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    result = process.run(["sh", "-c", f"sleep {LONG} >&- 2>&- & echo $! > {noted}; exit 5"], 20, ENVIRONMENT)
    assert (result.rc, result.timed_out) == (5, False)
    assert ended(int(noted.read_text(encoding="utf-8")))


def test_a_command_that_prints_without_end_is_stopped_at_once() -> None:
    begun = time.monotonic()
    result = process.run(["yes", "<gpu>garbage"], 50, ENVIRONMENT)
    assert time.monotonic() - begun < 40
    assert (result.rc, result.timed_out) == (-signal.SIGKILL, False)
    assert result.stdout.startswith("<gpu>garbage\n")
    assert len(result.stdout) < 10_000
    assert "stopped, for it had printed 32 MiB" in result.stderr


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_command_outlives_a_process_that_is_killed(tmp_path: Path, deadly: signal.Signals) -> None:
    noted = tmp_path / "pid"
    command = f"trap '' TERM HUP INT; sleep {LONG} & echo $! $$ > {noted}.new; mv {noted}.new {noted}; wait"
    code = f"from {process.__name__} import run; run(['sh', '-c', {command!r}], {LONG}, {ENVIRONMENT!r})"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as caller:
        deadline = time.monotonic() + 20
        while not noted.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        caller.send_signal(deadly)
    assert all(ended(int(pid)) for pid in noted.read_text(encoding="utf-8").split())


def test_a_command_that_closes_its_outputs_is_still_waited_for() -> None:
    result = process.run(["sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4"], 10, ENVIRONMENT)
    assert (result.rc, result.timed_out) == (4, False)


def test_large_input_and_output_pass_through_whole() -> None:
    text = "0123456789\n" * 50_000
    assert process.run(["cat"], 20, ENVIRONMENT, text).stdout == text


def test_a_command_that_ignores_its_input_does_not_hurt() -> None:
    assert process.run(["true"], 20, ENVIRONMENT, "x" * 1_000_000).rc == 0


def test_a_process_that_may_open_no_more_files_runs_nothing_and_leaves_nothing_behind() -> None:
    code = f"""
import os, resource
from {process.__name__} import run
environment = dict(os.environ)
run(["true"], 5, environment)
seen = set()
for most in range(3, 24):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, 64))
    seen.add(run(["true"], 5, environment).rc)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(sorted(seen))
"""
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (found.stderr, found.returncode) == ("", 0)
    assert found.stdout == "[0, 126]\n", found.stderr


def test_output_that_is_no_text_is_kept_readable() -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\xffb')"
    assert process.run([sys.executable, "-c", code], 20, ENVIRONMENT).stdout == "a\ufffdb"

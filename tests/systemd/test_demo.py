# SPDX-License-Identifier: Apache-2.0
"""The demo on this machine, by whatever manager it can have; where systemd did not boot it, that is a private one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(200)]


def demo(tmp: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmgw", "demo", "--once"]
    environment = {**os.environ, "TMPDIR": str(tmp)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False, cwd=tmp)


def test_the_demo_answers_twice_and_leaves_nothing_behind() -> None:
    with tempfile.TemporaryDirectory(prefix="llmgw-test-") as tmp:  # short: sockets live below it
        for _ in range(2):
            done = demo(Path(tmp))
            assert done.returncode == 0, done.stdout + done.stderr
            assert any(line.startswith("> ") and len(line) > 10 for line in done.stdout.splitlines())
            assert list(Path(tmp).iterdir()) == []

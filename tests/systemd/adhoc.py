# SPDX-License-Identifier: Apache-2.0
"""Runs a module by `ansible` on this machine, where the private manager is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.systemd.node import ROOT, Wrapped


def run(wrapped: Wrapped, scratch: Path, module: str, *flags: str, **options: Any) -> dict[str, Any]:
    """What the module answers, failed or not."""
    scratch.mkdir(exist_ok=True)
    given = scratch / "options.json"
    given.write_text(json.dumps(options))
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(scratch / "ansible"),
        "ANSIBLE_REMOTE_TEMP": str(scratch / "remote"),
    }
    argv = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", module, "-a", f"@{given}", *flags]
    done = subprocess.run(
        wrapped.argv([*(f"{key}={value}" for key, value in environment.items()), *argv]),
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "{" in done.stdout, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{\n") :].partition("\n}")[0] + "\n}")
    return answer

# SPDX-License-Identifier: Apache-2.0
"""`systemd-analyze verify` over rendered units, with stand-ins for the engines that they start."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ENGINES = "/opt/llmgw/engines/"
PROGRAMS = {"sim": "llmgw-sim", "llama.cpp": "llama-server", "vllm": "vllm", "sglang": "sglang"}


def complaints(units: Mapping[str, str], folder: Path, *, user: bool = False) -> str:
    """All that systemd has to say about the units: nothing, when they are right. Skips where there is no systemd."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    names = [_write(name, text, folder) for name, text in units.items()]
    command = ["systemd-analyze", *(["--user"] if user else []), "verify", *names]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder), "LC_ALL": "C"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=50, check=False, env=environment, stdin=subprocess.DEVNULL
    )
    return done.stdout + done.stderr + (f"status {done.returncode}" if done.returncode else "")


def _write(name: str, text: str, folder: Path) -> str:
    """The path of a unit whose programs exist."""
    engines = folder / "engines"
    for kind, program in PROGRAMS.items():
        for folder_of_kind in ("bin", "current/bin"):
            stand_in = engines / kind / folder_of_kind / program
            stand_in.parent.mkdir(parents=True, exist_ok=True)
            stand_in.write_text("#!/bin/sh\n", encoding="utf-8")
            stand_in.chmod(0o755)
    path = folder / name
    path.write_text(text.replace(f"ExecStart={ENGINES}", f"ExecStart={engines}/"), encoding="utf-8")
    return str(path)

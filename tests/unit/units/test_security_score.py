# SPDX-License-Identifier: Apache-2.0
"""How exposed systemd itself finds units (`systemd-analyze security`): 0 is sealed, 10 is bare."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.units.unit_cases import cases

MOST = 4.0
BY_A_USER = tuple(name for name in sorted(cases()) if "user" in name.split("-"))
BY_THE_SYSTEM = tuple(name for name in sorted(cases()) if name not in BY_A_USER)
WITHOUT_SANDBOX = 8.0


def exposure(texts: dict[str, str], folder: Path) -> dict[str, float]:
    """Every unit's figure, from 0 to 10, by its name. Skips where there is no systemd."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    found = {}
    for name, text in texts.items():
        path = folder / f"llmgw-{name}.0.0.service"
        path.write_text(text, encoding="utf-8")
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        figure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
        assert figure, done.stdout + done.stderr
        found[name] = float(figure[1])
    return found


def test_every_unit_of_the_system_is_sealed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    found = exposure({name: case.unit.text for name, case in cases().items()}, tmp_path)
    with capsys.disabled():
        sys.stdout.write("\nsystemd-analyze security (0 sealed, 10 bare):\n")
        sys.stdout.writelines(f"  {figure:4.1f}  {name}\n" for name, figure in found.items())
    for name, figure in found.items():
        record_property(name, figure)
    assert {name: found[name] for name in BY_THE_SYSTEM if found[name] > MOST} == {}


@pytest.mark.parametrize("line", ["CapabilityBoundingSet=", "NoNewPrivileges=yes", "DevicePolicy=closed"])
def test_the_figure_shows_what_is_missing(tmp_path: Path, line: str) -> None:
    text = cases()["vllm-one-gpu"].unit.text
    lines = text.splitlines()
    lines.remove(line)
    less = "\n".join(one for one in lines if not one.startswith("DeviceAllow=") or line != "DevicePolicy=closed")
    before, after = (exposure({"x": one}, tmp_path)["x"] for one in (text, less))
    assert after > before


def test_a_unit_without_a_sandbox_is_found_bare(tmp_path: Path) -> None:
    assert exposure({"bare": "[Service]\nExecStart=/bin/true\n"}, tmp_path)["bare"] > WITHOUT_SANDBOX

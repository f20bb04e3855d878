# SPDX-License-Identifier: Apache-2.0
"""nvidia-ml-py in a folder of its own: from a wheel, replaced in one step, and found by discovery before any other."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import cards, nvml
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

PROGRAM = Path(__file__).parents[3] / "collections/ansible_collections/llmgw/fleet/roles/node/files/install_nvml.py"
LIBRARY = (
    "def nvmlInit(): pass\ndef nvmlDeviceGetCount(): return 0\ndef nvmlSystemGetDriverVersion(): return b'{version}'\n"
)


def wheel(folder: Path, version: str = "13.615.71", library: str = LIBRARY) -> None:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"nvidia_ml_py-{version}-py3-none-any.whl", "w") as packed:
        packed.writestr("pynvml.py", library.replace("{version}", version))
        packed.writestr(f"nvidia_ml_py-{version}.dist-info/RECORD", "")


def install(folder: Path, wheels: Path, version: str = "13.615.71") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(PROGRAM), str(folder), version, str(wheels)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)


def test_discovery_finds_the_library_that_was_installed_before_any_other(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    done = install(tmp_path / "nvml", tmp_path / "wheels")
    assert (done.returncode, done.stderr) == (0, "")
    answer = nvml.read(Host().python("nvml", cards.program(str(tmp_path / "nvml")), 30).stdout)
    assert answer == nvml.Report("13.615.71", None, ())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nvml", "wheels"]


def test_another_version_replaces_the_whole_folder(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    wheel(tmp_path / "wheels", "14.1")
    install(tmp_path / "nvml", tmp_path / "wheels")
    assert install(tmp_path / "nvml", tmp_path / "wheels", "14.1").returncode == 0
    kept = sorted(path.name for path in (tmp_path / "nvml").iterdir() if path.name != "__pycache__")
    assert kept == ["nvidia_ml_py-14.1.dist-info", "pynvml.py"]


def test_a_missing_or_damaged_wheel_costs_nothing_that_is_there_and_says_what_to_do(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels")
    install(tmp_path / "nvml", tmp_path / "wheels")
    missing = install(tmp_path / "nvml", tmp_path / "wheels", "15.0")
    assert missing.returncode == 1
    assert "pip download --no-deps nvidia-ml-py==15.0" in missing.stderr
    (tmp_path / "wheels/nvidia_ml_py-16.0-py3-none-any.whl").write_bytes(b"half a file")
    assert "is damaged" in install(tmp_path / "nvml", tmp_path / "wheels", "16.0").stderr
    wheel(tmp_path / "wheels", "17.0", "import nothing_of_this_name")
    assert "cannot import it" in install(tmp_path / "nvml", tmp_path / "wheels", "17.0").stderr
    assert (tmp_path / "nvml/nvidia_ml_py-13.615.71.dist-info").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nvml", "wheels"]

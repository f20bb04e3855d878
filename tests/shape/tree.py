# SPDX-License-Identifier: Apache-2.0
"""The files of the project, for tests that look at the project itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLLECTION = Path("collections/ansible_collections/llmgw/fleet")


def files(*under: str) -> list[Path]:
    """Every file that is or would be committed, relative to ROOT and sorted; `under` names folders to keep to."""
    git = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *under)
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True, timeout=20).stdout
    return sorted(path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file())


def python_files(*under: str) -> list[Path]:
    """Those of `files` that are Python: by name, or by their first line."""
    return [path for path in files(*under) if path.suffix == ".py" or _names_python(ROOT / path)]


def _names_python(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(100)
    return first.startswith(b"#!") and b"python" in first

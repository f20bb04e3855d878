# SPDX-License-Identifier: Apache-2.0
"""Golden files: what a test produced against what a folder holds. `pytest --update-golden` rewrites the folder."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path

import pytest


def compare(folder: Path, produced: Mapping[str, str], *, update: bool) -> None:
    """Fails unless the folder holds exactly these files with exactly these texts; with `update` makes it so."""
    if update:
        for path in _files(folder).values():
            path.unlink()
        for name, text in produced.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return
    golden = {name: path.read_text(encoding="utf-8") for name, path in _files(folder).items()}
    lines = [line for name in sorted({*golden, *produced}) for line in _difference(name, golden, produced)]
    if lines:
        pytest.fail("\n".join([f"differs from {folder} (right? then: pytest --update-golden)", *lines]), pytrace=False)


def _difference(name: str, golden: Mapping[str, str], produced: Mapping[str, str]) -> list[str]:
    if name not in produced:
        return [f"{name} is there and is not produced any more"]
    if name not in golden:
        return [f"{name} is produced and is not there"]
    before, after = golden[name].splitlines(), produced[name].splitlines()
    return list(unified_diff(before, after, f"{name}, golden", f"{name}, produced", lineterm=""))


def _files(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}

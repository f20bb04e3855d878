# SPDX-License-Identifier: Apache-2.0
"""Errors that engines print, one line each: engine, name of the error, the line."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parents[1] / "fixtures" / "engine-errors.txt"


def _read(line: str) -> tuple[str, str, str]:
    kind, code, said = line.split(" | ", 2)
    return kind, code, said


SAID = [_read(line) for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]

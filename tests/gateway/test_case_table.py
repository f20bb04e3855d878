# SPDX-License-Identifier: Apache-2.0
"""The page of what broke elsewhere names tests that exist, and misses no case."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/what-broke-elsewhere.md").read_text()
CASES = 55


def test_every_case_has_a_row_and_what_holds_it() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert [int(number) for number, _held_by in rows] == list(range(1, CASES + 1))
    assert [number for number, held_by in rows if "`test_" not in held_by and held_by != "does not apply"] == []


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", PAGE))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }
    assert named - there == set()

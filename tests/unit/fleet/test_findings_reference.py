# SPDX-License-Identifier: Apache-2.0
"""docs/reference/findings.md names every finding that there is, and none that there is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs/reference/findings.md"
UTILS = ROOT / "collections/ansible_collections/llmgw/fleet/plugins/module_utils"
SOURCES = sorted([*(UTILS / "discovery").glob("*.py"), UTILS / "node_marks.py", *(ROOT / "llmgw/fleet").glob("*.py")])
MAKERS = {"Finding", "_finding", "_Explained"}


def documented() -> set[str]:
    rows = [line.split("|")[1] for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {code for row in rows for code in re.findall(r"`([a-z-]+)`", row)}


def made(path: Path) -> Iterator[str]:
    """Codes that a source file gives to a finding in so many words."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", getattr(call.func, "attr", "")) in MAKERS:
            values = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "code")]
            for value in values:
                for word in ast.walk(value):
                    if isinstance(word, ast.Constant) and isinstance(word.value, str):
                        yield word.value


def test_every_finding_is_in_the_reference() -> None:
    found = {code: path.name for path in SOURCES for code in made(path)}
    assert found
    assert {code: name for code, name in found.items() if code not in documented()} == {}


def test_the_reference_has_no_finding_that_nothing_makes() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    assert [code for code in sorted(documented()) if f'"{code}"' not in text] == []

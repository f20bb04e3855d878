# SPDX-License-Identifier: Apache-2.0
"""Outputs of real machines with their right readings: no part of the project, but read where they lie beside it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("LLMGW_CORPUS", ROOT.parent / "shared" / "corpus"))
WHY_NOT = f"no corpus of tool outputs at {FOLDER} (set LLMGW_CORPUS)"


@dataclass(frozen=True)
class Item:
    """One text and how it is to be read."""

    id: str
    kind: str
    text: str
    expected: dict[str, Any]


def items(kind: str) -> list[Any]:
    """Parameters for pytest: the items of a kind, or one that skips."""
    index = FOLDER / "index.json"
    if not index.is_file():
        return [pytest.param(None, marks=pytest.mark.skip(reason=WHY_NOT), id="no-corpus")]
    listed = json.loads(index.read_text(encoding="utf-8"))["items"]
    found = [
        Item(one["id"], kind, (FOLDER / one["file"]).read_bytes().decode("utf-8", "replace"), one["expected"])
        for one in listed
        if one["kind"] == kind
    ]
    return [pytest.param(item, id=item.id) for item in found]

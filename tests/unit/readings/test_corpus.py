# SPDX-License-Identifier: Apache-2.0
"""What real machines printed is read exactly, kind by kind; a reading may say more than is asked of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.kinds import KINDS, reading
from tests.unit.readings.corpus import Item, items


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Places at which the reading says something else than expected, or nothing."""
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{place}/{key}: not in the reading" for key in expected if key not in found]
        shared = [key for key in expected if key in found]
        return missing + [line for key in shared for line in differences(expected[key], found[key], f"{place}/{key}")]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for index, (one, other) in pairs for line in differences(one, other, f"{place}/{index}")]
    same = type(expected) is type(found) and expected == found
    return [] if same else [f"{place}: expected {expected!r}, read {found!r}"]


@pytest.mark.parametrize("item", [item for kind in KINDS for item in items(kind)])
def test_a_real_output_is_read_exactly(item: Item) -> None:
    as_json = json.loads(json.dumps(reading(item.kind, item.text)))
    assert differences(item.expected, as_json) == []


@pytest.mark.parametrize("item", [item for kind in KINDS for item in items(kind)])
def test_line_ends_of_another_system_change_nothing(item: Item) -> None:
    text = item.text.replace("\r\n", "\n").rstrip("\n").replace("\n", "\r\n")
    assert differences(item.expected, json.loads(json.dumps(reading(item.kind, text)))) == []

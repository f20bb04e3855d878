# SPDX-License-Identifier: Apache-2.0
"""Plain YAML scalars by the core schema of YAML 1.2.2 (section 10.3.2); numbers remember how they were written."""

from __future__ import annotations

import re

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# Longer digits are text: no quantity of a catalog has them, and Python refuses to convert thousands of them.
_INTEGERS = (
    (re.compile(r"[-+]?[0-9]{1,30}"), 10),
    (re.compile(r"0o[0-7]{1,30}"), 8),
    (re.compile(r"0x[0-9a-fA-F]{1,30}"), 16),
)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]{1,30}|[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,3})?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_SPELLED = re.compile(r"\.(inf|nan)", re.IGNORECASE)


class WrittenInt(int):
    """An integer and the text it was written as."""

    written: str


class WrittenFloat(float):
    """A number and the text it was written as: a label `12.10` must not become `12.1`."""

    written: str


def plain(text: str) -> bool | WrittenInt | WrittenFloat | str | None:
    """The value of an unquoted scalar. `no`, `on` and `12:30` are text, as YAML 1.2 has it."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(text):
            return _integer(text, base)
    return _number(text, float(_SPELLED.sub(r"\1", text))) if _FLOAT.fullmatch(text) else text


def written(value: object) -> str | None:
    """The text of a number as it was written, or None when the value is no number."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _integer(text: str, base: int) -> WrittenInt:
    value = WrittenInt(text, base)
    value.written = text
    return value


def _number(text: str, number: float) -> WrittenFloat:
    value = WrittenFloat(number)
    value.written = text
    return value

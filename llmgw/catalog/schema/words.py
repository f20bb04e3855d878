# SPDX-License-Identifier: Apache-2.0
"""What a field takes, in words: for error messages and for the reference page."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from llmgw.catalog.schema.base import Expects
from llmgw.catalog.schema.document import Slot, opened
from llmgw.catalog.schema.types import Listed

_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def words(slot: Slot) -> str:
    """`a whole number, at least 1`, `one of ...`, `a list of ...`."""
    expects = slot.mark(Expects)
    if expects is not None:
        return expects.words
    origin, arguments = get_origin(slot.annotation), get_args(slot.annotation)
    if origin is Literal:
        return choices_in_words(arguments)
    if origin is dict:
        value = opened(arguments[1])
        return "a mapping of names to mappings" if value.entry else f"a mapping of names to {words(value)}"
    if origin is tuple:
        listed = slot.mark(Listed)
        item = words(opened(arguments[0]))
        return f"{item}; or a list of such" if listed is not None and listed.single else f"a list; each item: {item}"
    if slot.entry is not None:
        return "a mapping"
    return _PLAIN[slot.annotation]


def choices_in_words(choices: tuple[Any, ...]) -> str:
    """`1`, or ``one of `a`, `b` ``."""
    every = ", ".join(f"`{choice}`" for choice in choices)
    return f"one of {every}" if len(choices) > 1 else every

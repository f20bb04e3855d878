# SPDX-License-Identifier: Apache-2.0
"""Facts with something in every field of the contract, and the same facts with one field told otherwise.

A field is called by its path: `gpus.temperature_c` is that of the cards, `system.boot_id` that of the system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from llmgw.nodekit import contract

_TOLD: dict[str, tuple[Any, Any]] = {
    "findings.severity": ("block", "warn"),
    "findings.part": ("weights", "gpus"),
    "units.active_state": ("active", "failed"),
    "units.sub_state": ("running", "auto-restart"),
}
"""What a field says and what it says otherwise, where any two words would not do."""


@cache
def whole() -> contract.NodeFacts:
    """Facts with two entries wherever several can be, and nothing unknown."""
    made: contract.NodeFacts = _made(contract.NodeFacts, "", 0)
    return made


@cache
def paths() -> tuple[str, ...]:
    """Every field that holds a value and no parts of its own, by its path."""
    return tuple(_paths(contract.NodeFacts, ""))


def otherwise(facts: contract.NodeFacts, path: str) -> contract.NodeFacts:
    """The facts with that field told otherwise, of several entries in the first."""
    changed: contract.NodeFacts = _otherwise(facts, path, "")
    return changed


def in_another_order(facts: Any) -> Any:
    """The facts with all that has several entries told backwards."""
    changed = {}
    for one in fields(facts):
        value = getattr(facts, one.name)
        if is_dataclass(value):
            changed[one.name] = in_another_order(value)
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            changed[one.name] = tuple(in_another_order(entry) for entry in reversed(value))
    return replace(facts, **changed)


def _paths(kind: Any, place: str) -> Iterator[str]:
    for name, hint in get_type_hints(kind).items():
        path = f"{place}{name}"
        inner = _entry(hint)
        if is_dataclass(inner):
            yield from _paths(inner, f"{path}.")
        else:
            yield path


def _made(kind: Any, place: str, number: int) -> Any:
    return kind(**{name: _value(hint, f"{place}{name}", number) for name, hint in get_type_hints(kind).items()})


def _value(hint: Any, path: str, number: int) -> Any:
    inner = _entry(hint)
    if is_dataclass(inner):
        several = get_origin(_known(hint)) is tuple
        return tuple(_made(inner, f"{path}.", one) for one in (0, 1)) if several else _made(inner, f"{path}.", number)
    return _TOLD[path][0] if path in _TOLD else _plain(_known(hint), number)


def _plain(hint: Any, number: int) -> Any:
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        return tuple(_plain(one, number) for one in inner if one is not Ellipsis)
    return {bool: True, int: 7 + number, float: 0.5 + number, str: f"word{number}"}[hint]


def _otherwise(facts: Any, path: str, place: str) -> Any:
    name, _dot, rest = path.partition(".")
    value = getattr(facts, name)
    if not rest:
        return replace(facts, **{name: _TOLD[place + name][1] if place + name in _TOLD else _turned(value)})
    if isinstance(value, tuple):
        return replace(facts, **{name: (_otherwise(value[0], rest, f"{place}{name}."), *value[1:])})
    return replace(facts, **{name: _otherwise(value, rest, f"{place}{name}.")})


def _turned(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return tuple(map(_turned, value))
    return value + 100 if isinstance(value, (int, float)) else f"{value}-otherwise"


def _entry(hint: Any) -> Any:
    """What a field holds, one or several of it."""
    known = _known(hint)
    return get_args(known)[0] if get_origin(known) is tuple else known


def _known(hint: Any) -> Any:
    """The type of what is known."""
    named = [one for one in get_args(hint) if one is not type(None)]
    return named[0] if get_origin(hint) is not tuple and named else hint

# SPDX-License-Identifier: Apache-2.0
"""pydantic's errors as problems in plain words: what is wrong and what to write. Its own messages never leave here."""

from __future__ import annotations

from collections.abc import Callable

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from llmgw.catalog import codes
from llmgw.catalog.problem import Problem, listed
from llmgw.catalog.remedies import chosen, converted, is_hidden, meant_key, respelled, synonym
from llmgw.catalog.scalars import written
from llmgw.catalog.schema.base import Entry
from llmgw.catalog.schema.document import Slot, places, slot_at
from llmgw.catalog.schema.words import words
from llmgw.catalog.tree import Path

_KEY_STEP = "[key]"
_LONGEST_SHOWN = 60


def problem(error: ErrorDetails, path: Path) -> Problem:
    """The problem that an error of pydantic means. `path`: its place in the data, one value may stand for a list."""
    if error["loc"][-1:] == (_KEY_STEP,):
        return _bad_name(path, error)
    if error["type"] in codes.MEANINGS:
        context = error["ctx"]
        return Problem(path, error["type"], f"{_label(path)}: {context['why']}", context["fix"])
    return _SENTENCES[error["type"]](path, error)


def error_path(error: ErrorDetails) -> Path:
    """The path that pydantic puts an error at."""
    return error["loc"][:-1] if error["loc"][-1:] == (_KEY_STEP,) else error["loc"]


def entry_of(path: Path) -> type[Entry]:
    """The entry that has, or lacks, the last key of a path."""
    slot = slot_at(path[:-1])
    return slot.entry if slot is not None and slot.entry is not None else Entry


def field_of(path: Path) -> FieldInfo | None:
    """The field at a path, or None where the schema has none of that name."""
    return entry_of(path).model_fields.get(str(path[-1])) if path else None


def known_types() -> frozenset[str]:
    """The types of pydantic's errors that there is a sentence for."""
    return frozenset(_SENTENCES)


def _label(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step + 1}]" if isinstance(step, int) else f".{step or chr(39) * 2}" if text else step
    return f"`{text}`" if text else "the catalog"


def _slot(error: ErrorDetails) -> Slot:
    at_key = error["loc"][-1:] == (_KEY_STEP,)
    return slot_at(error_path(error), key=at_key) or Slot(str)


def _found(error: ErrorDetails) -> str:
    value = error["input"]
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the truth value {'true' if value else 'false'}"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if is_hidden(_slot(error)):
        return "something else"
    if (number := written(value)) is not None:
        return f"the number {number}"
    text = str(value)
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
    return f"the text `{shown}`" if shown else "an empty text"


def _takes(path: Path, error: ErrorDetails) -> str:
    return f"{_label(path)} takes {words(_slot(error))}; here is {_found(error)}"


def _mismatch(path: Path, error: ErrorDetails) -> Problem:
    return Problem(path, codes.TYPE, _takes(path, error), _described(error) or converted(_slot(error), error["input"]))


def _choice(path: Path, error: ErrorDetails) -> Problem:
    return Problem(path, codes.VALUE, _takes(path, error), chosen(_slot(error), error["input"]))


def _pattern(path: Path, error: ErrorDetails) -> Problem:
    form = "Write it in that form."
    fix = _described(error) or (form if is_hidden(_slot(error)) else _respelled(error["input"], error, form))
    return Problem(path, codes.VALUE, _takes(path, error), fix)


def _bad_name(path: Path, error: ErrorDetails) -> Problem:
    why = f"{_label(path)}: the key must be {words(_slot(error))}"
    return Problem(path, codes.KEY, why, _respelled(path[-1], error, "Rename it."), at_key=True)


def _respelled(value: object, error: ErrorDetails, otherwise: str) -> str:
    meant = respelled(str(value), error["ctx"]["pattern"], name=error["loc"][-1:] == (_KEY_STEP,))
    return f"Did you mean `{meant}`?" if meant else otherwise


def _described(error: ErrorDetails) -> str | None:
    """For what no message may repeat, the description: it says how to make it."""
    field = field_of(error_path(error))
    return field.description if field is not None and is_hidden(_slot(error)) else None


def _unknown_key(path: Path, _error: ErrorDetails) -> Problem:
    key, entry = str(path[-1]), entry_of(path)
    meant, word = meant_key(key, entry), synonym(key)
    owners = [
        f"`{place}`" if place else "the top level" for owner, place in places().items() if word in owner.model_fields
    ]
    if meant is not None:
        fix = f"Did you mean `{meant}`?"
    elif owners:
        fix = f"`{word}` belongs in {' or '.join(owners)}."
    else:
        fix = f"Remove it; the keys here are {listed(entry.model_fields, limit=30)}."
    return Problem(path, codes.UNKNOWN_KEY, f"{_label(path)}: there is no such key here", fix, at_key=True)


def _missing(path: Path, error: ErrorDetails) -> Problem:
    field, described = field_of(path), _described(error)
    example = field.examples[0] if field is not None and field.examples else "..."
    fix = f"Add it: {described}" if described else f"Add a line such as `{path[-1]}: {example}`."
    if path == ("services",):
        fix = "Add or restore it. (`services: {}` takes everything down.)"
    return Problem(path, codes.MISSING, f"{_label(path[:-1])} lacks `{path[-1]}`", fix, at_key=True)


def _bound(relation: str, limit: str) -> Callable[[Path, ErrorDetails], Problem]:
    def sentence(path: Path, error: ErrorDetails) -> Problem:
        why = f"{_label(path)} must be {relation} {error['ctx'][limit]:,g}; here is {_found(error)}"
        return Problem(path, codes.VALUE, why, f"Write {words(_slot(error))}.")

    return sentence


def _too_short(path: Path, error: ErrorDetails) -> Problem:
    return Problem(path, codes.VALUE, f"{_label(path)} is empty", f"Write {words(_slot(error))}.")


def _too_long(path: Path, error: ErrorDetails) -> Problem:
    limit = error["ctx"]["max_length"]
    return Problem(path, codes.VALUE, f"{_label(path)} has more than {limit} items", f"Keep to {limit}.")


def _not_finite(path: Path, error: ErrorDetails) -> Problem:
    return Problem(path, codes.VALUE, f"{_label(path)} is no finite number", f"Write {words(_slot(error))}.")


_SENTENCES: dict[str, Callable[[Path, ErrorDetails], Problem]] = {
    "bool_type": _mismatch,
    "dict_type": _mismatch,
    "extra_forbidden": _unknown_key,
    "finite_number": _not_finite,
    "float_type": _mismatch,
    "greater_than": _bound("above", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "int_type": _mismatch,
    "less_than_equal": _bound("at most", "le"),
    "literal_error": _choice,
    "missing": _missing,
    "model_type": _mismatch,
    "string_pattern_mismatch": _pattern,
    "string_type": _mismatch,
    "too_long": _too_long,
    "too_short": _too_short,
    "tuple_type": _mismatch,
}

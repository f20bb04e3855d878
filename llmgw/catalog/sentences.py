# SPDX-License-Identifier: Apache-2.0
"""pydantic's errors as problems in plain words: what is wrong and what to write. Its own messages never leave here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from llmgw.catalog import codes
from llmgw.catalog.problem import Problem, listed, nearest
from llmgw.catalog.scalars import written
from llmgw.catalog.schema.base import Entry, Expects
from llmgw.catalog.schema.document import Slot, places, slot_at
from llmgw.catalog.schema.words import choices_in_words, words
from llmgw.catalog.tree import Path

_KEY_STEP = "[key]"
_LONGEST_SHOWN = 60
_OLD_TRUTHS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_SYNONYMS = {
    "tp": "tensor_parallel",
    "tensor_parallel_size": "tensor_parallel",
    "tp_size": "tensor_parallel",
    "pp": "pipeline_parallel",
    "pipeline_parallel_size": "pipeline_parallel",
    "pp_size": "pipeline_parallel",
    "num_gpus": "gpus",
    "gpu_memory_utilization": "memory_utilization",
    "mem_fraction_static": "memory_utilization",
    "ctx_size": "max_model_len",
    "context_length": "max_model_len",
    "max_num_seqs": "parallel_requests",
    "parallel": "parallel_requests",
    "memory_gb": "min_memory_gb",
    "min_free_disk": "min_free_disk_gb",
    "min_memory": "min_memory_gb",
    "served_model_name": "served_name",
    "extra_args": "args",
    "environment": "env",
    "repo": "hf_id",
    "hf": "hf_id",
    "lora_modules": "lora",
    "ports": "port_range",
}


def problem(error: ErrorDetails) -> Problem:
    """The problem that an error of pydantic means."""
    location = error["loc"]
    at_key = bool(location) and location[-1] == _KEY_STEP
    path: Path = location[:-1] if at_key else location
    if at_key:
        return _bad_name(path, error)
    kind = error["type"]
    if kind.startswith("catalog-"):
        context = error["ctx"]
        return Problem(path, kind, f"{_label(path)}: {context['why']}", context["fix"])
    return _SENTENCES[kind](path, error)


def known_types() -> frozenset[str]:
    """The types of pydantic's errors that there is a sentence for."""
    return frozenset(_SENTENCES)


def _label(path: Path) -> str:
    text = ""
    for step in path:
        text += f"[{step + 1}]" if isinstance(step, int) else f".{step}" if text else step
    return f"`{text}`" if text else "the catalog"


def _slot(path: Path) -> Slot:
    slot = slot_at(path)
    if slot is None:  # pragma: no cover - pydantic reports places that the schema has
        message = f"the schema has nothing at {path}"
        raise LookupError(message)
    return slot


def _found(value: object, slot: Slot) -> str:
    number = written(value)
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "the truth value true" if value else "the truth value false"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if _is_hidden(slot):
        return "something else"
    if number is not None:
        return f"the number {number}"
    text = str(value)
    shown = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
    return f"the text `{shown}`" if shown else "an empty text"


def _mismatch(path: Path, error: ErrorDetails) -> Problem:
    slot = _slot(path)
    value = error["input"]
    why = f"{_label(path)} takes {words(slot)}; here is {_found(value, slot)}"
    return Problem(path, codes.TYPE, why, _conversion(slot, value))


def _conversion(slot: Slot, value: object) -> str:
    """What to do about a value of a wrong type."""
    number = written(value)
    if value is None:
        return "Give it a value, or remove the key."
    if slot.annotation is bool and isinstance(value, str):
        meant = _OLD_TRUTHS.get(value.lower(), "true` or `false")
        return (
            f"Write `{meant}`: `{value}` is text in YAML 1.2." if value.lower() in _OLD_TRUTHS else f"Write `{meant}`."
        )
    if slot.annotation is str and number is not None:
        return f'Put it in quotes: "{number}".'
    if slot.annotation in (int, float) and isinstance(value, str):
        bare = value.strip().replace("_", "").replace(",", "")
        return "Remove the quotes." if bare.removeprefix("-").replace(".", "", 1).isdecimal() else "Write a number."
    if slot.entry is not None or get_origin(slot.annotation) is dict:
        return "Write `key: value` lines, indented below it" + (", without `- `." if isinstance(value, list) else ".")
    if get_origin(slot.annotation) is tuple:
        return "Write one `- item` line each, or `[a, b]`."
    return f"Write {words(slot)}."


def _unknown_key(path: Path, _error: ErrorDetails) -> Problem:
    key = str(path[-1])
    entry = _entry(path)
    meant = meant_key(path)
    elsewhere = _SYNONYMS.get(_bare(key), key)
    if meant is not None:
        fix = f"Did you mean `{meant}`?"
    elif owners := [place for owner, place in places().items() if elsewhere in owner.model_fields]:
        fix = f"`{elsewhere}` belongs in {' or '.join(f'`{owner}`' if owner else 'the top level' for owner in owners)}."
    else:
        fix = f"Remove it; the keys here are {listed(entry.model_fields, limit=30)}."
    return Problem(path, codes.UNKNOWN_KEY, f"{_label(path)}: there is no such key here", fix, at_key=True)


def meant_key(path: Path) -> str | None:
    """The key of the same entry that an unknown key most likely stands for."""
    key, fields = str(path[-1]), _entry(path).model_fields
    synonym = _SYNONYMS.get(_bare(key))
    return synonym if synonym in fields else nearest(key, fields)


def _bare(key: str) -> str:
    return key.lower().replace("-", "_")


def _entry(path: Path) -> type[Entry]:
    """The entry that holds the last key of a path."""
    return _slot(path[:-1]).entry or Entry


def _field(path: Path) -> FieldInfo:
    return _entry(path).model_fields[str(path[-1])]


def _missing(path: Path, _error: ErrorDetails) -> Problem:
    key, field = path[-1], _field(path)
    (example, *_) = field.examples or ["..."]
    hidden = _is_hidden(_slot(path))
    fix = f"Add it: {field.description}" if hidden else f"Add a line such as `{key}: {example}`."
    return Problem(path, codes.MISSING, f"{_label(path[:-1])} lacks `{key}`", fix, at_key=True)


def _is_hidden(slot: Slot) -> bool:
    expects = slot.mark(Expects)
    return expects is not None and expects.hidden


def _choice(path: Path, error: ErrorDetails) -> Problem:
    slot = _slot(path)
    value = error["input"]
    choices = get_args(slot.annotation) if get_origin(slot.annotation) is Literal else ()
    meant = nearest(value, map(str, choices)) if isinstance(value, str) else None
    why = f"{_label(path)} takes {choices_in_words(choices)}; here is {_found(value, slot)}"
    return Problem(
        path, codes.VALUE, why, f"Did you mean `{meant}`?" if meant else f"Write {choices_in_words(choices)}."
    )


def _pattern(path: Path, error: ErrorDetails) -> Problem:
    slot = _slot(path)
    value = str(error["input"])
    why = f"{_label(path)} takes {words(slot)}; here is {_found(value, slot)}"
    fix = str(_field(path).description) if _is_hidden(slot) else _respelled(value, error, "Write it in that form.")
    return Problem(path, codes.VALUE, why, fix)


def _bad_name(path: Path, error: ErrorDetails) -> Problem:
    slot = slot_at(path, key=True)
    name = str(path[-1])
    takes = words(slot) if slot is not None else "a name"
    return Problem(
        path, codes.KEY, f"{_label(path)}: the key must be {takes}", _respelled(name, error, "Rename it."), at_key=True
    )


def _respelled(value: str, error: ErrorDetails, otherwise: str) -> str:
    """Offers the value in lower case or with hyphens, when that is all that it lacks."""
    pattern = str(error.get("ctx", {}).get("pattern", ""))
    lower = value.lower()
    for candidate in (lower, lower.replace("_", "-"), lower.replace("_", "-").replace(" ", "-").replace(".", "-")):
        if candidate != value and pattern and re.search(pattern, candidate):
            return f"Did you mean `{candidate}`?"
    return otherwise


def _bound(relation: str) -> Callable[[Path, ErrorDetails], Problem]:
    def sentence(path: Path, error: ErrorDetails) -> Problem:
        slot = _slot(path)
        (limit,) = error["ctx"].values()
        why = f"{_label(path)} must be {relation} {_quantity(limit)}; here is {_found(error['input'], slot)}"
        return Problem(path, codes.VALUE, why, f"Write {words(slot)}.")

    return sentence


def _quantity(limit: Any) -> str:
    return f"{limit:,g}" if isinstance(limit, float) else f"{limit:,}"


def _too_short(path: Path, _error: ErrorDetails) -> Problem:
    return Problem(path, codes.VALUE, f"{_label(path)} is empty", f"Write {words(_slot(path))}.")


def _too_long(path: Path, error: ErrorDetails) -> Problem:
    limit = error["ctx"]["max_length"]
    return Problem(path, codes.VALUE, f"{_label(path)} has more than {limit} items", f"Keep to {limit}.")


def _not_finite(path: Path, _error: ErrorDetails) -> Problem:
    return Problem(path, codes.VALUE, f"{_label(path)} is no finite number", f"Write {words(_slot(path))}.")


_SENTENCES: dict[str, Callable[[Path, ErrorDetails], Problem]] = {
    "bool_type": _mismatch,
    "dict_type": _mismatch,
    "extra_forbidden": _unknown_key,
    "finite_number": _not_finite,
    "float_type": _mismatch,
    "greater_than": _bound("above"),
    "greater_than_equal": _bound("at least"),
    "int_type": _mismatch,
    "less_than_equal": _bound("at most"),
    "literal_error": _choice,
    "missing": _missing,
    "model_type": _mismatch,
    "string_pattern_mismatch": _pattern,
    "string_type": _mismatch,
    "too_long": _too_long,
    "too_short": _too_short,
    "tuple_type": _mismatch,
}

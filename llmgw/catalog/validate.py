# SPDX-License-Identifier: Apache-2.0
"""A tree's plain data as a document. What is wrong is reported and replaced, so that the rest is checked too."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document, slot_at
from llmgw.catalog.sentences import meant_key, problem
from llmgw.catalog.tree import Path


@dataclass(frozen=True, slots=True)
class Validated:
    """`document` holds what is right, and defaults or examples for what is not; `broken`: paths of the latter."""

    document: Document
    problems: tuple[Problem, ...] = ()
    broken: frozenset[Path] = frozenset()


def validate(data: dict[str, Any]) -> Validated:
    """The document of plain data and all that the schema has against it."""
    try:
        return Validated(Document.model_validate(data))
    except ValidationError as error:
        errors = _founded(error.errors(include_url=False))
    rest = copy.deepcopy(data)
    broken = frozenset(_replace(rest, error) for error in errors)
    problems = tuple(problem(error) for error in errors if not _misspelled(error, errors))
    return Validated(Document.model_validate(rest), problems, broken)


def _founded(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """All but those lists that are too short only because pydantic counts nothing but good items."""
    places = [_path(error) for error in errors]
    return [
        error
        for error, at in zip(errors, places, strict=True)
        if error["type"] != "too_short" or not any(place != at and place[: len(at)] == at for place in places)
    ]


def _misspelled(error: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Whether a key is missing only because it stands there under a wrong name: one mistake, one error."""
    path = _path(error)
    unknown = [_path(other) for other in errors if other["type"] == "extra_forbidden"]
    return error["type"] == "missing" and any(
        other[:-1] == path[:-1] and meant_key(other) == path[-1] for other in unknown
    )


def _path(error: ErrorDetails) -> Path:
    location = error["loc"]
    return location[:-1] if location and location[-1] == "[key]" else location


def _replace(data: dict[str, Any], error: ErrorDetails) -> Path:
    """Makes `data` valid where the error is, and returns the path of what was replaced or left out."""
    path = _path(error)
    holder: Any = data
    for depth, step in enumerate(path[:-1]):
        if isinstance(holder, dict) and holder.get(step) is None:
            holder[step] = {}
        if not isinstance(holder[step], dict | list):
            # One value in place of a list of one.
            path = path[: depth + 1]
            break
        holder = holder[step]
    field = _field(path)
    if isinstance(holder, list) or (field is not None and field.is_required()):
        holder[path[-1]] = _example(path)
    else:
        holder.pop(path[-1], None)
    return path


def _field(path: Path) -> FieldInfo | None:
    slot = slot_at(path[:-1])
    return slot.entry.model_fields.get(str(path[-1])) if slot is not None and slot.entry is not None else None


def _example(path: Path) -> Any:
    """The first example of the field at a path; for an item of a list, the first item of it."""
    field, inside = _field(path), False
    while field is None and path:
        path, inside = path[:-1], True
        field = _field(path)
    example = copy.deepcopy(field.examples[0]) if field is not None and field.examples else None
    return example[0] if inside and isinstance(example, list) else example

# SPDX-License-Identifier: Apache-2.0
"""A tree's plain data as a document. What is wrong is reported and replaced, so that the rest is checked too."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from llmgw.catalog.problem import Problem
from llmgw.catalog.remedies import meant_key
from llmgw.catalog.schema.document import Document
from llmgw.catalog.sentences import entry_of, error_path, field_of, problem
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
        # What is inside goes first: an entry that is left out for its name must not come back for what is wrong in it.
        errors = sorted(_founded(error.errors(include_url=False)), key=lambda one: -len(error_path(one)))
    rest = copy.deepcopy(data)
    paths = [_replace(rest, error) for error in errors]
    misspelled = _misspelled(errors)
    problems = tuple(
        problem(error, path)
        for error, path in zip(errors, paths, strict=True)
        # One mistake, one message: the key is there under another name.
        if not (error["type"] == "missing" and path in misspelled)
    )
    return Validated(Document.model_validate(rest), problems, frozenset(paths))


def _founded(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without lists that are too short only because pydantic counts nothing but their good items."""
    places = [error_path(error) for error in errors]
    return [
        error
        for error, at in zip(errors, places, strict=True)
        if error["type"] != "too_short" or not any(place != at and place[: len(at)] == at for place in places)
    ]


def _misspelled(errors: list[ErrorDetails]) -> set[Path]:
    """The paths that unknown keys were most likely meant for."""
    unknown = [error_path(error) for error in errors if error["type"] == "extra_forbidden"]
    return {(*path[:-1], meant) for path in unknown if (meant := meant_key(str(path[-1]), entry_of(path)))}


def _replace(data: dict[str, Any], error: ErrorDetails) -> Path:
    """Makes `data` valid where the error is, and returns the path of what was replaced or left out."""
    path = error_path(error)
    holder: Any = data
    for depth, step in enumerate(path[:-1]):
        if isinstance(holder, dict) and holder.get(step) is None:
            holder[step] = {}
        if not isinstance(holder[step], dict | list):
            # One value in place of a list of one.
            path = path[: depth + 1]
            break
        holder = holder[step]
    field = field_of(path)
    if isinstance(holder, list) or (field is not None and field.is_required()):
        holder[path[-1]] = _example(path)
    else:
        holder.pop(path[-1], None)
    return path


def _example(path: Path) -> Any:
    """The first example of the field at a path; for an item of a list, the first item of it."""
    field, inside = field_of(path), False
    while field is None and path:
        path, inside = path[:-1], True
        field = field_of(path)
    example = copy.deepcopy(field.examples[0]) if field is not None and field.examples else None
    return example[0] if inside and isinstance(example, list) else example

# SPDX-License-Identifier: Apache-2.0
"""From the bytes of a catalog's files to the catalog: parse, unite, overlay, validate, check, resolve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmgw.catalog import codes
from llmgw.catalog.checks import check
from llmgw.catalog.merge import overlay, unite
from llmgw.catalog.parse import parse
from llmgw.catalog.problem import Problem, located, unfounded
from llmgw.catalog.resolve import resolve
from llmgw.catalog.schema.document import Document
from llmgw.catalog.tree import Path, Tree
from llmgw.catalog.validate import validate
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.model.replica import Catalog


@dataclass(frozen=True, slots=True)
class File:
    """A file of the catalog: the path that messages call it by, and its bytes."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Compiled:
    """The catalog, and the united and overlaid text it came from, with the place of every part, and as a document."""

    catalog: Catalog
    source: Tree
    files: tuple[str, ...]
    document: Document


def compile_catalog(files: Sequence[File], overlays: Sequence[File] = ()) -> Compiled:
    """The catalog of these files, the first of which is the main one, with the overlays over them in their order.

    Raises LlmgwErrors with everything that is wrong, in the order of files and lines.
    """
    parts = [parse(file.path, file.content) for file in files]
    above = [parse(file.path, file.content) for file in overlays]
    errors = [error for part in (*parts, *above) for error in part.errors]
    if parts[0].empty:
        fix = "Restore it. (A catalog that takes everything down says so: `version: 1` and `services: {}`.)"
        errors.append(LlmgwError(codes.EMPTY, "the file holds no catalog", where=parts[0].path, fix=fix))
    tree, conflicts = unite(part.tree for part in parts)
    for part in above:
        tree, found = overlay(tree, part.tree)
        conflicts += found
    # What seems missing may be in a part that could not be read.
    unread = frozenset({()}) if parts[0].empty else frozenset().union(*(part.broken for part in (*parts, *above)))
    document, mistakes = _checked(tree, unread)
    errors += conflicts
    errors += [located(problem, tree, otherwise=parts[0].path) for problem in mistakes]
    names = tuple(part.path for part in (*parts, *above))
    if errors:
        raise LlmgwErrors(_printable(error) for error in sorted(errors, key=lambda error: _place(error, names)))
    return Compiled(resolve(document), tree, names, document)


def _checked(tree: Tree, unread: frozenset[Path]) -> tuple[Document, list[Problem]]:
    validated = validate(tree.data)
    broken = validated.broken | unread
    inside = {path for path in unread if path}
    problems = [
        problem
        for problem in validated.problems
        if not unfounded(problem, inside) and not (() in unread and problem.code == codes.MISSING)
    ]
    problems += [problem for problem in check(validated.document) if not unfounded(problem, broken)]
    return validated.document, problems


def _place(error: LlmgwError, names: Sequence[str]) -> tuple[int, int, int]:
    where = error.where
    if where is None or where.path not in names:
        return len(names), 0, 0
    return names.index(where.path), where.line or 0, where.column or 0


def _printable(error: LlmgwError) -> LlmgwError:
    """The error without what a terminal would obey: names and values are quoted from the file as they are."""
    why, fix = (
        "".join(character if character.isprintable() else "?" for character in text or "")
        for text in (error.why, error.fix)
    )
    return LlmgwError(error.code, why, where=error.where, fix=fix)

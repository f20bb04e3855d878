# SPDX-License-Identifier: Apache-2.0
"""Fields that the format has and this version does not act on: to accept them in silence would be a broken promise."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from llmgw.catalog import codes
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.base import Later
from llmgw.catalog.schema.document import Document, opened
from llmgw.catalog.tree import Path


def check_later(document: Document) -> Iterator[Problem]:
    """A problem for every field marked `Later` that has another value than its default."""
    yield from _inside(document, ())


def _inside(value: object, path: Path) -> Iterator[Problem]:
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            inner = getattr(value, name)
            later = opened(field.annotation, tuple(field.metadata)).mark(Later)
            if later is not None and inner != field.get_default(call_default_factory=True):
                why = f"`{name}` is not supported by this version; {later.why}"
                yield Problem((*path, name), codes.UNSUPPORTED, why, "Remove it.", at_key=True)
            elif later is None:
                yield from _inside(inner, (*path, name))
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _inside(inner, (*path, name))

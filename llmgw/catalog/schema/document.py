# SPDX-License-Identifier: Apache-2.0
"""The whole catalog as one pydantic model, and what its schema says about a path in it."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator, Field

from llmgw.catalog import codes
from llmgw.catalog.schema.base import Entry, refuse
from llmgw.catalog.schema.gateway import Fleet, Gateway
from llmgw.catalog.schema.models import Model
from llmgw.catalog.schema.profiles import Profile
from llmgw.catalog.schema.services import Service
from llmgw.catalog.schema.types import Name, ServiceKey, Table
from llmgw.catalog.tree import Path

_Mark = TypeVar("_Mark")


def _said(value: object) -> object:
    """What stands below `services`. Nothing at all is more likely a file that was cut off than a wish to stop all."""
    if value is None:
        why = "nothing is written after it, which would stop everything that runs"
        raise refuse(codes.EMPTY, why, "Restore what was there, or write `services: {}` to run nothing.")
    return value


class Document(Entry):
    """The catalog: which models are served, how, and under which names. Each of its files may hold a part of it."""

    version: Literal[1] = Field(description="Version of this format.", examples=[1])
    models: Table[Name, Model] = Field(default_factory=dict, description="Weights by name.")
    profiles: Table[Name, Profile] = Field(default_factory=dict, description="Ways to serve a model, by name.")
    services: Annotated[Table[ServiceKey, Service], BeforeValidator(_said)] = Field(
        description="What clients call, by name. `{}` takes everything down.", examples=[{}]
    )
    gateway: Gateway = Field(default_factory=Gateway, description="Settings of the gateways.")
    fleet: Fleet = Field(default_factory=Fleet, description="Rules for all nodes.")


@dataclass(frozen=True, slots=True)
class Slot:
    """What the schema has at a path: a type without `Annotated` and `None`, and the metadata that was around it."""

    annotation: Any
    metadata: tuple[object, ...] = ()

    @property
    def entry(self) -> type[Entry] | None:
        """The entry class, where the path is a mapping with fixed keys."""
        return self.annotation if isinstance(self.annotation, type) and issubclass(self.annotation, Entry) else None

    def mark(self, kind: type[_Mark]) -> _Mark | None:
        """The innermost metadata of that class, or None."""
        return next((mark for mark in reversed(self.metadata) if isinstance(mark, kind)), None)


def slot_at(path: Path, *, key: bool = False) -> Slot | None:
    """What the schema has at a path, or None. With `key`: at the key that ends the path, where names are free."""
    slot = Slot(Document)
    for position, step in enumerate(path):
        found = _child(slot, step, key=key and position == len(path) - 1)
        if found is None:
            return None
        slot = found
    return slot


def opened(annotation: Any, metadata: tuple[object, ...] = ()) -> Slot:
    """A type expression as a slot."""
    while True:
        if get_origin(annotation) is Annotated:
            metadata = (*metadata, *annotation.__metadata__)
            annotation = annotation.__origin__
        elif get_origin(annotation) in (Union, types.UnionType):
            (annotation,) = (part for part in get_args(annotation) if part is not type(None))
        else:
            return Slot(annotation, metadata)


def places(entry: type[Entry] = Document, place: str = "") -> dict[type[Entry], str]:
    """An entry class and all that are in it, each with its place (`services.NAME.rollout`), in the order of fields."""
    found = {entry: place}
    for name, field in entry.model_fields.items():
        slot = opened(field.annotation, tuple(field.metadata))
        at = f"{place}.{name}" if place else name
        if slot.entry is not None:
            found |= places(slot.entry, at)
        elif get_origin(slot.annotation) is dict and (inner := opened(get_args(slot.annotation)[1]).entry) is not None:
            found |= places(inner, f"{at}.NAME")
    return found


def _child(slot: Slot, step: str | int, *, key: bool) -> Slot | None:
    if slot.entry is not None:
        field = slot.entry.model_fields.get(str(step))
        return opened(field.annotation, tuple(field.metadata)) if field is not None else None
    origin, arguments = get_origin(slot.annotation), get_args(slot.annotation)
    if origin is dict:
        return opened(arguments[0] if key else arguments[1])
    if origin is tuple and isinstance(step, int):
        return opened(arguments[0])
    return None

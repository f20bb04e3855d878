# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from llmgw.catalog.schema.base import Expects, Later
from llmgw.catalog.schema.document import Document, Slot, opened, places, slot_at
from llmgw.catalog.schema.words import words
from llmgw.catalog.sentences import known_types

FIELDS = {
    f"{place}.{name}".lstrip("."): (entry, name, field)
    for entry, place in places().items()
    for name, field in entry.model_fields.items()
}
# What each kind of node in pydantic's core schema can complain about. Conversions of our own raise finished sentences.
NODES: dict[str, dict[str, str]] = {
    "bool": {"": "bool_type"},
    "default": {},
    "dict": {"": "dict_type"},
    "float": {
        "": "float_type",
        "allow_inf_nan": "finite_number",
        "ge": "greater_than_equal",
        "gt": "greater_than",
        "le": "less_than_equal",
    },
    "function-after": {},
    "function-before": {},
    "function-plain": {},
    "int": {"": "int_type", "ge": "greater_than_equal", "gt": "greater_than", "le": "less_than_equal"},
    "literal": {"": "literal_error"},
    "model": {"": "model_type"},
    "model-field": {},
    "model-fields": {"": "extra_forbidden", "required": "missing"},
    "nullable": {},
    "str": {"": "string_type", "pattern": "string_pattern_mismatch"},
    "tuple": {"": "tuple_type", "min_length": "too_short", "max_length": "too_long"},
}
_NOT_NODES = ("metadata", "config", "serialization", "function", "json_schema_input_schema")
HARMLESS = {"type", "schema", "metadata", "serialization", "strict", "items_schema", "variadic_item_index", "ref"}


def test_every_error_that_pydantic_can_raise_has_a_sentence_and_no_sentence_is_idle() -> None:
    # float's finite_number comes from the configuration, missing from fields without a default.
    raised = {"finite_number", "missing"}
    for node in nodes(Document.__pydantic_core_schema__):
        kinds = NODES[node["type"]]
        raised |= {kind for constraint, kind in kinds.items() if not constraint or constraint in node}
        if node["type"] in ("str", "int", "float", "tuple"):
            assert set(node) - set(kinds) <= HARMLESS
    assert raised == known_types()


def test_every_field_says_what_it_is_for_and_what_it_takes() -> None:
    silent = [path for path, (_, _, field) in FIELDS.items() if not (field.description or "").endswith(".")]
    assert silent == []
    assert all(words(slot_of(field)) for _, _, field in FIELDS.values())


def test_every_example_is_taken() -> None:
    for entry, name, field in FIELDS.values():
        for example in field.examples or ():
            needed = {
                other: one.examples[0]
                for other, one in entry.model_fields.items()
                if one.is_required() and one.examples
            }
            assert getattr(entry.model_validate(needed | {name: example}), name) is not None


def test_what_may_stand_in_for_a_mistake_has_an_example() -> None:
    without = [
        path
        for path, (_, _, field) in FIELDS.items()
        if (field.is_required() or get_origin(slot_of(field).annotation) is tuple) and not field.examples
    ]
    assert without == []


def test_every_default_would_be_taken_if_it_were_written() -> None:
    for path, (_, _, field) in FIELDS.items():
        # Written out, an empty list of services reads as none, and the default means all.
        if not field.is_required() and path != "gateway.keys.NAME.services":
            default = field.get_default(call_default_factory=True)
            adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
            assert adapter.validate_python(default) == default


def test_unsupported_fields_are_those_known_to_be() -> None:
    later = {path for path, (_, _, field) in FIELDS.items() if slot_of(field).mark(Later)}
    assert later == {
        "models.NAME.parameters_b",
    }


def test_what_no_message_may_repeat_is_marked() -> None:
    hashes = [path for path, (_, name, _) in FIELDS.items() if "sha256" in name]
    assert hashes == ["gateway.admin_token_sha256", "gateway.keys.NAME.sha256"]
    marks = [slot_of(FIELDS[path][2]).mark(Expects) for path in hashes]
    assert all(mark is not None and mark.hidden for mark in marks)


def test_the_schema_is_found_at_a_path() -> None:
    binds = slot_at(("profiles", "small", "bind_numa"))
    assert binds is not None
    assert binds.annotation is bool
    assert slot_at(("services", "chat", "nothing")) is None
    assert slot_at(("version", "deeper")) is None


def slot_of(field: FieldInfo) -> Slot:
    return opened(field.annotation, tuple(field.metadata))


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for name, inner in schema.items():
            if name not in _NOT_NODES:
                yield from nodes(inner)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from nodes(inner)

# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of a catalog file for editors (C6), in draft 2020-12."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from llmgw.catalog.merge import NOTES
from llmgw.catalog.schema.base import Entry, Later
from llmgw.catalog.schema.document import Document, opened, places


class _Plain(GenerateJsonSchema):
    """Without a title on every field: editors would show `Max Model Len` for `max_model_len`."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False

    def get_title_from_name(self, name: str) -> str:
        return name


def json_schema() -> dict[str, Any]:
    """The schema of one file. `version` and `services` are needed once in all files, so no file needs them."""
    schema = Document.model_json_schema(schema_generator=_Plain)
    del schema["required"]
    for entry in places():
        _close(schema if entry is Document else schema["$defs"][entry.__name__], entry)
    schema["patternProperties"] = {f"^{NOTES}": {"description": "Your own: a place for anchors."}}
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema, "title": "llmgw catalog"}


def _close(described: dict[str, Any], entry: type[Entry]) -> None:
    """Refuses names that break their rule, which pydantic leaves open, and says what this version does not act on."""
    for name, field in entry.model_fields.items():
        shape = described["properties"][name]
        if "patternProperties" in shape:
            shape["additionalProperties"] = False
        later = opened(field.annotation, tuple(field.metadata)).mark(Later)
        if later is not None:
            shape["description"] = f"{field.description} Not in this version: {later.why}."


def json_schema_text() -> str:
    """The schema as it is printed and stored: indented, with a newline at the end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"

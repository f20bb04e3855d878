# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from llmgw.catalog.jsonschema import json_schema, json_schema_text
from llmgw.catalog.load import load
from llmgw.catalog.parse import parse
from llmgw.catalog.reference import EXAMPLE, OVERLAY_EXAMPLE, reference
from llmgw.catalog.schema.document import places
from llmgw.errors import LlmgwErrors
from tests.unit.catalog import golden
from tests.unit.catalog.catalogs import catalog, mistakes

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs/reference"
EXAMPLE_FLEET = ROOT / "inventory/example"
# What the schema refuses and what it cannot know are told apart by the code of the error.
OF_FIELDS = {"catalog-unknown-key", "catalog-missing", "catalog-type", "catalog-value", "catalog-key"}


def test_the_reference_page_is_what_the_schema_says() -> None:
    """If this fails: llmgw catalog schema --markdown > docs/reference/catalog.md"""
    assert (DOCS / "catalog.md").read_text(encoding="utf-8") == reference()


def test_the_stored_schema_is_what_the_models_say() -> None:
    """If this fails: llmgw catalog schema > docs/reference/catalog.schema.json"""
    assert (DOCS / "catalog.schema.json").read_text(encoding="utf-8") == json_schema_text()


def test_the_reference_page_has_every_key_and_no_empty_link() -> None:
    page = reference()
    for entry, place in places().items():
        assert f"\n## {f'`{place}`' if place else 'The top level'}\n" in page
        for name in entry.model_fields:
            assert f"\n| `{name}` | " in page
    headings = {re.sub(r"[^a-z0-9 -]", "", line[3:].lower()) for line in page.splitlines() if line.startswith("## ")}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= headings


def test_the_examples_of_the_reference_page_mean_what_it_says() -> None:
    assert EXAMPLE in reference()
    (chat,) = catalog(EXAMPLE).services
    (less,) = catalog(EXAMPLE, overlays=(OVERLAY_EXAMPLE,)).services
    assert (chat.replicas, chat.spread) == (2, "node")
    assert (less.replicas, less.spread) == (1, None)


def test_the_example_fleet_is_a_catalog_without_mistakes() -> None:
    found = load(EXAMPLE_FLEET)
    assert [service.name for service in found.catalog.services] == ["chat", "embed", "small-chat"]
    assert [Path(file).name for file in found.files] == ["catalog.yaml", "embeddings.yaml"]


def test_editors_are_told_the_dialect_and_no_address() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "$id" not in schema
    assert "Not in this version" in schema["$defs"]["Rollout"]["properties"]["canary"]["description"]


def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def test_the_schema_takes_what_is_a_catalog() -> None:
    accepts = validator()
    files = [path.read_bytes() for path in (EXAMPLE_FLEET / "catalog.yaml", *EXAMPLE_FLEET.glob("catalog.d/*.yaml"))]
    for content in (*files, EXAMPLE.encode(), OVERLAY_EXAMPLE.replace("null", "rack").encode()):
        assert list(accepts.iter_errors(parse("f", content).tree.data)) == []


def test_the_schema_refuses_every_field_that_is_refused() -> None:
    accepts = validator()
    checked = 0
    for case in golden.read(golden.FOLDER / "fields.txt"):
        (file,) = case.files
        refused = {
            error.where.line for error in mistakes(file.content.decode()) if error.where and error.code in OF_FIELDS
        }
        # Lines of one entry come from one anchor in the schema, so that lines, not columns, are compared.
        assert refused
        assert list(accepts.iter_errors(parse("f", file.content).tree.data))
        checked += 1
    assert checked > 5


def test_the_schema_has_nothing_against_what_only_its_meaning_is_wrong_with() -> None:
    accepts = validator()
    for case in golden.read(golden.FOLDER / "meaning.txt"):
        for file in case.files:
            try:
                codes = {error.code for error in mistakes(file.content.decode())}
            except LlmgwErrors:  # pragma: no cover - mistakes() returns them
                codes = set()
            if not codes & OF_FIELDS:
                assert list(accepts.iter_errors(parse("f", file.content).tree.data)) == []

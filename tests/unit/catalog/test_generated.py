# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from llmgw.catalog.codes import KEY, MISSING
from llmgw.catalog.jsonschema import json_schema, json_schema_text
from llmgw.catalog.load import load
from llmgw.catalog.parse import parse
from llmgw.catalog.reference import EXAMPLE, OVERLAY_EXAMPLE, reference
from llmgw.catalog.schema.document import places
from llmgw.catalog.validate import validate
from tests.unit.catalog import golden
from tests.unit.catalog.catalogs import catalog

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs/reference"
EXAMPLE_FLEET = ROOT / "inventory/example"
# In fields.txt: what a pattern cannot say of a path, of an address, and of the length of a duration with a unit.
FINER = {
    ("fleet", "engines_reachable_from", 2),
    ("models", "third", "path"),
    ("gateway", "admin_listen"),
    ("gateway", "listen"),
    ("gateway", "timeouts", "connect"),
    ("profiles", "none", "ready_timeout"),
}


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
    assert "Not in this version" in schema["$defs"]["Model"]["properties"]["parameters_b"]["description"]


def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def test_the_schema_takes_what_is_a_catalog() -> None:
    accepts = validator()
    files = [path.read_bytes() for path in (EXAMPLE_FLEET / "catalog.yaml", *EXAMPLE_FLEET.glob("catalog.d/*.yaml"))]
    for content in (*files, EXAMPLE.encode()):
        assert list(accepts.iter_errors(parse("f", content).tree.data)) == []


@pytest.mark.parametrize("name", ["fields", "meaning"])
def test_the_schema_has_against_a_file_what_the_check_of_its_fields_has(name: str) -> None:
    accepts = validator()
    for case in golden.read(golden.FOLDER / f"{name}.txt"):
        data = parse("f", case.files[0].content).tree.data
        problems = validate(data).problems
        # A single file may lack more than the catalog, and nothing is looked at below a name that breaks its rule.
        misnamed = {problem.path for problem in problems if problem.code == KEY}
        ours = {problem.path for problem in problems if problem.code != MISSING or len(problem.path) > 1}
        ours = {path for path in ours if not any(path[:length] in misnamed for length in range(len(path)))}
        theirs = {tuple(error.absolute_path) for error in accepts.iter_errors(data)}
        # A schema reports unknown and missing keys, and names that break their rule, at what holds them.
        missed = {path for path in ours if path not in theirs and path[:-1] not in theirs}
        assert missed <= FINER, case.title
        assert {at for at in theirs if not any(at in (path, path[:-1]) for path in ours)} == set(), case.title

# SPDX-License-Identifier: Apache-2.0
"""What holds of every catalog. `test_every_property_can_fail` shows for each that it would notice a defect."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from llmgw.catalog.merge import unite
from llmgw.catalog.parse import Parsed, parse
from llmgw.catalog.schema.document import slot_at
from llmgw.catalog.tree import Path, Tree
from llmgw.catalog.validate import validate
from llmgw.errors import LlmgwError
from llmgw.model.replica import Catalog
from tests.properties.catalogs import JUNK, Data, compiled, documents, yaml


def any_bytes_are_a_catalog_or_errors_with_places(data: st.DataObject) -> None:
    whole = yaml(data.draw(documents()))
    cut = data.draw(st.integers(0, len(whole)))
    piece = data.draw(
        st.binary(max_size=6) | st.text("\t\n :-?&*!|>'\"%@`{}[],#<~\\xuU0aé", max_size=12).map(str.encode)
    )
    content = data.draw(st.sampled_from([whole[:cut] + piece + whole[cut:], whole[:cut] + piece, piece]))
    wellformed(compiled(content), content)


def any_data_is_a_catalog_or_errors_with_places(data: st.DataObject) -> None:
    document = data.draw(documents())
    for _ in range(data.draw(st.integers(1, 3))):
        replaced(data, document)
    content = yaml(document)
    wellformed(compiled(content), content)


def the_order_of_keys_and_files_means_nothing(data: st.DataObject) -> None:
    document = data.draw(documents())
    expected = compiled(yaml(document))
    assert isinstance(expected, Catalog)
    parts: list[Data] = [{"version": 1}] + [{} for _ in range(data.draw(st.integers(0, 3)))]
    for section, entries in document.items():
        if section not in ("version", "gateway", "fleet"):
            for name, entry in entries.items():
                data.draw(st.sampled_from(parts)).setdefault(section, {})[name] = entry
        elif section != "version":
            data.draw(st.sampled_from(parts))[section] = entries
    files = data.draw(st.permutations([shuffled(data, part) for part in parts]))
    assert compiled(*map(yaml, files)) == expected


def a_key_that_does_not_exist_is_never_ignored(data: st.DataObject) -> None:
    document = data.draw(documents())
    path, mapping = data.draw(st.sampled_from(sorted(fixed_mappings(document), key=str)))
    mapping["unheard-of"] = data.draw(JUNK)
    errors = compiled(yaml(document))
    assert isinstance(errors, tuple)
    assert any(error.code == "catalog-unknown-key" and "unheard-of" in error.why for error in errors), path


def a_mistake_hides_no_other(data: st.DataObject) -> None:
    document = data.draw(documents())
    expected = set()
    for make in data.draw(st.lists(st.sampled_from(MISTAKES), unique=True, min_size=1)):
        expected.add(make(document))
    errors = compiled(yaml(document))
    assert isinstance(errors, tuple)
    assert expected == {(error.code, "planted" in error.why) for error in errors}


def a_file_that_cannot_be_read_makes_nothing_in_others_wrong(data: st.DataObject) -> None:
    document = data.draw(documents())
    lost = data.draw(st.sampled_from(["models", "profiles", "services"]))
    rest = {section: entries for section, entries in document.items() if section != lost}
    errors = compiled(yaml(rest), yaml({lost: document[lost]})[:-1])
    assert isinstance(errors, tuple)
    assert {error.code for error in errors} == {"catalog-syntax"}


def what_is_resolved_keeps_the_promises_of_its_types(data: st.DataObject) -> None:
    document = data.draw(documents())
    if data.draw(st.booleans()):
        replaced(data, document)
    catalog = compiled(yaml(document))
    if not isinstance(catalog, Catalog):
        return
    names = [name for service in catalog.services for name in (service.served_name, *service.aliases)]
    assert len(names) == len(set(names))
    assert [service.name for service in catalog.services] == sorted(document["services"] or {})
    for profile in (profile for service in catalog.services for profile in service.profiles):
        shape = (profile.gpus, profile.nodes, profile.tensor_parallel, profile.pipeline_parallel)
        if profile.on_cpu:
            assert shape == (0, 1, 1, 1)
        else:
            assert shape[0] * shape[1] == shape[2] * shape[3]
            assert shape == (1, 1, 1, 1) or not any("-mig-" in device for device in profile.devices)
        assert (profile.model.hf_id is None) != (profile.model.path is None)
    assert catalog.fleet.port_range[1] < 32768 or catalog.fleet.port_range[0] > 60999
    assert dataclasses.replace(catalog, digest="").digest == ""
    assert compiled(yaml(document)) == catalog


def json_is_read_as_what_it_says(data: st.DataObject) -> None:
    value = data.draw(st.dictionaries(st.text(st.characters(exclude_categories=["C"]), max_size=5), JUNK, max_size=4))
    found = parse("0.yaml", yaml(value))
    if not found.errors:
        assert found.tree.data == value
        assert all(spot.value.line == 1 for spot in found.tree.spots.values())
    else:
        # Only a character that no program takes is refused.
        assert "\\u0000" in yaml(value).decode()


PROPERTIES: list[Callable[[st.DataObject], None]] = [
    any_bytes_are_a_catalog_or_errors_with_places,
    any_data_is_a_catalog_or_errors_with_places,
    the_order_of_keys_and_files_means_nothing,
    a_key_that_does_not_exist_is_never_ignored,
    a_mistake_hides_no_other,
    a_file_that_cannot_be_read_makes_nothing_in_others_wrong,
    what_is_resolved_keeps_the_promises_of_its_types,
    json_is_read_as_what_it_says,
]


@pytest.mark.parametrize("holds", PROPERTIES)
def test_of_every_catalog(holds: Callable[[st.DataObject], None]) -> None:
    @given(st.data())
    def run(data: st.DataObject) -> None:
        holds(data)

    run()


def _breaks_on_bytes(path: str, content: bytes) -> Parsed:
    content.decode()
    return parse(path, content)


def _loses_every_place(path: str, content: bytes) -> Parsed:
    found = parse(path, content)
    return dataclasses.replace(found, tree=Tree(found.tree.data))


@pytest.mark.parametrize(
    ("holds", "name", "defect"),
    [
        (PROPERTIES[0], "compile.parse", _breaks_on_bytes),
        (PROPERTIES[1], "compile.parse", _loses_every_place),
        (PROPERTIES[2], "compile.unite", lambda trees: unite(list(trees)[:1])),
        (PROPERTIES[3], "compile.validate", lambda data: dataclasses.replace(validate(data), problems=())),
        (PROPERTIES[4], "compile.unfounded", lambda _problem, broken: bool(broken)),
        (PROPERTIES[5], "compile.unfounded", lambda _problem, _broken: False),
        (PROPERTIES[6], "compile.check", lambda _document: ()),
        (PROPERTIES[7], "scalars.plain", lambda text: text),
    ],
)
def test_every_property_can_fail(
    holds: Callable[[st.DataObject], None], name: str, defect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"llmgw.catalog.{name}", defect)

    @settings(phases=[Phase.generate], database=None, max_examples=500, report_multiple_bugs=False)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        holds(data)

    with pytest.raises((AssertionError, UnicodeDecodeError, KeyError)):
        run()


# --- mistakes, each of which can be planted beside the others ---------------------------------------------------------


def _wrong_type(document: Data) -> tuple[str, bool]:
    document["services"]["planted-a"] = {"profiles": first(document, "profiles"), "replicas": "two"}
    return "catalog-type", True


def _dangling(document: Data) -> tuple[str, bool]:
    document["services"]["planted-b"] = {"profiles": ["planted-nowhere"]}
    return "catalog-reference", True


def _uneven(document: Data) -> tuple[str, bool]:
    document["profiles"]["planted-c"] = {
        "engine": "sim",
        "model": first(document, "models"),
        "devices": "h200-141g",
        "gpus": 4,
        "tensor_parallel": 3,
    }
    return "catalog-parallel", False


def _collision(document: Data) -> tuple[str, bool]:
    document["services"]["planted-d"] = {
        "profiles": first(document, "profiles"),
        "aliases": first(document, "services"),
    }
    return "catalog-served-name", True


def _no_weights(document: Data) -> tuple[str, bool]:
    document["models"]["planted-e"] = {}
    return "catalog-weights", True


def _bad_name(document: Data) -> tuple[str, bool]:
    document["services"]["Planted planted"] = {"profiles": first(document, "profiles")}
    return "catalog-key", True


def _unsupported(document: Data) -> tuple[str, bool]:
    document["models"]["planted-g"] = {"path": "m.gguf", "parameters_b": 7}
    return "catalog-unsupported", False


def _no_reason_to_wait(document: Data) -> tuple[str, bool]:
    document["services"]["planted-h"] = {"profiles": first(document, "profiles"), "admission": {"max_queue": 8}}
    return "catalog-admission", False


def _circle(document: Data) -> tuple[str, bool]:
    one = {"profiles": first(document, "profiles"), "routing": {"fallbacks": ["planted-j"]}}
    document["services"]["planted-i"] = one
    document["services"]["planted-j"] = one | {"routing": {"split": {"service": "planted-i", "percent": 5}}}
    return "catalog-routing", True


MISTAKES = [
    _wrong_type,
    _dangling,
    _uneven,
    _collision,
    _no_weights,
    _bad_name,
    _unsupported,
    _no_reason_to_wait,
    _circle,
]

# --- helpers ----------------------------------------------------------------------------------------------------------


def first(document: Data, section: str) -> str:
    return next(str(name) for name in sorted(document[section]) if not name.lower().startswith("planted"))


def wellformed(found: Catalog | tuple[LlmgwError, ...], content: bytes) -> None:
    """Errors name a place in the file, in plain words."""
    if isinstance(found, Catalog):
        return
    lines = content.decode("utf-8", "replace").replace("\r", "\n").split("\n")
    assert found
    for error in found:
        assert error.code.startswith("catalog-")
        assert error.why
        assert error.why.isprintable()
        assert error.fix
        assert "Input should" not in error.why
        assert error.where is not None
        assert error.where.path == "0.yaml"
        if error.code not in ("catalog-syntax", "catalog-empty"):
            assert error.where.line is not None
        assert (error.where.line or 1) <= len(lines) + 1


def shuffled(data: st.DataObject, value: object) -> object:
    """The same with the keys of every mapping in another order."""
    if isinstance(value, dict):
        return {name: shuffled(data, value[name]) for name in data.draw(st.permutations(list(value)))}
    return [shuffled(data, item) for item in value] if isinstance(value, list) else value


def replaced(data: st.DataObject, document: Data) -> None:
    """Puts junk in the place of some part of the document, renames its key, or takes it away."""
    holders = [(holder, key) for holder, key in parts(document)]
    holder, key = data.draw(st.sampled_from(holders)) if holders else (document, "version")
    junk = data.draw(JUNK)
    if isinstance(holder, list) or data.draw(st.booleans()):
        holder[key] = junk
    elif data.draw(st.booleans()):
        holder[data.draw(st.text(max_size=4))] = holder.pop(key, junk)
    else:
        holder.pop(key, None)


def parts(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from parts(inner)


def fixed_mappings(value: Any, path: Path = ()) -> Iterator[tuple[Path, Data]]:
    """The mappings of a document whose keys are the schema's."""
    if isinstance(value, dict):
        slot = slot_at(path)
        if slot is not None and slot.entry is not None:
            yield path, value
        for name, inner in value.items():
            yield from fixed_mappings(inner, (*path, name))

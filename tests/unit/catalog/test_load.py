# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from llmgw.catalog import load as loading
from llmgw.catalog.load import load, load_catalog
from llmgw.errors import LlmgwError, LlmgwErrors
from tests.unit.catalog.catalogs import ON_CPU, catalog

CHAT = f"{ON_CPU}services:\n  chat: {{profiles: small}}\n"
TALK = "services: {talk: {profiles: small}}\n"


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def errors(path: Path, *overlays: Path) -> tuple[LlmgwError, ...]:
    with pytest.raises(LlmgwErrors) as caught:
        load_catalog(path, overlays)
    return caught.value.errors


def test_a_fleet_directory_and_its_catalog_file_are_one_catalog(tmp_path: Path) -> None:
    write(tmp_path, {"catalog.yaml": CHAT, "catalog.d/team/talk.yml": TALK})
    assert load_catalog(tmp_path) == load_catalog(tmp_path / "catalog.yaml") == catalog(CHAT, TALK)


def test_the_files_of_a_catalog_are_named_in_order(tmp_path: Path) -> None:
    names = ("b.yaml", "a.yaml", "z/a.yml", ".hidden.yaml", ".git/c.yaml", "README.md", "a.yaml~")
    write(tmp_path, {f"catalog.d/{name}": "# nothing\n" for name in names} | {"catalog.yaml": CHAT, "other.yaml": "]"})
    files = [str(Path(file).relative_to(tmp_path)) for file in load(tmp_path).files]
    assert files == ["catalog.yaml", "catalog.d/a.yaml", "catalog.d/b.yaml", "catalog.d/z/a.yml"]


def test_a_file_of_another_name_has_parts_of_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"prod.yaml": CHAT, "prod.d/talk.yaml": TALK, "catalog.d/not.yaml": "]"})
    assert load_catalog(tmp_path / "prod.yaml") == catalog(CHAT, TALK)


def test_the_overlay_beside_the_catalog_is_always_there_and_others_lie_over_it(tmp_path: Path) -> None:
    overlays = [f"services: {{chat: {{replicas: {count}}}}}\n" for count in (3, 4)]
    write(tmp_path, {"catalog.yaml": CHAT, "catalog.overlay.yaml": overlays[0], "more.yaml": overlays[1]})
    assert load_catalog(tmp_path).services[0].replicas == 3
    assert load_catalog(tmp_path, [tmp_path / "more.yaml"]).services[0].replicas == 4


def test_environments_share_a_catalog_by_links(tmp_path: Path) -> None:
    write(tmp_path, {"shared/catalog.yaml": CHAT, "prod/catalog.overlay.yaml": "services: {chat: {replicas: 7}}\n"})
    (tmp_path / "prod/catalog.yaml").symlink_to("../shared/catalog.yaml")
    assert load_catalog(tmp_path / "prod").services[0].replicas == 7
    assert load_catalog(tmp_path / "shared").services[0].replicas == 1


def test_folders_of_parts_may_be_links_and_links_may_go_in_circles(tmp_path: Path) -> None:
    write(tmp_path, {"catalog.yaml": CHAT, "teams/talk.yaml": TALK, "catalog.d/empty.yaml": ""})
    (tmp_path / "catalog.d/teams").symlink_to("../teams")
    (tmp_path / "teams/back").symlink_to("../catalog.d")
    assert load_catalog(tmp_path) == catalog(CHAT, TALK)


def test_errors_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"fleet/catalog.yaml": CHAT, "fleet/catalog.d/talk.yaml": TALK.replace("small", "tiny")})
    monkeypatch.chdir(tmp_path)
    (error,) = errors(Path("fleet"))
    assert str(error.where) == "fleet/catalog.d/talk.yaml:1:19"


@pytest.mark.parametrize("name", ["missing.yaml", "missing/catalog.yaml", "file.yaml/catalog.yaml"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"file.yaml": ""})
    (error,) = errors(tmp_path / name)
    assert error.code == "catalog-file"
    assert str(error.where) == str(tmp_path / name)


def test_a_directory_without_a_catalog_names_the_file_it_wants(tmp_path: Path) -> None:
    (error,) = errors(tmp_path)
    assert str(error.where) == str(tmp_path / "catalog.yaml")
    assert "llmgw init" in str(error.fix)


def test_a_catalog_with_the_other_suffix_is_found_and_told(tmp_path: Path) -> None:
    write(tmp_path, {"catalog.yml": CHAT})
    (error,) = errors(tmp_path)
    assert error.fix == "Rename it to catalog.yaml."


def test_a_link_that_leads_nowhere_is_no_missing_overlay(tmp_path: Path) -> None:
    write(tmp_path, {"catalog.yaml": CHAT, "catalog.d/talk.yaml": TALK})
    (tmp_path / "catalog.overlay.yaml").symlink_to("nowhere")
    (tmp_path / "catalog.d/gone.yaml").symlink_to("nowhere")
    assert [str(error.where) for error in errors(tmp_path)] == [
        str(tmp_path / "catalog.d/gone.yaml"),
        str(tmp_path / "catalog.overlay.yaml"),
    ]


def test_parts_that_are_no_folder_are_told(tmp_path: Path) -> None:
    write(tmp_path, {"catalog.yaml": CHAT, "catalog.d": TALK})
    (error,) = errors(tmp_path)
    assert str(error.where) == str(tmp_path / "catalog.d")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "catalog.yaml")
    (error,) = errors(tmp_path)
    assert "no regular file" in error.why


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MAX_BYTES", len(CHAT))
    write(tmp_path, {"catalog.yaml": CHAT})
    assert load_catalog(tmp_path) == catalog(CHAT)
    write(tmp_path, {"catalog.yaml": f"{CHAT} "})
    (error,) = errors(tmp_path)
    assert "larger than" in error.why


def test_a_file_that_cannot_be_read_is_told() -> None:
    (error,) = errors(Path("/proc/self/mem"))
    assert error.why == "the file cannot be read: input/output error"


def test_all_files_that_cannot_be_read_are_told_at_once(tmp_path: Path) -> None:
    found = errors(tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "c.yaml")
    assert [str(error.where) for error in found] == [str(tmp_path / name) for name in ("a.yaml", "b.yaml", "c.yaml")]

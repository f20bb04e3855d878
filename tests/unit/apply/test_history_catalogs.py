# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest

from llmgw.apply import history_catalogs
from llmgw.catalog.load import load_catalog
from llmgw.errors import LlmgwError

MAIN = """\
version: 1
models:
  smol: {path: smol.gguf}  # below llmgw_model_dirs of the node
profiles:
  cpu: {engine: sim, model: smol, devices: cpu}
services: {}
"""
PART = "services:\n  chat: {profiles: cpu, replicas: 2}\n"
OVERLAY = "services:\n  chat: {replicas: 3}\n"


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    (folder / "catalog.d" / "team").mkdir(parents=True)
    (folder / "catalog.yaml").write_text(MAIN)
    (folder / "catalog.d" / "team" / "chat.yml").write_text(PART)
    (folder / "catalog.overlay.yaml").write_text(OVERLAY)
    return folder / "catalog.yaml"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_files_of_a_catalog_come_back_as_they_were_and_mean_the_same(catalog: Path, tmp_path: Path) -> None:
    wanted = load_catalog(catalog)
    assert wanted.services[0].replicas == 3
    assert history_catalogs.keep(tmp_path / "history", catalog, wanted.digest) == []
    assert history_catalogs.is_kept(tmp_path / "history", wanted.digest)
    before = contents(catalog.parent)
    main = history_catalogs.unpack(tmp_path / "history", wanted.digest, tmp_path / "again")
    assert contents(tmp_path / "again") == before
    assert load_catalog(main) == wanted


def test_a_fleet_directory_is_kept_like_its_file(catalog: Path, tmp_path: Path) -> None:
    wanted = load_catalog(catalog.parent)
    assert history_catalogs.keep(tmp_path / "history", catalog.parent, wanted.digest) == []
    assert load_catalog(history_catalogs.unpack(tmp_path / "history", wanted.digest, tmp_path / "again")) == wanted


def test_a_catalog_that_is_kept_is_not_read_again(catalog: Path, tmp_path: Path) -> None:
    digest = load_catalog(catalog).digest
    history_catalogs.keep(tmp_path / "history", catalog, digest)
    catalog.unlink()
    assert history_catalogs.keep(tmp_path / "history", catalog, digest) == []


def test_a_kept_catalog_that_was_broken_is_kept_anew_but_not_one_of_a_newer_llmgw(
    catalog: Path, tmp_path: Path
) -> None:
    wanted = load_catalog(catalog)
    path = history_catalogs.path_of(tmp_path / "history", wanted.digest)
    assert path is not None
    history_catalogs.keep(tmp_path / "history", catalog, wanted.digest)
    path.write_text("{")
    assert history_catalogs.keep(tmp_path / "history", catalog, wanted.digest) == []
    assert load_catalog(history_catalogs.unpack(tmp_path / "history", wanted.digest, tmp_path / "again")) == wanted
    newer = '{"format_version": 2, "main": "catalog.yaml"}'
    path.write_text(newer)
    assert history_catalogs.keep(tmp_path / "history", catalog, wanted.digest) == []
    assert path.read_text() == newer


def test_a_catalog_that_was_changed_meanwhile_is_not_kept_for_another(catalog: Path, tmp_path: Path) -> None:
    digest = load_catalog(catalog).digest
    catalog.with_suffix(".overlay.yaml").write_text("services:\n  chat: {replicas: 5}\n")
    (warning,) = history_catalogs.keep(tmp_path / "history", catalog, digest)
    assert "changed while it was being applied" in warning
    assert not history_catalogs.is_kept(tmp_path / "history", digest)


def test_a_catalog_that_is_broken_or_gone_meanwhile_is_a_warning(catalog: Path, tmp_path: Path) -> None:
    digest = load_catalog(catalog).digest
    catalog.write_text("a: b: c")
    assert history_catalogs.keep(tmp_path / "history", catalog, digest)
    catalog.unlink()
    assert history_catalogs.keep(tmp_path / "history", catalog, digest)


def test_a_history_that_cannot_be_written_is_a_warning(catalog: Path, tmp_path: Path) -> None:
    (tmp_path / "history").write_text("")
    (warning,) = history_catalogs.keep(tmp_path / "history", catalog, load_catalog(catalog).digest)
    assert str(tmp_path / "history") in warning


@pytest.mark.parametrize("digest", ["", "sha256:", "../../../etc/passwd", "sha256:../x", "no digest"])
def test_what_is_no_digest_names_no_file(catalog: Path, tmp_path: Path, digest: str) -> None:
    assert history_catalogs.path_of(tmp_path, digest) is None
    assert history_catalogs.keep(tmp_path / "history", catalog, digest) == []
    assert not history_catalogs.is_kept(tmp_path, digest)
    with pytest.raises(LlmgwError, match="not kept"):
        history_catalogs.unpack(tmp_path, digest, tmp_path / "again")


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"format_version": 1}',
        '{"format_version": 1, "main": "catalog.yaml", "files": 3}',
        '{"format_version": 1, "main": "catalog.yaml", "files": {}}',
        '{"format_version": 1, "main": "catalog.yaml", "files": {"catalog.yaml": "no base64!"}}',
        '{"format_version": 1, "main": "catalog.yaml", "files": {"catalog.yaml": "YWJj"}}',
        json.dumps({"format_version": 1, "main": "../x.yaml", "files": {"../x.yaml": packed("a")}}),
        json.dumps({"format_version": 1, "main": "/x.yaml", "files": {"/x.yaml": packed("a")}}),
        json.dumps({"format_version": 1, "main": "c", "files": {"c": packed("a" * 100)[:-8]}}),
        json.dumps({"format_version": 1, "main": "c", "files": {"c": packed("a"), "b\0": packed("a")}}),
        json.dumps({"format_version": 1, "main": "c", "files": {"c": packed("a"), "b\ud800": packed("a")}}),
    ],
)
def test_a_kept_catalog_that_is_broken_is_refused_and_writes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "history" / "catalogs").mkdir(parents=True)
    (tmp_path / "history" / "catalogs" / "abcdef01.json").write_text(text)
    with pytest.raises(LlmgwError, match="broken") as raised:
        history_catalogs.unpack(tmp_path / "history", "sha256:abcdef01", tmp_path / "again")
    assert raised.value.fix
    assert not (tmp_path / "again").exists()


def test_a_catalog_that_a_newer_llmgw_kept_says_so(tmp_path: Path) -> None:
    (tmp_path / "catalogs").mkdir()
    (tmp_path / "catalogs" / "abcdef01.json").write_text('{"format_version": 2, "main": "x", "files": []}')
    with pytest.raises(LlmgwError, match="newer llmgw"):
        history_catalogs.unpack(tmp_path, "sha256:abcdef01", tmp_path / "again")


def test_contents_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_catalogs, "_MOST_BYTES", 1000)
    (tmp_path / "catalogs").mkdir()
    document = {"format_version": 1, "main": "c", "files": {"c": packed("a" * 1001)}}
    (tmp_path / "catalogs" / "abcdef01.json").write_text(json.dumps(document))
    with pytest.raises(LlmgwError, match="broken"):
        history_catalogs.unpack(tmp_path, "sha256:abcdef01", tmp_path / "again")

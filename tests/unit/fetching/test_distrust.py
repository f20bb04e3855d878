# SPDX-License-Identifier: Apache-2.0
"""A hub that means harm, asked by the real huggingface_hub: nothing outside the cache is written or removed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import child, fetch
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.cache import Repository
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.listing import HubFile
from tests.support import hub as support
from tests.support.hub import Hub, Model, serving, tensors

COMMIT = "a" * 40
FILES = {"config.json": b'{"architectures": ["X"]}', "tokenizer.json": b"{}", "model.safetensors": tensors(100_000)}

LARGE = support.blob(FILES["model.safetensors"])


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub({"org/tiny": Model(dict(FILES))})) as running:
        yield running


@pytest.fixture
def options(hub: Hub, tmp_path: Path) -> fetch.Options:
    (tmp_path / "models").mkdir()
    (tmp_path / "victim").write_text("precious")
    directory = str(tmp_path / "models")
    return fetch.Options(directory, sys.executable, hub.address, timeout_s=50, margin_bytes=0, resumed_from=50_000)


def refused(options: fetch.Options, why: str) -> None:
    """Fetches, and sees that it failed with this reason and touched nothing outside."""
    with pytest.raises(fetch.FetchFailed, match=why):
        fetch.fetch("org/tiny", None, options, lambda _line: None)
    untouched(options)


def untouched(options: fetch.Options) -> None:
    around = Path(options.directory).parent
    assert sorted(path.name for path in around.iterdir()) == ["models", "victim"]
    assert (around / "victim").read_text() == "precious"


def listed(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    usual = support._sibling
    monkeypatch.setattr(support, "_sibling", lambda path, content: change(usual(path, content)))


def test_a_blob_that_leads_out_of_the_cache_removes_nothing(
    options: fetch.Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(options.directory) / "models--org--tiny/blobs").mkdir(parents=True)
    listed(monkeypatch, lambda file: {**file, "lfs": None, "blobId": "../../../victim"})
    assert fetch.fetch("org/tiny", None, options, lambda _line: None).action == "fetched"
    untouched(options)


@pytest.mark.parametrize("through", ["a blob", "a link in the snapshot", "a linked folder"])
def test_what_is_broken_is_removed_in_the_repository_alone(tmp_path: Path, through: str) -> None:
    repository = Repository(str(tmp_path / "models"), "org/tiny")
    snapshot = Path(repository.path) / "snapshots" / COMMIT
    for folder in (Path(repository.blobs), snapshot, tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    victim = tmp_path / "elsewhere/victim"
    victim.write_text("precious")
    if through == "a link in the snapshot":
        (snapshot / "victim").symlink_to(victim)
    elif through == "a linked folder":
        (snapshot / "folder").symlink_to(tmp_path / "elsewhere")
    name = "folder/victim" if through == "a linked folder" else "victim"
    odd = HubFile(name, 1, "../../../elsewhere/victim")
    assert repository.discard_broken(COMMIT, (odd,)) == ()
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_an_etag_that_leads_out_of_the_cache_ends_the_fetch(
    options: fetch.Options, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    evil = str(Path(options.directory).parent / "evil")
    usual = support.blob
    monkeypatch.setattr(support, "_LARGE", 10**9)  # all of it comes from the hub itself
    monkeypatch.setattr(support, "blob", lambda content: evil if content == FILES[name] else usual(content))
    refused(options, "does not speak as a hub does: it gives .*/evil' as the ETag of a file")


def test_a_list_that_the_library_keeps_leads_nowhere_either(
    options: fetch.Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hf_xet")
    evil = str(Path(options.directory).parent / "evil/blob")
    usual = support._tree_entry

    def entry(path: str, content: bytes) -> dict[str, Any]:
        return {**usual(path, content), "xetHash": "e" * 64, "lfs": {"oid": evil, "size": 1, "pointerSize": 1}}

    monkeypatch.setattr(support, "_tree_entry", entry)
    refused(options, "it gives .*/evil/blob' as the ETag of a file")


def test_a_commit_that_leads_out_of_the_cache_ends_the_fetch(hub: Hub, options: fetch.Options) -> None:
    hub.models["org/tiny"].revisions = {"main": "../../../evil"}
    refused(options, "does not speak as a hub does: it gives '../../../evil' as the commit")


def test_names_that_lead_out_of_the_cache_end_the_fetch(hub: Hub, options: fetch.Options) -> None:
    hub.models["org/tiny"].files["../../../../evil.json"] = b"{}"
    refused(options, r"lists a file by the name '\.\./\.\./\.\./\.\./evil\.json'")


@pytest.mark.parametrize("change", [{"size": "12"}, {"size": -1}, {"rfilename": None}, {"rfilename": 5}])
def test_answers_of_the_wrong_kind_are_told_in_a_sentence(
    options: fetch.Options, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    listed(monkeypatch, lambda file: {**file, **change})
    refused(options, "does not speak as a hub does.*llmgw_hf_endpoint")


@pytest.mark.parametrize(
    "name", [f"models--org--tiny/blobs/{LARGE}.llmgw.incomplete", "models--org--tiny/refs/main", ".llmgw/writer.1"]
)
def test_a_link_that_somebody_left_in_the_cache_ends_the_fetch(hub: Hub, options: fetch.Options, name: str) -> None:
    link = Path(options.directory) / name
    link.parent.mkdir(parents=True)
    link.symlink_to(Path(options.directory).parent / "victim")
    refused(options, f"{name} is a link.*Remove it")
    assert hub.asked == []


@pytest.mark.parametrize(
    ("etag", "commit"), [("../x", COMMIT), ("a/b", COMMIT), ("..", COMMIT), ("", COMMIT), ("e", "../x")]
)
def test_what_the_library_is_told_of_a_file_is_looked_at_before_it_uses_it(etag: str, commit: str) -> None:
    library = SimpleNamespace(ask=lambda: (etag, commit))
    child._guard(library, "ask", lambda about: about)
    with pytest.raises(child.OddAnswer):
        library.ask()


def test_a_commit_that_comes_with_a_refusal_is_looked_at_too() -> None:
    class Refusal(Exception):  # noqa: N818 - as the library has them: with the answer
        response = SimpleNamespace(headers={"X-Repo-Commit": "../../x"})

    def ask() -> None:
        raise Refusal

    library = SimpleNamespace(ask=ask)
    child._guard(library, "ask", lambda about: about)
    with pytest.raises(child.OddAnswer):
        library.ask()
    Refusal.response.headers["X-Repo-Commit"] = COMMIT
    with pytest.raises(Refusal):
        library.ask()

# SPDX-License-Identifier: Apache-2.0
"""One repository in a cache that holds many branches and commits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import fetch
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.cache import Repository
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.hub import Hub, Model, serving, tensors

COMMIT = "f" * 40


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(str(tmp_path), "org/tiny")
    snapshot = Path(repository.path) / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "tokenizer.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(tensors(1000))
    return repository


def refer(repository: Repository, *names: str) -> None:
    for name in names:
        path = Path(repository.path) / "refs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(COMMIT)


def others(repository: Repository, number: int) -> None:
    for at in range(number):
        (Path(repository.path) / "snapshots" / f"{at:040x}").mkdir()


def found(repository: Repository, revision: str) -> bool:
    """Whether discovery finds it."""
    weights = read_weights(Host(), [repository.directory], ())[0]
    return any(revision in (one.revision, *one.refs) for one in weights)


def test_its_own_commit_is_seen_among_however_many(repository: Repository) -> None:
    refer(repository, "zzz", *(f"v{number:03}" for number in range(80)))
    others(repository, 80)
    for revision in ("zzz", COMMIT):
        seen = repository.seen(revision)
        assert seen is not None
        assert (seen.complete, seen.revision) == (True, COMMIT)
    assert repository.seen("main") is None


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6])
def test_a_branch_is_called_hidden_when_discovery_does_not_find_it(repository: Repository, depth: int) -> None:
    revision = "/".join("abcdef"[:depth])
    refer(repository, revision)
    hidden = repository.hidden(COMMIT, revision)
    assert (hidden is None) == found(repository, revision)
    assert hidden is None or f"Name the commit by `revision`: {COMMIT}" in hidden


@pytest.mark.parametrize("number", [0, 49, 50, 51])
def test_what_is_behind_too_many_others_is_called_hidden(repository: Repository, number: int) -> None:
    others(repository, number)
    assert (repository.hidden(COMMIT, COMMIT) is None) == found(repository, COMMIT) == (number < 50)
    refer(repository, *(f"v{at}" for at in range(number)), "main")
    assert (repository.hidden("0" * 40, "main") is None) == (number < 50)


def test_what_nobody_would_find_is_not_fetched(tmp_path: Path) -> None:
    model = Model({"config.json": b"{}", "model.safetensors": tensors(100_000)}, {"a/b/c/d/e": "a" * 40})
    with serving(Hub({"org/tiny": model})) as hub:
        options = fetch.Options(str(tmp_path), sys.executable, hub.address, timeout_s=50, margin_bytes=0)
        with pytest.raises(fetch.FetchFailed, match=f"Nothing was fetched.*Name the commit by `revision`: {'a' * 40}"):
            fetch.fetch("org/tiny", "a/b/c/d/e", options, lambda _line: None)
        assert hub.gets("model.safetensors") == []

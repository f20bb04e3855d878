# SPDX-License-Identifier: Apache-2.0
"""`llmgw keys`: a key is shown once, its hash is stored, and a catalog is never left half-written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmgw.catalog import key_edits
from llmgw.catalog.key_edits import with_key
from llmgw.catalog.load import load_catalog
from llmgw.cli.keys_file import read_catalog, replace_file
from llmgw.errors import LlmgwError
from llmgw.model.replica import ApiKeySpec
from tests.support.fleet_directory import CATALOG, Called, FleetDirectory

Call = Callable[..., Called]
SECRET = re.compile(r"sk-llmgw-[A-Za-z0-9]{43}")


@pytest.fixture
def fleet(directory: FleetDirectory, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory.catalog(f"# ours\n{CATALOG}")
    monkeypatch.chdir(directory.path)
    return directory.path


def stored(fleet: Path) -> dict[str, ApiKeySpec]:
    return {key.name: key for key in load_catalog(fleet).gateway.keys}


def test_a_key_is_printed_once_and_its_hash_is_stored_with_its_limits(fleet: Path, llmgw: Call) -> None:
    before = (fleet / "catalog.yaml").read_text(encoding="utf-8")
    options = ("--max-concurrency", 8, "--requests-per-minute", 600, "--tokens-per-minute", 10**6, "--priority", 5)
    called = llmgw("keys", "create", "web", "--services", "chat", *options, "-i", fleet)
    assert called.status == 0
    secret = called.out.removesuffix("\n")
    assert SECRET.fullmatch(secret)
    assert secret not in called.err
    assert "it is the first key" in called.err
    assert f"{fleet / 'catalog.yaml'}:" in called.err
    text = (fleet / "catalog.yaml").read_text(encoding="utf-8")
    assert text.startswith(before)
    assert secret not in text
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert stored(fleet) == {"web": ApiKeySpec("web", digest, ("chat",), 8, 600, 10**6, 5)}


def test_every_key_is_another_one(fleet: Path, llmgw: Call) -> None:
    secrets = {llmgw("keys", "create", f"k{number}", "-i", fleet).out for number in range(5)}
    assert len(secrets) == 5
    assert len({key.sha256 for key in stored(fleet).values()}) == 5
    assert "first key" not in llmgw("keys", "create", "more", "-i", fleet).err


def test_programs_get_the_key_as_json(fleet: Path, llmgw: Call) -> None:
    document = json.loads(llmgw("keys", "create", "web", "--json", "--catalog", fleet / "catalog.yaml").out)
    assert SECRET.fullmatch(document.pop("key"))
    assert document == {
        "format_version": 1,
        "name": "web",
        "sha256": stored(fleet)["web"].sha256,
        "file": str(fleet / "catalog.yaml"),
    }


def test_a_key_goes_into_the_file_that_has_the_others_and_that_is_said(fleet: Path, llmgw: Call) -> None:
    part = fleet / "catalog.d/clients.yaml"
    part.parent.mkdir()
    part.write_text(f"gateway:\n  keys:\n    a: {{sha256: {'0' * 62}a1}}\n", encoding="utf-8")
    part.chmod(0o640)
    before = (fleet / "catalog.yaml").read_bytes()
    called = llmgw("keys", "create", "web", "-i", fleet)
    assert f"added   web at {part}:4:5" in called.err
    assert (fleet / "catalog.yaml").read_bytes() == before
    assert set(stored(fleet)) == {"a", "web"}
    assert part.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in part.parent.iterdir()] == ["clients.yaml"]


def test_a_link_to_the_catalog_stays_a_link(fleet: Path, llmgw: Call) -> None:
    (fleet / "catalog.yaml").rename(fleet / "real.yaml")
    (fleet / "catalog.yaml").symlink_to("real.yaml")
    assert llmgw("keys", "create", "web", "-i", fleet).status == 0
    assert (fleet / "catalog.yaml").is_symlink()
    assert "web:" in (fleet / "real.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("web",), 1, "there is a key `web` already [key-exists]"),
        (("other", "--services", "chatt"), 1, "fix: Did you mean `chat`?"),
        (("no name",), 64, "is no name for a key"),
        (("other", "--requests-per-minute", "0"), 64, "greater than or equal to 1"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_changed(
    fleet: Path, llmgw: Call, arguments: tuple[str, ...], status: int, told: str
) -> None:
    llmgw("keys", "create", "web", "-i", fleet)
    before = (fleet / "catalog.yaml").read_bytes()
    called = llmgw("keys", "create", *arguments, "-i", fleet)
    assert (called.status, called.out) == (status, "")
    assert told in called.err
    assert (fleet / "catalog.yaml").read_bytes() == before


def test_a_catalog_that_is_wrong_is_not_touched(fleet: Path, llmgw: Call) -> None:
    path = fleet / "catalog.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "fleet: {port_range: 5-1}\n", encoding="utf-8")
    before = path.read_bytes()
    called = llmgw("keys", "create", "web", "-i", fleet)
    assert (called.status, called.out) == (1, "")
    assert "[catalog-ports]" in called.err
    assert path.read_bytes() == before


def test_what_an_overlay_takes_away_is_not_promised(fleet: Path, llmgw: Call) -> None:
    llmgw("keys", "create", "web", "-i", fleet)
    before = (fleet / "catalog.yaml").read_bytes()
    (fleet / "catalog.overlay.yaml").write_text("gateway: {keys: null}\n", encoding="utf-8")
    called = llmgw("keys", "create", "other", "-i", fleet)
    assert (called.status, called.out) == (1, "")
    assert "with an overlay over it" in called.err
    assert (fleet / "catalog.yaml").read_bytes() == before


@pytest.mark.parametrize("step", ["mkstemp", "fsync", "replace"])
def test_a_file_that_cannot_be_written_stays_as_it_was(
    fleet: Path, llmgw: Call, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_what: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    before = {path.name: path.read_bytes() for path in fleet.iterdir() if path.is_file()}
    owner = {"mkstemp": tempfile, "fsync": os, "replace": Path}[step]
    monkeypatch.setattr(owner, step, full)
    called = llmgw("keys", "create", "web", "-i", fleet)
    monkeypatch.undo()
    assert (called.status, called.out) == (1, "")
    assert "the file cannot be written: no space left on device [key-file]" in called.err
    assert {path.name: path.read_bytes() for path in fleet.iterdir() if path.is_file()} == before


def test_what_somebody_else_has_just_written_is_not_lost(
    fleet: Path, llmgw: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fleet / "catalog.yaml"

    def meanwhile(*what: object) -> object:
        path.write_text(f"# theirs\n{CATALOG}", encoding="utf-8")
        return with_key(*what)  # type: ignore[arg-type]

    monkeypatch.setattr(key_edits, "with_key", meanwhile)
    called = llmgw("keys", "create", "web", "-i", fleet)
    assert (called.status, called.out) == (1, "")
    assert "somebody has just changed this file" in called.err
    assert path.read_text(encoding="utf-8") == f"# theirs\n{CATALOG}"


def test_the_list_shows_limits_and_the_beginning_of_the_hash(fleet: Path, llmgw: Call) -> None:
    assert "let everybody in" in llmgw("keys", "list", "-i", fleet).out
    secret = llmgw("keys", "create", "web", "--requests-per-minute", 1200, "-i", fleet).out.strip()
    digest = hashlib.sha256(secret.encode()).hexdigest()
    head, row = llmgw("keys", "list", "-i", fleet).out.splitlines()
    assert head.split() == [
        "NAME",
        "SHA256",
        "SERVICES",
        "CONCURRENT",
        "REQUESTS/MIN",
        "TOKENS/MIN",
        "PRIORITY",
        "WHERE",
    ]
    assert row.split()[:7] == ["web", digest[:12], "all", "-", "1,200", "-", "0"]
    document = json.loads(llmgw("keys", "list", "--json", "-i", fleet).out)
    assert not document["open"]
    assert [(key["name"], key["sha256"], key["requests_per_minute"]) for key in document["keys"]] == [
        ("web", digest, 1200)
    ]
    assert document["keys"][0]["where"].startswith(str(fleet / "catalog.yaml"))


def test_a_revoked_key_is_gone_and_the_rest_is_as_it_was(fleet: Path, llmgw: Call) -> None:
    llmgw("keys", "create", "web", "-i", fleet)
    before = (fleet / "catalog.yaml").read_bytes()
    llmgw("keys", "create", "batch", "-i", fleet)
    called = llmgw("keys", "revoke", "batch", "-i", fleet)
    assert (called.status, called.out) == (0, "")
    assert "revoked batch" in called.err
    assert (fleet / "catalog.yaml").read_bytes() == before
    called = llmgw("keys", "revoke", "batch", "--json", "-i", fleet)
    assert called.status == 1
    assert "[key-unknown]" in called.err


def test_the_last_key_is_not_taken_out_by_accident(fleet: Path, llmgw: Call) -> None:
    llmgw("keys", "create", "web", "-i", fleet)
    called = llmgw("keys", "revoke", "web", "-i", fleet)
    assert called.status == 1
    assert "let everybody in [key-last]" in called.err
    assert set(stored(fleet)) == {"web"}
    assert llmgw("keys", "revoke", "web", "--open-to-all", "-i", fleet).status == 0
    assert stored(fleet) == {}


def test_a_key_of_two_files_is_not_taken_out_of_one(fleet: Path, llmgw: Call) -> None:
    llmgw("keys", "create", "web", "-i", fleet)
    llmgw("keys", "create", "other", "-i", fleet)
    overlay = fleet / "catalog.overlay.yaml"
    overlay.write_text("gateway: {keys: {web: {max_concurrency: 2}}}\n", encoding="utf-8")
    called = llmgw("keys", "revoke", "web", "-i", fleet)
    assert called.status == 1
    assert "stands in several files" in called.err
    assert set(stored(fleet)) == {"web", "other"}


def test_of_two_keys_made_at_once_none_that_was_shown_is_lost(
    fleet: Path, llmgw: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, make = (fleet / "catalog.yaml").read_bytes(), tempfile.mkstemp
    others: list[threading.Thread] = []
    shown: list[str] = []

    def other() -> None:
        sources, _before = read_catalog(None, fleet)
        file = sources.files[0]
        try:
            replace_file(sources, file, with_key(file, "other", {"sha256": "b" * 64}), ["other"])
        except LlmgwError:
            return
        shown.append("other")

    def between(*args: Any, **more: Any) -> Any:
        if not others:
            others.append(threading.Thread(target=other))
            others[0].start()
            others[0].join(1.0)
        return make(*args, **more)

    monkeypatch.setattr(tempfile, "mkstemp", between)
    assert llmgw("keys", "create", "web", "-i", fleet).status == 0
    others[0].join()
    assert (fleet / "catalog.yaml").read_bytes() != content
    assert {"web", *shown} == set(stored(fleet))

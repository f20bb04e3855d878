# SPDX-License-Identifier: Apache-2.0
"""Listing, measuring and extracting on the real machine: what it refuses has a name, and nothing raises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.host import Entry, Host, Size

HOST = Host()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "lost").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_a_listing_tells_what_each_entry_is_itself(folder: Path) -> None:
    listing = HOST.scan(str(folder))
    kinds = [("file", "file"), ("link", "link"), ("lost", "link"), ("pipe", "other"), ("sub", "directory")]
    assert listing.entries == tuple(Entry(*kind) for kind in kinds)
    assert (listing.error, listing.cut) == (None, False)


@pytest.mark.parametrize(("limit", "cut"), [(0, True), (4, True), (5, False)])
def test_a_listing_ends_at_its_limit(folder: Path, limit: int, cut: bool) -> None:
    listing = HOST.scan(str(folder), limit)
    assert (len(listing.entries), listing.cut) == (limit, cut)


@pytest.mark.parametrize(("name", "error"), [("none", "ENOENT"), ("file", "ENOTDIR"), ("a\0b", "EINVAL")])
def test_what_cannot_be_listed_says_why(folder: Path, name: str, error: str) -> None:
    assert HOST.scan(f"{folder}/{name}") == ((), error, False)


def test_sizes_are_those_behind_links(folder: Path) -> None:
    assert HOST.measure(str(folder), "link", "sub", "lost", "file", "a\0b") == (
        Size(5),
        Size(None),
        Size(None, "ENOENT"),
        Size(5),
        Size(None, "EINVAL"),
    )
    assert HOST.measure(str(folder)) == ()


def test_an_extract_is_made_of_the_file_as_it_is_read(folder: Path) -> None:
    def ends(stream: BinaryIO) -> bytes:
        return stream.read(2) + b"-" + stream.read()[-1:]

    assert HOST.extract(str(folder / "link"), "ends", ends) == b"12-5"


@pytest.mark.parametrize("name", ["none", "sub", "lost", "a\0b"])
def test_there_is_no_extract_of_what_is_no_file(folder: Path, name: str) -> None:
    assert HOST.extract(f"{folder}/{name}", "all", lambda stream: stream.read()) is None


def test_a_pipe_holds_nobody_up(folder: Path) -> None:
    assert HOST.extract(str(folder / "pipe"), "all", lambda stream: stream.read(4) or b"nothing") is None

# SPDX-License-Identifier: Apache-2.0
"""GGUF files in model directories: found, bounded, and never called complete for their magic alone (D12)."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Filesystem, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.fake_host import FakeHost

MODEL = b"GGUF\x03\x00\x00\x00"


def names(host: Host, *directories: str) -> list[str]:
    return [found.path for found in weights.read_weights(host, directories, [])]


def test_a_file_is_told_with_its_size_and_filesystem() -> None:
    host = FakeHost({"/models/tiny.gguf": MODEL}, sizes={"/models/tiny.gguf": 98_362_432})
    disk = Filesystem("/models", shared=True, directories=("/models",))
    assert weights.read_weights(host, ["/models"], [disk]) == (
        Weights("tiny.gguf", "/models/tiny.gguf", "gguf", size_bytes=98_362_432, mount_point="/models", shared=True),
    )


def test_what_is_empty_or_no_gguf_is_no_weights() -> None:
    host = FakeHost({"/m/empty.gguf": b"", "/m/page.gguf": b"<html>", "/m/a.bin": MODEL, "/m/good.gguf": MODEL})
    assert names(host, "/m") == ["/m/good.gguf"]


def test_the_search_is_not_deep() -> None:
    host = FakeHost({"/m/a.gguf": MODEL, "/m/1/b.gguf": MODEL, "/m/1/2/c.gguf": MODEL, "/m/1/2/3/d.gguf": MODEL})
    assert names(host, "/m") == ["/m/1/2/c.gguf", "/m/1/b.gguf", "/m/a.gguf"]


def test_directories_that_overlap_tell_a_file_once() -> None:
    host = FakeHost({"/m/1/b.gguf": MODEL})
    assert names(host, "/m", "/m/1", "/m/") == ["/m/1/b.gguf"]


def test_a_link_to_a_file_is_weights_and_a_loop_of_directories_ends(tmp_path: Path) -> None:
    (tmp_path / "real.gguf").write_bytes(MODEL)
    (tmp_path / "link.gguf").symlink_to("real.gguf")
    (tmp_path / "loop").symlink_to(".")
    assert names(Host(), str(tmp_path)) == [str(tmp_path / "link.gguf"), str(tmp_path / "real.gguf")]


def test_a_huge_directory_is_searched_within_bounds() -> None:
    class Endless(FakeHost):
        asked = 0

        def list(self, path: str) -> tuple[str, ...]:
            del path
            return tuple(f"entry{number}" for number in range(15_000))

        def is_directory(self, path: str) -> bool:
            del path
            self.asked += 1
            return True

    host = Endless()
    assert names(host, "/m") == []
    assert host.asked <= 20_000

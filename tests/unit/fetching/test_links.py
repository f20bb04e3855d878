# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import child, links

FOLDER = "models--org--tiny"
COMMIT = "a" * 40


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache as fetches leave it."""
    cache = tmp_path / "models"
    for name in ("blobs", f"snapshots/{COMMIT}/1_Pooling", "refs/feature", "trees"):
        (cache / FOLDER / name).mkdir(parents=True)
    for name in (".llmgw", f".locks/{FOLDER}"):
        (cache / name).mkdir(parents=True)
    (cache / FOLDER / "blobs" / ("b" * 40)).write_text("{}")
    (cache / FOLDER / "snapshots" / COMMIT / "config.json").symlink_to(f"../../blobs/{'b' * 40}")
    (tmp_path / "elsewhere").mkdir()
    return cache


def test_what_fetches_leave_is_in_nobodys_way(cache: Path) -> None:
    assert links.in_the_way(str(cache), FOLDER, trusted=()) is None
    assert links.in_the_way(str(cache / "not-there"), FOLDER) is None


@pytest.mark.parametrize(
    "name",
    [
        ".llmgw/writer.3",
        f".locks/{FOLDER}/{'b' * 40}.lock",
        f"{FOLDER}/blobs/{'c' * 40}.incomplete",
        f"{FOLDER}/blobs/{'c' * 40}.llmgw.incomplete",
        f"{FOLDER}/refs/main",
        f"{FOLDER}/refs/feature/x",
        f"{FOLDER}/trees/{COMMIT}.json",
    ],
)
def test_a_link_in_the_place_of_a_file_that_is_written_is_in_the_way_whoever_made_it(cache: Path, name: str) -> None:
    (cache / name).symlink_to("/etc/passwd")
    assert links.in_the_way(f"{cache}/", FOLDER) == str(cache / name)


@pytest.mark.parametrize(
    "name", [f"{FOLDER}/snapshots/{'d' * 40}", f"{FOLDER}/snapshots/{COMMIT}/2_Dense", ".llmgw", FOLDER]
)
def test_a_link_to_a_directory_is_in_the_way_unless_somebody_trusted_made_it(
    cache: Path, tmp_path: Path, name: str
) -> None:
    path = cache / name
    if path.exists():
        path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "elsewhere")
    assert links.in_the_way(str(cache), FOLDER, trusted=()) == str(path)
    assert links.in_the_way(str(cache), FOLDER) is None


def test_nothing_is_written_through_a_link_nor_to_a_file_with_a_second_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("v")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "to-nothing").symlink_to(tmp_path / "new")
    for name in ("link", "to-nothing"):
        with pytest.raises(child.LinkInTheWay):
            child._appending(str(tmp_path / name), 0)
    (tmp_path / "name").hardlink_to(victim)
    with pytest.raises(child.LinkInTheWay):
        child._appending(str(tmp_path / "name"), 0)
    assert not (tmp_path / "new").exists()
    assert victim.read_text() == "v"


def test_a_file_is_gone_on_with_and_begun_anew_when_it_has_too_much(tmp_path: Path) -> None:
    for content, most, expected in ((b"abc", 5, b"abcd"), (b"abc", 2, b"d")):
        (tmp_path / "part").write_bytes(content)
        with child._appending(str(tmp_path / "part"), most) as stream:
            stream.write(b"d")
        assert (tmp_path / "part").read_bytes() == expected

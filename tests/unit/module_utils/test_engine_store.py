# SPDX-License-Identifier: Apache-2.0
"""Versions of an engine on a node: which there are, which is current, which may go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils import engine_store
from ansible_collections.llmgw.fleet.plugins.module_utils.engine_store import Store, StoreError, Version, unneeded

ABOUT = {"kind": "vllm", "version": "1.0"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path), "vllm")


def install(store: Store, name: str, age_s: float = 0) -> Path:
    folder = Path(store.begin(name, ABOUT))
    (folder / "bin").mkdir()
    (folder / "bin/vllm").write_text("program")
    store.finish(name, ABOUT)
    os.utime(folder / engine_store.MARK, (1_700_000_000 - age_s,) * 2)
    return folder


def test_a_version_that_nothing_else_decides_is_the_name_of_its_folder() -> None:
    assert engine_store.folder_name("0.33.0", {"extras": [], "locked": "", "package": None}) == "0.33.0"


def test_whatever_else_decides_what_is_in_a_folder_is_in_its_name() -> None:
    names = {
        engine_store.folder_name("1.0", recipe)
        for recipe in ({"extras": ["a"]}, {"extras": ["b"]}, {"constraints": ["a"]}, {"locked": "a"}, {})
    }
    assert len(names) == 5
    assert all(name == "1.0" or name.startswith("1.0-") for name in names)


@pytest.mark.parametrize("version", ["", "..", "a/b", ".1", "current", "bin", "1 0", "1.0\n"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(StoreError, match="is no version"):
        engine_store.folder_name(version, {})


def test_a_folder_counts_only_when_it_was_finished(store: Store) -> None:
    assert store.state("1.0") == engine_store.ABSENT
    store.begin("1.0", ABOUT)
    assert store.state("1.0") == engine_store.UNFINISHED
    store.finish("1.0", ABOUT)
    assert store.state("1.0") == engine_store.COMPLETE


def test_what_an_interrupted_installation_left_is_gone_when_it_is_begun_anew(store: Store) -> None:
    folder = Path(store.begin("1.0", ABOUT))
    (folder / "half-a-package").write_text("")
    store.begin("1.0", ABOUT)
    assert [path.name for path in folder.iterdir()] == [engine_store.MARK]


def test_an_environment_whose_interpreter_is_gone_is_unfinished(store: Store, tmp_path: Path) -> None:
    folder = install(store, "1.0")
    (tmp_path / "python3.11").write_text("")
    (folder / "bin/python").symlink_to(tmp_path / "python3.11")
    assert store.state("1.0") == engine_store.COMPLETE
    (tmp_path / "python3.11").unlink()
    assert store.state("1.0") == engine_store.UNFINISHED


def test_a_mark_that_cannot_be_read_is_that_of_an_unfinished_version(store: Store) -> None:
    for text in ("", "[]", "{", '{"complete": "yes"}'):
        (install(store, "1.0") / engine_store.MARK).write_text(text)
        assert store.state("1.0") == engine_store.UNFINISHED
        store.remove("1.0")


def test_a_folder_that_somebody_else_made_is_told_from_an_empty_one_and_is_no_version(store: Store) -> None:
    Path(store.folder("1.0")).mkdir(parents=True)
    assert store.state("1.0") == engine_store.ABSENT
    Path(store.folder("1.0"), "pyvenv.cfg").write_text("")
    assert store.state("1.0") == engine_store.FOREIGN
    assert store.versions() == []


def test_what_an_end_in_the_middle_of_the_first_mark_left_is_nobodys(store: Store) -> None:
    folder = Path(store.folder("1.0"))
    folder.mkdir(parents=True)
    (folder / f".{engine_store.MARK}.x1y2z3").write_text("{")
    assert store.state("1.0") == engine_store.ABSENT
    (folder / "theirs").write_text("")
    assert store.state("1.0") == engine_store.FOREIGN
    (folder / "theirs").unlink()
    store.begin("1.0", ABOUT)
    assert [path.name for path in folder.iterdir()] == [engine_store.MARK]


def test_the_current_version_moves_in_one_step_and_leaves_nothing_beside(store: Store) -> None:
    install(store, "1.0")
    install(store, "1.1")
    assert store.current() is None
    for name in ("1.0", "1.1", "1.0"):
        store.make_current(name)
        assert store.current() == name
        assert str(Path(store.folder("current")).readlink()) == name
    assert sorted(path.name for path in Path(store.directory).iterdir()) == ["1.0", "1.1", "current"]


def test_a_link_to_a_version_that_is_gone_makes_nothing_current(store: Store) -> None:
    install(store, "1.0")
    store.make_current("1.0")
    store.remove("1.0")
    assert store.current() is None


def test_what_is_in_the_place_of_the_link_and_is_somebody_elses_is_left_alone(store: Store, tmp_path: Path) -> None:
    current = Path(store.folder("current"))
    current.mkdir(parents=True)
    with pytest.raises(StoreError, match="no link of llmgw's"):
        store.make_current("1.0")
    current.rmdir()
    current.symlink_to(tmp_path)
    with pytest.raises(StoreError, match="no link of llmgw's"):
        store.make_current("1.0")
    assert current.readlink() == tmp_path


def test_versions_are_told_the_newest_first(store: Store) -> None:
    for name, age_s in (("1.0", 30), ("1.2", 10), ("1.1", 20)):
        install(store, name, age_s)
    store.begin("1.3", ABOUT)
    store.make_current("1.2")
    assert [(version.name, version.complete) for version in store.versions()] == [
        ("1.3", False),
        ("1.2", True),
        ("1.1", True),
        ("1.0", True),
    ]


def test_what_an_interrupted_removal_left_is_swept_away(store: Store) -> None:
    install(store, "1.0")
    Path(store.folder(".removed-0.9")).mkdir()
    Path(store.folder(".current-77")).symlink_to("0.9")
    assert [version.name for version in store.versions()] == ["1.0"]
    store.sweep()
    assert [path.name for path in Path(store.directory).iterdir()] == ["1.0"]


NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(
    names=NAMES,
    unfinished=st.sets(st.sampled_from("abcdefgh")),
    used=st.sets(st.sampled_from("abcdefgh")),
    keep=st.integers(0, 9),
)
def test_neither_the_current_version_nor_one_in_use_ever_goes_and_no_more_than_asked_stay(
    names: list[str], unfinished: set[str], used: set[str], keep: int
) -> None:
    versions = [Version(name, -age, name not in unfinished) for age, name in enumerate(names)]
    current = names[0] if names else "x"
    gone = unneeded(versions, current, sorted(used), keep)
    assert not {current, *used} & set(gone)
    stay = [one.name for one in versions if one.name not in gone and one.name != current and one.name not in used]
    idle = [one.name for one in versions if one.complete and one.name != current and one.name not in used]
    assert stay == idle[:keep], "the newest, and only complete ones"

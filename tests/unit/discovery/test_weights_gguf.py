# SPDX-License-Identifier: Apache-2.0
"""GGUF models, single and in parts: whole when every part is there and as long as its header says (D12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.model_files import F16, gguf, write

FILE = gguf()
PARTS = {f"tiny-{number:05d}-of-00003.gguf": gguf(split=(number - 1, 3)) for number in (1, 2, 3)}
FIRST, SECOND, THIRD = PARTS


def all_in(directory: Path) -> tuple[Weights, ...]:
    found, findings = read_weights(Host(), [str(directory)], [])
    assert findings == ()
    return found


def only(directory: Path) -> Weights:
    (found,) = all_in(directory)
    return found


def judged(directory: Path) -> tuple[bool | None, tuple[str, ...]]:
    return only(directory).complete, only(directory).missing


def test_a_single_file_is_a_model_under_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, {"tiny.Q4.gguf": FILE})
    found = only(tmp_path)
    assert (found.model, found.path, found.layout) == ("tiny.Q4.gguf", str(tmp_path / "tiny.Q4.gguf"), "gguf")
    assert (found.complete, found.size_bytes, found.tensor_bytes, found.files) == (True, len(FILE), 512 + 36, 1)


def test_every_variant_in_a_directory_is_a_model(tmp_path: Path) -> None:
    write(tmp_path, {"tiny.Q4.gguf": FILE, "tiny.Q8.GGUF": FILE, "mmproj-tiny.gguf": FILE})
    assert [one.model for one in all_in(tmp_path)] == ["mmproj-tiny.gguf", "tiny.Q4.gguf", "tiny.Q8.GGUF"]


@pytest.mark.parametrize("length", range(1, len(FILE), 41))
def test_a_file_that_is_cut_off_anywhere_is_not_whole(tmp_path: Path, length: int) -> None:
    write(tmp_path, {"tiny.gguf": FILE[:length]})
    assert judged(tmp_path) == (False, ("tiny.gguf",))


def test_what_is_empty_or_something_else_is_no_model(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\n"
    write(
        tmp_path, {"empty.gguf": b"", "page.gguf": b"<html>", "pointer.gguf": pointer, "a.bin": FILE, "d.gguf/x": b""}
    )
    assert all_in(tmp_path) == ()


def test_parts_are_one_model_that_is_started_by_its_first_file(tmp_path: Path) -> None:
    write(tmp_path, PARTS)
    found = only(tmp_path)
    assert (found.model, found.path, found.complete) == (FIRST, str(tmp_path / FIRST), True)
    assert (found.files, found.size_bytes) == (3, sum(map(len, PARTS.values())))
    assert found.tensor_bytes == 3 * (512 + 36)


@pytest.mark.parametrize("name", [FIRST, SECOND, THIRD])
def test_a_part_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    (write(tmp_path, PARTS) / name).unlink()
    assert judged(tmp_path) == (False, (name,))
    assert (only(tmp_path).model, only(tmp_path).files) == (FIRST, 2)


def test_a_part_that_is_cut_off_or_in_another_s_place_is_named(tmp_path: Path) -> None:
    write(tmp_path / "1", PARTS | {SECOND: PARTS[SECOND][:-1]})
    write(tmp_path / "2", PARTS | {THIRD: PARTS[SECOND]})
    assert judged(tmp_path / "1") == (False, (SECOND,))
    assert judged(tmp_path / "2") == (False, (THIRD,))


def test_a_part_under_another_name_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    write(tmp_path, {"tiny.gguf": PARTS[FIRST]})
    assert judged(tmp_path) == (False, ("tiny.gguf, part 2 of 3", "tiny.gguf, part 3 of 3"))


def test_parts_that_speak_of_more_parts_than_their_names_do_are_not_whole(tmp_path: Path) -> None:
    write(tmp_path, {"tiny-00001-of-00001.gguf": PARTS[FIRST]})
    assert judged(tmp_path) == (False, (FIRST, SECOND, THIRD))


@pytest.mark.parametrize("name", ["tiny.gguf", "tiny-00001-of-00001.gguf"])
def test_a_file_that_speaks_of_parts_without_end_is_not_whole(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: gguf(split=(0, 65_535))})
    found = only(tmp_path)
    assert (found.complete, len(found.missing)) == (False, 20)
    assert found.missing_count is not None
    assert found.missing_count <= 10_001


def test_a_file_with_tensors_of_a_new_type_cannot_be_judged_unless_it_is_too_short(tmp_path: Path) -> None:
    content = gguf({"a": (200, (64,)), "b": (F16, (8,))})
    write(tmp_path / "1", {"tiny.gguf": content})
    write(tmp_path / "2", {"tiny.gguf": content[:-20]})
    assert judged(tmp_path / "1") == (None, ())
    assert judged(tmp_path / "2") == (False, ("tiny.gguf",))


def test_a_download_is_named_by_what_it_will_be(tmp_path: Path) -> None:
    write(tmp_path, {"tiny.gguf.downloadInProgress": b"GGUF", "whole.gguf": FILE, "whole.gguf.part": b"old"})
    tiny, whole = all_in(tmp_path)
    assert (tiny.model, tiny.complete, tiny.missing, tiny.size_bytes) == ("tiny.gguf", False, ("tiny.gguf",), None)
    assert whole.complete is True


def test_a_file_that_aria2_still_writes_to_is_not_whole(tmp_path: Path) -> None:
    write(tmp_path, {"tiny.gguf": FILE, "tiny.gguf.aria2": b"notes"})
    assert judged(tmp_path) == (False, ("tiny.gguf",))


def test_a_link_to_a_file_is_a_model_and_one_to_nothing_is_not_whole(tmp_path: Path) -> None:
    write(tmp_path, {"real/tiny.gguf": FILE})
    (tmp_path / "link.gguf").symlink_to("real/tiny.gguf")
    (tmp_path / "lost.gguf").symlink_to("nowhere.gguf")
    assert [(one.model, one.complete) for one in all_in(tmp_path)] == [
        ("link.gguf", True),
        ("lost.gguf", False),
        ("tiny.gguf", True),
    ]

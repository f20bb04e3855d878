# SPDX-License-Identifier: Apache-2.0
"""Models in plain directories: whole or not, and which directories are none (D12)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Size
from tests.support import model_files
from tests.support.model_files import COMMIT, CONFIG, TOKENIZER, index, model, safetensors, write

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
SINGLE = {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "model.safetensors": safetensors({"a": (4, 4)})}


def all_in(directory: Path) -> tuple[Weights, ...]:
    return read_weights(Host(), [str(directory)], [])[0]


def only(directory: Path) -> Weights:
    (found,) = all_in(directory)
    return found


def judged(directory: Path) -> tuple[bool | None, tuple[str, ...]]:
    return only(directory).complete, only(directory).missing


@pytest.mark.parametrize("files", [model(3), SINGLE])
def test_a_whole_model_is_told_by_its_path_below_the_model_directory(tmp_path: Path, files: dict[str, bytes]) -> None:
    write(tmp_path / "org" / "tiny", files)
    found = only(tmp_path)
    assert (found.model, found.path, found.layout) == ("org/tiny", str(tmp_path / "org" / "tiny"), "directory")
    assert (found.complete, found.missing_count, found.revision, found.refs) == (True, 0, None, ())
    own = [content for name, content in files.items() if name.endswith(".safetensors")]
    assert (found.size_bytes, found.files) == (sum(map(len, own)), len(own))


def test_a_model_directory_that_is_itself_a_model_has_its_own_name(tmp_path: Path) -> None:
    write(tmp_path / "tiny", model())
    assert only(tmp_path / "tiny").model == "tiny"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", ONE, TWO])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    (write(tmp_path / "tiny", model()) / name).unlink()
    assert judged(tmp_path) == (False, (name,))


def test_shards_are_counted_by_their_numbers_where_there_is_no_index(tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", model(4))
    (folder / INDEX).unlink()
    assert judged(tmp_path) == (True, ())
    (folder / "model-00003-of-00004.safetensors").unlink()
    assert judged(tmp_path) == (False, ("model-00003-of-00004.safetensors",))


def test_shards_with_numbers_of_another_width_are_named_as_they_are_written(tmp_path: Path) -> None:
    names = [f"model-{number:05d}-of-000003.safetensors" for number in (1, 3)]
    write(
        tmp_path / "tiny",
        {"config.json": CONFIG, "tokenizer.json": TOKENIZER, **dict.fromkeys(names, SINGLE["model.safetensors"])},
    )
    assert judged(tmp_path) == (False, ("model-00002-of-000003.safetensors",))


@pytest.mark.parametrize("total", [512, 9999, None])
def test_a_wrong_total_in_the_index_costs_nothing(tmp_path: Path, total: int | None) -> None:
    files = model() | {INDEX: index({"a": ONE, "b": TWO}, total)}
    write(tmp_path / "tiny", files)
    assert (only(tmp_path).complete, only(tmp_path).tensor_bytes) == (True, 512)


def test_a_broken_index_is_missing_and_the_shards_are_judged_by_themselves(tmp_path: Path) -> None:
    write(tmp_path / "tiny", model() | {INDEX: b"{"})
    assert judged(tmp_path) == (False, (INDEX,))


def test_an_index_that_leads_out_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", SINGLE) / "model.safetensors"
    write(
        tmp_path / "root" / "tiny",
        SINGLE | {INDEX: index({"a": str(outside), "b": "../../outside/model.safetensors"}, 64)},
    )
    assert judged(tmp_path / "root") == (False, ("../../outside/model.safetensors", str(outside)))


@pytest.mark.parametrize("length", range(0, len(SINGLE["model.safetensors"]), 9))
def test_a_file_that_is_cut_off_anywhere_is_not_whole(tmp_path: Path, length: int) -> None:
    write(tmp_path / "tiny", SINGLE | {"model.safetensors": SINGLE["model.safetensors"][:length]})
    assert judged(tmp_path) == (False, ("model.safetensors",))


def test_a_shard_with_a_byte_too_many_is_not_whole(tmp_path: Path) -> None:
    write(tmp_path / "tiny", model() | {TWO: model()[TWO] + b"x"})
    assert judged(tmp_path) == (False, (TWO,))


def test_pointers_of_git_lfs_are_no_weights(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"
    write(tmp_path / "tiny", model() | {ONE: pointer, TWO: pointer})
    assert judged(tmp_path) == (False, (ONE, TWO))


@pytest.mark.parametrize("partial", [f"{TWO}.part", f".{TWO}.Xa12bC", f"{TWO}.incomplete"])
def test_a_copy_on_its_way_beside_the_others_is_the_file_that_is_missing(tmp_path: Path, partial: str) -> None:
    folder = write(tmp_path / "tiny", model() | {partial: b"half"})
    (folder / TWO).unlink()
    assert judged(tmp_path) == (False, (TWO,))


@pytest.mark.parametrize("partial", ["model.safetensors.part", ".model.safetensors.Xa12bC"])
def test_a_single_file_on_its_way_is_named_by_what_it_will_be(tmp_path: Path, partial: str) -> None:
    write(tmp_path / "tiny", {"config.json": CONFIG, "tokenizer.json": TOKENIZER, partial: b"half"})
    assert judged(tmp_path) == (False, ("model.safetensors",))


def test_a_file_that_aria2_still_writes_to_is_not_whole(tmp_path: Path) -> None:
    write(tmp_path / "tiny", model() | {f"{TWO}.aria2": b"notes"})
    assert judged(tmp_path) == (False, (TWO,))


def test_a_fetch_into_a_directory_is_told_by_what_the_hub_s_client_keeps_there(tmp_path: Path) -> None:
    partial = "Xk2b_4.abcdef.0badcafe.incomplete"
    files = {"config.json": CONFIG, "tokenizer.json": TOKENIZER, f".cache/huggingface/download/{partial}": b"half"}
    folder = write(tmp_path / "tiny", files)
    assert judged(tmp_path) == (False, (partial,))
    model_files.write_tree(folder / ".cache/huggingface/trees" / f"{COMMIT}.json", SINGLE)
    assert (judged(tmp_path), only(tmp_path).revision) == ((False, ("model.safetensors",)), COMMIT)
    write(folder, SINGLE)
    assert (judged(tmp_path), only(tmp_path).revision) == ((True, ()), COMMIT)


def test_an_adapter_needs_no_tokenizer(tmp_path: Path) -> None:
    write(tmp_path / "lora", {"adapter_config.json": b"{}", "adapter_model.safetensors": SINGLE["model.safetensors"]})
    assert judged(tmp_path) == (True, ())


@pytest.mark.parametrize("shard", ["pytorch_model-00002-of-00002.bin", None])
def test_pickled_shards_are_counted_and_never_proven(tmp_path: Path, shard: str | None) -> None:
    names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    files = {name: b"x" * 10 for name in names if name != shard}
    files |= {"pytorch_model.bin.index.json": index(dict(zip("ab", names, strict=True)), 20)}
    write(tmp_path / "tiny", {"config.json": CONFIG, "tokenizer.json": TOKENIZER} | files)
    assert judged(tmp_path) == ((None, ()) if shard is None else (False, (shard,)))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"config.json": CONFIG},
        {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "README.md": b""},
        {"painter.safetensors": SINGLE["model.safetensors"]},
        {"weights.bin": b"x"},
        {"model_index.json": b"{}", "unet/config.json": CONFIG, "unet/model.safetensors": SINGLE["model.safetensors"]},
    ],
)
def test_a_directory_without_a_model_is_not_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    write(tmp_path / "other", files)
    assert all_in(tmp_path) == ()


def test_what_lies_in_a_model_s_own_directories_is_part_of_it(tmp_path: Path) -> None:
    write(tmp_path / "tiny", model() | {f"fp8/{name}": content for name, content in model().items()})
    assert only(tmp_path).model == "tiny"


def test_hidden_directories_and_links_to_directories_are_not_entered(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", model())
    root = write(tmp_path / "root", {".git/config.json": CONFIG, ".git/model.safetensors": SINGLE["model.safetensors"]})
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(".")
    assert all_in(root) == ()


def test_names_that_are_no_text_are_told_as_far_as_they_can_be(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102 - a name in bytes
    write(Path(os.fsdecode(folder)), model())
    found = only(tmp_path)
    assert (found.model, found.complete) == ("caf\ufffd", True)
    found.path.encode()


class Barred(Host):
    """Where neither a shard nor the index may be read."""

    def measure(self, directory: str, *names: str) -> tuple[Size, ...]:
        sizes = super().measure(directory, *names)
        return tuple(Size(None, "EACCES") if name == TWO else size for name, size in zip(names, sizes, strict=True))

    def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
        return None if path.endswith(INDEX) else super().extract(path, what, extractor)


def test_a_file_that_may_not_be_read_is_neither_whole_nor_missing(tmp_path: Path) -> None:
    write(tmp_path / "tiny", model())
    (found,), _findings = read_weights(Barred(), [str(tmp_path)], [])
    assert (found.complete, found.missing, found.files) == (None, (), 1)

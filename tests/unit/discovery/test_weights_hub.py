# SPDX-License-Identifier: Apache-2.0
"""Caches of huggingface_hub: snapshots, whole or not, with what is missing by its name (D12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Bounds
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support import model_files
from tests.support.model_files import COMMIT, CONFIG, README, TOKENIZER, hub_repository, model, write

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
ETAG = "ab" * 32


def all_in(directory: Path) -> tuple[Weights, ...]:
    found, findings = read_weights(Host(), [str(directory)], [])
    assert findings == ()
    return found


def only(directory: Path) -> Weights:
    (found,) = all_in(directory)
    return found


def blob_of(snapshot: Path, name: str) -> Path:
    return (snapshot / name).parent / (snapshot / name).readlink()


@pytest.mark.parametrize("shared_store", [False, True])
@pytest.mark.parametrize("tree", [False, True])
def test_a_whole_snapshot_is_one_entry_with_its_commit(tmp_path: Path, shared_store: bool, tree: bool) -> None:
    refs = ("main", "refs/pr/1")
    snapshot = hub_repository(tmp_path, "org/tiny", model(), refs=refs, tree=tree, shared_store=shared_store)
    found = only(tmp_path)
    assert (found.model, found.path, found.layout, found.format) == (
        "org/tiny",
        str(snapshot),
        "hf-cache",
        "safetensors",
    )
    assert (found.revision, found.refs) == (COMMIT, refs)
    assert (found.complete, found.missing, found.missing_count) == (True, (), 0)
    assert (found.files, found.size_bytes) == (2, sum(len(model()[name]) for name in (ONE, TWO)))
    assert found.tensor_bytes == 512


@pytest.mark.parametrize("given", ["hub", "home", "above", "repository"])
def test_a_cache_is_found_from_its_home_from_above_and_from_inside(tmp_path: Path, given: str) -> None:
    home = tmp_path / ".cache" / "huggingface"
    hub_repository(home / "hub", "org/tiny", model(), shared_store=True)
    write(home, {"token": b"", "xet/ab/cd.safetensors": b"x"})
    roots = {"hub": home / "hub", "home": home, "above": tmp_path, "repository": home / "hub" / "models--org--tiny"}
    assert only(roots[given]).model == "org/tiny"


def test_a_model_without_an_organisation_has_a_plain_name(tmp_path: Path) -> None:
    hub_repository(tmp_path, "gpt2", model())
    assert only(tmp_path).model == "gpt2"


def test_every_snapshot_is_an_entry_and_the_names_go_to_their_commit(tmp_path: Path) -> None:
    hub_repository(tmp_path, "org/tiny", model(), commit="1" * 40, refs=("v1",))
    hub_repository(tmp_path, "org/tiny", model(), commit="2" * 40, refs=("main",))
    assert [(one.revision, one.refs) for one in all_in(tmp_path)] == [("1" * 40, ("v1",)), ("2" * 40, ("main",))]


@pytest.mark.parametrize("tree", [False, True])
@pytest.mark.parametrize("name", [TWO, "config.json", "tokenizer.json", "model.safetensors.index.json"])
def test_a_link_to_a_blob_that_is_gone_is_missing(tmp_path: Path, name: str, tree: bool) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", model(), tree=tree)
    blob_of(snapshot, name).unlink()
    found = only(tmp_path)
    assert (found.complete, found.missing, found.missing_count) == (False, (name,), 1)


def test_a_repository_that_was_copied_without_the_shared_store_is_not_whole(tmp_path: Path) -> None:
    snapshot = hub_repository(tmp_path / "from", "org/tiny", model(), shared_store=True)
    (tmp_path / "to").mkdir()
    snapshot.parent.parent.rename(tmp_path / "to" / "models--org--tiny")
    found = only(tmp_path / "to")
    assert (found.complete, found.missing) == (False, (ONE, TWO))
    assert (found.size_bytes, found.files, found.tensor_bytes) == (None, 0, None)


def test_what_never_arrived_is_named_by_the_tree(tmp_path: Path) -> None:
    files = model(30)
    arrived = {name: content for name, content in files.items() if not name.startswith("model-")}
    hub_repository(tmp_path, "org/tiny", arrived, tree=files)
    found = only(tmp_path)
    assert found.complete is False
    assert (found.missing[0], len(found.missing), found.missing_count) == (
        "model-00001-of-00030.safetensors",
        20,
        30,
    )


def test_what_an_engine_does_not_read_may_be_absent(tmp_path: Path) -> None:
    files = model() | {"original/consolidated.00.pth": b"x", "pytorch_model.bin": b"x", "onnx/model.onnx": b"x"}
    fetched = {name: content for name, content in model().items() if name != "README.md"}
    hub_repository(tmp_path, "org/tiny", fetched, tree=files)
    assert only(tmp_path).complete is True


def test_a_shard_of_another_size_than_the_hub_has_is_not_whole(tmp_path: Path) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", model())
    blob = blob_of(snapshot, TWO)
    blob.write_bytes(blob.read_bytes()[:-1])
    assert (only(tmp_path).complete, only(tmp_path).missing) == (False, (TWO,))


def test_space_of_the_right_size_that_was_never_written_is_not_whole(tmp_path: Path) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", model())
    blob = blob_of(snapshot, TWO)
    blob.write_bytes(bytes(len(model()[TWO])))
    assert (only(tmp_path).complete, only(tmp_path).missing) == (False, (TWO,))


def test_a_broken_tree_is_as_good_as_none(tmp_path: Path) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", model())
    (snapshot.parent.parent / "trees" / f"{COMMIT}.json").write_text('{"files": [', encoding="ascii")
    assert only(tmp_path).complete is True


def test_a_download_that_was_left_behind_changes_nothing(tmp_path: Path) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", model(), tree=False)
    stale = f"{blob_of(snapshot, TWO).name}.0badcafe.incomplete"
    write(snapshot.parent.parent / "blobs", {stale: b"half"})
    assert only(tmp_path).complete is True


@pytest.mark.parametrize("partial", [f"{ETAG}.incomplete", f"{ETAG}.0badcafe.incomplete"])
def test_weights_on_their_way_are_named(tmp_path: Path, partial: str) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", {"config.json": CONFIG, "tokenizer.json": TOKENIZER}, tree=False)
    write(snapshot.parent.parent / "blobs", {partial: b"half"})
    assert (only(tmp_path).complete, only(tmp_path).missing) == (False, (partial,))


def test_a_repository_of_which_nothing_arrived_is_told_as_not_whole(tmp_path: Path) -> None:
    write(tmp_path / "models--org--tiny", {f"blobs/{ETAG}.incomplete": b"half", "refs/main": COMMIT.encode()})
    found = only(tmp_path)
    assert (found.model, found.complete, found.missing) == ("org/tiny", False, (f"{ETAG}.incomplete",))
    assert (found.size_bytes, found.files) == (None, 0)


def test_what_is_on_its_way_has_its_name_where_the_tree_knows_it(tmp_path: Path) -> None:
    repository = write(tmp_path / "models--org--tiny", {f"blobs/{ETAG}.incomplete": b"half"})
    model_files.write_tree(repository / "trees" / f"{COMMIT}.json", model())
    found = only(tmp_path)
    assert (found.revision, found.complete, found.missing[:2]) == (COMMIT, False, (ONE, TWO))


@pytest.mark.parametrize("files", [{}, {"config.json": CONFIG, "tokenizer.json": TOKENIZER}, {"README.md": README}])
def test_what_holds_no_weights_is_not_told(tmp_path: Path, files: dict[str, bytes]) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", files, tree=False)
    snapshot.mkdir(parents=True, exist_ok=True)
    assert all_in(tmp_path) == ()


def test_data_sets_and_the_store_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "datasets--org--data" / "snapshots" / COMMIT, model())
    hub_repository(tmp_path, "org/tiny", model(), shared_store=True)
    write(tmp_path / "blobs" / "ff", model())
    assert only(tmp_path).model == "org/tiny"


def test_gguf_files_of_a_repository_are_models_of_their_own(tmp_path: Path) -> None:
    content = model_files.gguf()
    part = model_files.gguf(split=(0, 2))
    files = {"config.json": CONFIG, "tiny-Q4.gguf": content, "Q8/tiny-Q8-00001-of-00002.gguf": part}
    everything = files | {"tiny-Q2.gguf": b"x" * 9, "Q8/tiny-Q8-00002-of-00002.gguf": b"y"}
    hub_repository(tmp_path, "org/tiny-GGUF", files, tree=everything)
    split, single = all_in(tmp_path)
    assert (single.model, single.repository, single.layout) == ("tiny-Q4.gguf", "org/tiny-GGUF", "gguf")
    assert (single.complete, single.size_bytes, single.revision) == (True, len(content), COMMIT)
    assert (split.model, split.complete) == ("tiny-Q8-00001-of-00002.gguf", False)
    assert split.missing == ("tiny-Q8-00002-of-00002.gguf",)


def test_of_mistral_s_two_formats_the_one_that_was_fetched_counts(tmp_path: Path) -> None:
    own = {"params.json": b"{}", "tekken.json": b"{}", "consolidated.safetensors": model_files.safetensors({"a": (3,)})}
    hub_repository(tmp_path, "org/tiny", own, tree=model() | own)
    found = only(tmp_path)
    assert (found.complete, found.files, found.tensor_bytes) == (True, 1, 12)


def test_of_both_formats_the_usual_one_alone_is_counted(tmp_path: Path) -> None:
    own = {"params.json": b"{}", "consolidated.safetensors": model_files.safetensors({"a": (3,)})}
    hub_repository(tmp_path, "org/tiny", model() | own | {"pytorch_model.bin": b"x" * 99})
    assert (only(tmp_path).files, only(tmp_path).tensor_bytes) == (2, 512)


def test_weights_of_the_older_format_are_whole_only_where_the_hub_s_list_proves_it(tmp_path: Path) -> None:
    files = {"config.json": CONFIG, "tokenizer.json": TOKENIZER, "pytorch_model.bin": b"x" * 99}
    hub_repository(tmp_path / "1", "org/tiny", files)
    hub_repository(tmp_path / "2", "org/tiny", files, tree=False)
    assert [only(tmp_path / name).complete for name in "12"] == [True, None]
    assert only(tmp_path / "1").format == "pytorch"


def test_where_calls_are_scarce_the_hub_s_sizes_are_proof_enough(tmp_path: Path) -> None:
    hub_repository(tmp_path, "org/tiny", model())
    ((found,), _findings) = read_weights(Host(), [str(tmp_path)], [], bounds=Bounds(60, calls=16))
    assert (found.complete, found.tensor_bytes) == (True, None)


def test_a_download_that_was_left_behind_makes_no_weights_of_a_tokenizer(tmp_path: Path) -> None:
    snapshot = hub_repository(tmp_path, "org/tiny", {"config.json": CONFIG, "tokenizer.json": TOKENIZER}, tree=False)
    stale = f"{blob_of(snapshot, 'config.json').name}.0badcafe.incomplete"
    write(snapshot.parent.parent / "blobs", {stale: b"half"})
    assert all_in(tmp_path) == ()


def test_a_snapshot_without_its_configuration_is_not_whole(tmp_path: Path) -> None:
    files = {"tokenizer.json": TOKENIZER, "model.safetensors": model_files.safetensors({"a": (3,)})}
    hub_repository(tmp_path, "org/tiny", files, tree=False)
    assert (only(tmp_path).complete, only(tmp_path).missing) == (False, ("config.json",))


def test_a_gguf_file_in_a_folder_has_the_size_that_the_hub_says_or_is_not_whole(tmp_path: Path) -> None:
    name = "Q8/tiny.gguf"
    hub_repository(tmp_path, "org/tiny", {name: model_files.gguf()}, tree={name: model_files.gguf() + b"more"})
    assert (only(tmp_path).complete, only(tmp_path).missing) == (False, ("tiny.gguf",))


def test_what_the_hub_s_sizes_prove_is_not_read_again(tmp_path: Path) -> None:
    class Watched(Host):
        def extract(self, path: str, what: str, extractor: Callable[[BinaryIO], bytes]) -> bytes | None:
            assert what != "safetensors"
            return super().extract(path, what, extractor)

    files = model() | {"model.safetensors.index.json": model_files.index({"a": ONE, "b": TWO}, 1)}
    hub_repository(tmp_path, "org/tiny", files)
    ((found,), findings) = read_weights(Watched(), [str(tmp_path)], [])
    assert (found.complete, found.tensor_bytes, findings) == (True, 512, ())

# SPDX-License-Identifier: Apache-2.0
"""However a model is damaged, it is not called whole, and nothing is raised (D12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_names
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from tests.support.fake_host import FakeHost
from tests.support.model_files import CONFIG, TOKENIZER, gguf, model, safetensors

Files = dict[str, bytes]
SINGLE = {
    "config.json": CONFIG,
    "tokenizer.json": TOKENIZER,
    "model.safetensors": safetensors({"a": (4, 4), "b": (2,)}),
}
UNINDEXED = {name: content for name, content in model().items() if not name.endswith("index.json")}
PARTS = {f"tiny-{number:05d}-of-00002.gguf": gguf(split=(number - 1, 2)) for number in (1, 2)}
MODELS = [model(), SINGLE, UNINDEXED, PARTS, {"tiny.gguf": gguf()}]
NAMES = st.sampled_from(
    [
        "config.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "model-00009-of-00002.safetensors",
        "model-00001-of-99999.safetensors",
        "model.safetensors.index.json",
        "consolidated.safetensors",
        "adapter_model.safetensors",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "a.gguf",
        "a-00000-of-00000.gguf",
        "a-00002-of-00003.gguf",
        "a.gguf.aria2",
        "models--org--tiny/snapshots/c/config.json",
        "models--org--tiny/refs/main",
        "models--org--tiny/trees/c.json",
        "models--org--tiny/blobs/x.incomplete",
        "manifests/a/b/c/d",
        "blobs/sha256-ab",
        ".cache/huggingface/trees/c.json",
    ]
)
CONTENTS = st.one_of(
    st.binary(max_size=60), st.sampled_from([content for files in MODELS for content in files.values()])
)


def read(files: Files) -> tuple[tuple[Weights, ...], tuple[Finding, ...]]:
    return read_weights(FakeHost({f"/m/{name}": content for name, content in files.items()}), ["/m"], [])


@pytest.mark.parametrize("files", MODELS)
def test_whole_models_are_whole(files: Files) -> None:
    assert [one.complete for one in read(files)[0]] == [True]


@given(st.sampled_from(MODELS), st.data())
def test_a_file_that_is_cut_off_anywhere_is_never_whole(files: Files, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in files if weights_names.is_weights(name)]))
    length = data.draw(st.integers(0, len(files[name]) - 1))
    found, findings = read(files | {name: files[name][:length]})
    assert findings == ()
    assert all(one.complete is False and name in one.missing for one in found)


@given(st.sampled_from(MODELS), st.data())
def test_damage_to_a_file_raises_nothing(files: Files, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(files)))
    start = data.draw(st.integers(0, len(files[name])))
    content = (
        files[name][:start] + data.draw(st.binary(max_size=20)) + files[name][start + data.draw(st.integers(0, 20)) :]
    )
    assert read(files | {name: content})[1] == ()


@given(st.dictionaries(NAMES, CONTENTS))
def test_no_directory_raises_anything(files: Files) -> None:
    found, findings = read(files)
    assert findings == ()
    assert all((one.complete is False) == bool(one.missing_count) for one in found)
    assert all(len(one.missing) <= 20 for one in found)


@given(st.sets(st.text()), st.text())
def test_no_names_break_what_is_made_of_them(names: set[str], name: str) -> None:
    for group in weights_names.groups(names | {name}):
        assert weights_names.shards(group.files)
    assert name in weights_names.parts(name) or weights_names.part_number(name) is not None
    assert not set(weights_names.awaited(names)) & names

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights_names
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import files

QWEN = {
    *(".gitattributes", "LICENSE", "README.md", "config.json", "generation_config.json", "merges.txt", "vocab.json"),
    *("tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"),
    *(f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3)),
}
LLAMA = QWEN | {"original/consolidated.00.pth", "original/params.json", "original/tokenizer.model"}
GPT_OSS = QWEN | {"original/model.safetensors", "original/dtypes.json", "metal/model.bin", "chat_template.jinja"}
MISTRAL = QWEN | {"params.json", "consolidated.safetensors", "tekken.json"}
OLD = QWEN | {"pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin", "tf_model.h5", "model.onnx"}
EMBEDDING = {
    *("config.json", "tokenizer.json", "modules.json", "model.safetensors", "1_Pooling/config.json", "README.md"),
    *("2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "onnx/model.onnx"),
}


def fetched(names: set[str], indexed: tuple[str, ...] = ()) -> set[str]:
    group = files.chosen_group(names)
    return {*files.beside(names, group), *files.weights(names, group, indexed)}


@pytest.mark.parametrize(
    ("names", "left_out"),
    [
        (QWEN, {".gitattributes", "LICENSE", "README.md"}),
        (LLAMA, {".gitattributes", "LICENSE", "README.md", *LLAMA - QWEN}),
        (GPT_OSS, {".gitattributes", "LICENSE", "README.md", *GPT_OSS - QWEN - {"chat_template.jinja"}}),
        (MISTRAL, {".gitattributes", "LICENSE", "README.md", "params.json", "consolidated.safetensors"}),
        (OLD, {".gitattributes", "LICENSE", "README.md", *OLD - QWEN}),
        (EMBEDDING, {"README.md", "2_Dense/pytorch_model.bin", "onnx/model.onnx"}),
    ],
    ids=["plain", "original", "original and metal", "consolidated too", "pickled too", "embedding"],
)
def test_what_no_engine_loads_is_left_out(names: set[str], left_out: set[str]) -> None:
    assert names - fetched(names) == left_out


def test_pickled_weights_are_fetched_where_there_are_no_others() -> None:
    names = {"config.json", "tokenizer.json", "pytorch_model.bin", "pytorch_model.bin.index.json"}
    assert fetched(names) == names


def test_consolidated_weights_come_with_their_own_configuration() -> None:
    names = {"params.json", "consolidated.safetensors", "tekken.json"}
    assert fetched(names) == names


def test_the_index_says_which_shards_are_wanted() -> None:
    names = QWEN | {"model.safetensors", "visual.safetensors"}
    named = (*(f"model-{number:05d}-of-00003.safetensors" for number in (1, 2, 3)), "visual.safetensors")
    assert names - fetched(names, named) == {".gitattributes", "LICENSE", "README.md", "model.safetensors"}


def test_an_index_that_names_other_files_than_there_are_is_not_believed() -> None:
    assert QWEN - fetched(QWEN, ("elsewhere.safetensors",)) == {".gitattributes", "LICENSE", "README.md"}


@pytest.mark.parametrize(
    ("names", "why"),
    [({"a-Q4.gguf", "a-Q8.gguf", "config.json"}, "2 GGUF files"), ({"README.md"}, "neither .*safetensors")],
)
def test_a_repository_without_weights_for_its_id_is_refused(names: set[str], why: str) -> None:
    with pytest.raises(files.NoWeights, match=why):
        files.chosen_group(names)


@given(st.sets(st.sampled_from(sorted(LLAMA | GPT_OSS | MISTRAL | OLD | EMBEDDING))))
def test_all_that_discovery_asks_for_is_fetched_and_nothing_that_is_not_listed(names: set[str]) -> None:
    try:
        got = fetched(names)
    except files.NoWeights:
        return
    assert got <= names
    group = files.chosen_group(names)
    assert {group.config, *filter(weights_names.is_read, names)} & names <= got
    assert not any(PurePosixPath(name).parts[0] in {"original", "metal", "onnx"} for name in got)

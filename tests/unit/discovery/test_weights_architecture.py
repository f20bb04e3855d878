# SPDX-License-Identifier: Apache-2.0
"""What discovery tells of the model that weights are of (P13): from config.json beside them, or from GGUF itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import Bounds
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.model_files import gguf, hub_repository, model, safetensors, write
from tests.support.real_models import MODELS

CONFIG = json.dumps(MODELS["Qwen3-32B"].config).encode()
NUMBERS = {"block_count": 4, "attention.head_count": 8, "embedding_length": 512}


def only(directory: Path, bounds: Bounds | None = None) -> Weights:
    (found,) = read_weights(Host(), [str(directory)], [], bounds=bounds)[0]
    return found


def told(weights: Weights) -> tuple[str | None, int | None]:
    assert weights.architecture is not None
    return weights.architecture.name, weights.architecture.full_layers


def test_a_directory_tells_the_model_by_its_configuration(tmp_path: Path) -> None:
    write(tmp_path, {**model(), "config.json": CONFIG})
    assert told(only(tmp_path)) == ("Qwen3ForCausalLM", 64)


def test_a_cached_repository_does_too(tmp_path: Path) -> None:
    hub_repository(tmp_path, "org/tiny", {**model(), "config.json": CONFIG})
    assert told(only(tmp_path)) == ("Qwen3ForCausalLM", 64)


def test_weights_that_are_not_whole_tell_it_all_the_same(tmp_path: Path) -> None:
    files = {**model(), "config.json": CONFIG}
    del files["model-00002-of-00002.safetensors"]
    write(tmp_path, files)
    found = only(tmp_path)
    assert (found.complete, told(found)) == (False, ("Qwen3ForCausalLM", 64))


@pytest.mark.parametrize("content", [b"", b"not json", b"[]"])
def test_a_configuration_that_is_none_tells_nothing_and_costs_nothing_else(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, {**model(), "config.json": content})
    found = only(tmp_path)
    assert (found.complete, found.architecture) == (True, None)


def test_an_adapter_is_not_the_model_that_it_is_for(tmp_path: Path) -> None:
    write(tmp_path, {"adapter_config.json": b"{}", "adapter_model.safetensors": safetensors({"a": (4, 4)})})
    assert only(tmp_path).architecture is None


def test_a_gguf_file_tells_its_own_model(tmp_path: Path) -> None:
    write(tmp_path, {"tiny.gguf": gguf(numbers=NUMBERS)})
    assert told(only(tmp_path)) == ("llama", 4)


def test_a_cached_gguf_file_whose_size_proves_it_tells_its_model_too(tmp_path: Path) -> None:
    hub_repository(tmp_path, "org/tiny", {"tiny.gguf": gguf(numbers=NUMBERS)})
    found = only(tmp_path)
    assert (found.complete, told(found)) == (True, ("llama", 4))


def test_the_first_part_of_a_model_tells_it(tmp_path: Path) -> None:
    parts = {f"t-0000{at}-of-00002.gguf": gguf(split=(at - 1, 2), numbers=NUMBERS if at == 1 else {}) for at in (1, 2)}
    write(tmp_path, parts)
    assert told(only(tmp_path)) == ("llama", 4)


@pytest.mark.parametrize(("calls", "looks"), [(8, False), (60, True)])
def test_a_search_that_is_short_of_calls_judges_weights_and_looks_at_no_configuration(
    tmp_path: Path, calls: int, *, looks: bool
) -> None:
    write(tmp_path, {**model(), "config.json": CONFIG})
    found = only(tmp_path, Bounds(12, calls=calls))
    assert (found.complete, found.architecture is not None) == (True, looks)


def test_a_name_that_is_no_text_can_be_written_into_facts(tmp_path: Path) -> None:
    config = json.dumps({**MODELS["Qwen3-32B"].config, "architectures": ["half\ud800"]}).encode()
    write(tmp_path, {**model(), "config.json": config})
    name = told(only(tmp_path))[0]
    assert name is not None
    name.encode("utf-8")

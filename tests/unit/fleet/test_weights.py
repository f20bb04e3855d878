# SPDX-License-Identifier: Apache-2.0
"""Which weights on a node are those that the catalog names (D12)."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw.engines.weights_path import model_source
from llmgw.fleet.weights import held, holds, usable
from llmgw.model.ids import ModelName
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract
from llmgw.placement.weights_index import WeightsIndex
from tests.support.fleets import fleet, node

COMMIT = "c0ffee" + "0" * 34
CACHED = contract.Weights(
    "Qwen/Qwen3-32B", "/hf/models--Qwen--Qwen3-32B/snapshots/c", "hf-cache", COMMIT, refs=("main",)
)


def model(**more: Any) -> ModelSpec:
    return ModelSpec(ModelName("m"), **more)


def directory(path: str, name: str | None = None, **more: Any) -> contract.Weights:
    return contract.Weights(name or path.rpartition("/models/")[2], path, "directory", **more)


@pytest.mark.parametrize(
    ("weights", "yes"),
    [
        (CACHED, True),
        (contract.Weights("Qwen/Qwen3-8B", CACHED.path, "hf-cache"), False),
        (contract.Weights("Qwen3-32B-Q4.gguf", "/m/Qwen3-32B-Q4.gguf", "gguf", repository="Qwen/Qwen3-32B"), True),
        (directory("/models/Qwen/Qwen3-32B"), True),
        (directory("/models/site/Qwen/Qwen3-32B"), True),
        (directory("/models/other/Qwen3-32B"), False),
        (directory("/models/NotQwen/Qwen3-32B"), False),
        (contract.Weights("x", "/hf/Qwen/Qwen3-32B", "hf-cache"), False),
    ],
)
def test_an_id_is_a_cached_repository_or_the_end_of_a_path(weights: contract.Weights, *, yes: bool) -> None:
    assert holds(model(hf_id="Qwen/Qwen3-32B"), weights) is yes


def test_an_id_with_two_dashes_is_what_the_cache_makes_of_it() -> None:
    assert holds(model(hf_id="org/a--b"), contract.Weights("org/a/b", "/hf/models--org--a--b", "hf-cache"))


@pytest.mark.parametrize(("revision", "yes"), [(None, True), (COMMIT, True), ("main", True), ("v2", False)])
def test_a_revision_is_the_commit_or_a_name_for_it(revision: str | None, *, yes: bool) -> None:
    assert holds(model(hf_id="Qwen/Qwen3-32B", revision=revision), CACHED) is yes


def test_a_revision_that_a_node_cannot_tell_is_not_held() -> None:
    assert not holds(model(hf_id="Qwen/Qwen3-32B", revision="main"), directory("/models/Qwen/Qwen3-32B"))


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("/models/Qwen/Qwen3-32B", True),
        ("/models/Qwen/Qwen3-32B/", True),
        ("Qwen/Qwen3-32B", True),
        ("Qwen3-32B", True),
        ("wen3-32B", False),
        ("/Qwen/Qwen3-32B", False),
        ("/models/Qwen", False),
    ],
)
def test_a_path_is_the_weights_own_or_its_end(path: str, *, yes: bool) -> None:
    assert holds(model(path=path), directory("/models/Qwen/Qwen3-32B")) is yes


def test_a_directory_with_the_last_word_alone_counts_when_nothing_else_ends_so() -> None:
    plain, other = directory("/models/Qwen3-32B"), directory("/models/other/Qwen3-32B")
    asked = model(hf_id="Qwen/Qwen3-32B")
    assert held(asked, [plain]) == (plain,)
    assert held(asked, [plain, other]) == ()
    assert held(asked, [other]) == ()
    assert held(asked, [plain, CACHED]) == (CACHED,)


def test_the_order_in_which_weights_were_seen_changes_nothing() -> None:
    first, second = directory("/a/models/Qwen/Qwen3-32B"), directory("/b/models/Qwen/Qwen3-32B")
    asked = model(hf_id="Qwen/Qwen3-32B")
    assert held(asked, [first, second]) == held(asked, [second, first]) == (first, second)


def test_what_is_partial_or_a_gguf_of_the_repository_is_held_and_cannot_be_given_to_an_engine() -> None:
    partial = directory("/models/Qwen/Qwen3-32B", complete=False)
    quantized = contract.Weights(
        "Qwen3-32B-Q4.gguf", "/m/Qwen3-32B-Q4.gguf", "gguf", repository="Qwen/Qwen3-32B", format="gguf"
    )
    wanted = model(hf_id="Qwen/Qwen3-32B")
    assert held(wanted, (partial, quantized, CACHED)) == (CACHED, quantized, partial)
    assert usable(wanted, (partial, quantized, CACHED)) == (CACHED,)


def test_where_placement_counts_weights_the_engine_is_given_them() -> None:
    """A plain directory with the last word of the id is the model, for both or for neither."""
    wanted = model(hf_id="Qwen/Qwen3-32B")
    one, other = (directory(f"/{base}/Qwen3-32B", "Qwen3-32B") for base in ("models", "spare"))
    alone, ambiguous = node("n1", weights=(one,)), node("n2", weights=(one, other))
    assert WeightsIndex(fleet(alone, ambiguous)).holders(wanted) == {"n1"}
    assert model_source(wanted, alone) == "/models/Qwen3-32B"
    assert model_source(wanted, ambiguous) == "Qwen/Qwen3-32B"

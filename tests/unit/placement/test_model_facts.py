# SPDX-License-Identifier: Apache-2.0
"""What the fleet knows of each model: from whichever node holds it, once however many do (P13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.ids import EngineKind, ModelName, ProfileName
from llmgw.model.node import FleetSnapshot, Node
from llmgw.model.replica import Catalog, ModelSpec
from llmgw.nodekit import contract
from llmgw.placement.memory.model_facts import ModelFacts, Rests
from llmgw.placement.memory.span import Span, exactly
from tests.support import fleets
from tests.support.memory_models import architecture, profile

ARCHITECTURE = architecture("Qwen3-32B")
MODEL = ModelSpec(ModelName("qwen"), hf_id="Qwen/Qwen3-32B")
SIZE = 65_524_246_528


def cached(**more: Any) -> contract.Weights:
    values: dict[str, Any] = {
        "layout": "hf-cache",
        "complete": True,
        "tensor_bytes": SIZE,
        "architecture": ARCHITECTURE,
    }
    return contract.Weights("Qwen/Qwen3-32B", "/hf/models--Qwen--Qwen3-32B/snapshots/c", **(values | more))


def holding(name: str, *weights: contract.Weights, **more: Any) -> Node:
    return fleets.node(name, 2, weights=weights, **more)


def facts(*nodes: Node, catalog: Catalog | None = None) -> ModelFacts:
    return ModelFacts(catalog or Catalog(()), fleets.fleet(*nodes))


def test_any_node_that_holds_the_whole_model_tells_of_it() -> None:
    found = facts(holding("n1"), holding("n2", cached())).known(MODEL)
    assert found.tensors is not None
    assert (found.tensors.bytes, found.tensors.architecture) == (exactly(SIZE), ARCHITECTURE)
    assert found.source == "weights in /hf/models--Qwen--Qwen3-32B/snapshots/c on n2"


def test_weights_that_are_not_whole_tell_what_the_model_is_and_not_how_large() -> None:
    part = cached(complete=False, tensor_bytes=None, size_bytes=100)
    assert facts(holding("n1", part)).known(MODEL).tensors is None
    found = facts(holding("n1", part)).known(replace(MODEL, size_bytes=SIZE))
    assert found.tensors is not None
    assert (found.tensors.bytes, found.tensors.architecture) == (exactly(SIZE), ARCHITECTURE)


def test_a_node_that_holds_all_of_it_counts_after_one_that_does_not() -> None:
    part = cached(complete=False, tensor_bytes=None, size_bytes=77)
    found = facts(holding("n1", part), holding("n2", replace(part, complete=True))).known(MODEL)
    assert found.tensors is not None
    assert found.tensors.bytes == exactly(77)


def test_weights_that_nobody_could_judge_count_where_no_others_are() -> None:
    unjudged = cached(complete=None, tensor_bytes=None, size_bytes=77)
    found = facts(holding("n1", unjudged)).known(MODEL)
    assert found.tensors is not None
    assert found.tensors.bytes == exactly(77)
    better = facts(holding("n1", unjudged), holding("n2", cached(revision="other"))).known(MODEL)
    assert better.tensors is not None
    assert better.tensors.bytes == exactly(SIZE)


def test_the_catalogs_size_counts_where_nothing_was_seen() -> None:
    found = facts(holding("n1")).known(replace(MODEL, size_bytes=5))
    assert (found.tensors and found.tensors.bytes, found.source) == (exactly(5), "the size that the catalog gives")


def test_what_was_measured_counts_more_than_the_catalogs_size() -> None:
    found = facts(holding("n1", cached())).known(replace(MODEL, size_bytes=5))
    assert found.tensors is not None
    assert found.tensors.bytes == exactly(SIZE)


def test_different_weights_under_one_name_are_bounds() -> None:
    other = cached(tensor_bytes=SIZE + 1000, revision="other")
    found = facts(holding("n1", cached()), holding("n2", other)).known(MODEL)
    assert found.tensors is not None
    assert (found.tensors.bytes.low, found.tensors.bytes.high) == (SIZE, SIZE + 1000)


def test_files_are_the_size_where_their_headers_were_not_read() -> None:
    found = facts(holding("n1", cached(tensor_bytes=None, size_bytes=77))).known(MODEL)
    assert found.tensors is not None
    assert found.tensors.bytes == exactly(77)


def test_a_name_that_many_nodes_have_is_no_less_clear() -> None:
    plain = contract.Weights("Qwen3-32B", "/models/Qwen3-32B", "directory", complete=True, tensor_bytes=SIZE)
    elsewhere = replace(plain, path="/data/Qwen3-32B")
    found = facts(holding("n1", plain), holding("n2", plain), holding("n3", elsewhere)).known(MODEL)
    assert found.tensors is not None
    other = replace(plain, model="other/Qwen3-32B", path="/models/other/Qwen3-32B")
    assert facts(holding("n1", plain), holding("n2", other)).known(MODEL).tensors is None


def test_a_model_by_path_is_found_by_its_file() -> None:
    gguf = contract.Weights("q.gguf", "/srv/models/q.gguf", "gguf", complete=True, tensor_bytes=9)
    asked = ModelSpec(ModelName("q"), path="/srv/models/q.gguf")
    found = facts(holding("n1", gguf)).known(asked)
    assert found.tensors is not None
    assert found.tensors.bytes == Span(9, 9, 9)


def test_a_model_without_any_place_is_unknown() -> None:
    assert facts(holding("n1", cached())).known(ModelSpec(ModelName("nowhere"))).tensors is None


def test_the_order_of_nodes_changes_nothing() -> None:
    nodes = (holding("n1", cached()), holding("n2", cached(tensor_bytes=SIZE + 1, revision="b")), holding("n3"))
    forward = ModelFacts(Catalog(()), FleetSnapshot(nodes)).known(MODEL)
    backward = ModelFacts(Catalog(()), FleetSnapshot(nodes[::-1])).known(MODEL)
    assert forward == backward


SAID = contract.EngineMemory(weights_mib=1000, kv_cache_mib=2000, kv_cache_tokens=5000)


def unit(**more: Any) -> contract.ObservedUnit:
    values: dict[str, Any] = {
        "model": "qwen",
        "engine": "vllm",
        "profile": "p",
        "members": 1,
        "devices": ("GPU-n1-0", "GPU-n1-1"),
        "memory_report": SAID,
    }
    return contract.ObservedUnit("llmgw-chat.0.0.service", **(values | more))


def test_what_units_said_is_told_with_how_they_were_started() -> None:
    served = profile(2, name=ProfileName("p"), model=MODEL, memory_utilization=0.8)
    asked = fleets.catalog(fleets.service(profiles=(served,)))
    found = facts(fleets.node("n1", 2, units=(unit(),)), catalog=asked).known(MODEL)
    (report,) = found.reports
    assert (report.memory, report.devices, report.members, report.share) == (SAID, 2, 1, 0.8)
    assert (report.device_class, report.total_mib) == ("h200-141g", 143771)


def test_what_others_left_is_told_between_bounds() -> None:
    served = profile(2, name=ProfileName("p"), model=MODEL, memory_utilization=0.8)
    asked = fleets.catalog(fleets.service(profiles=(served,)))
    more = replace(SAID, kv_cache_mib=2500)
    units = (unit(model="a"), unit(model="b", memory_report=more), unit(model="c", engine="sglang"))
    found = facts(fleets.node("n1", 2, units=units), catalog=asked).known(MODEL)
    rest = 143771 * 0.8 - 3000
    assert found.reports == ()
    assert found.rests["vllm", "h200-141g"] == Rests(rest - 500, rest)
    assert set(found.rests) == {("vllm", "h200-141g"), ("sglang", "h200-141g")}


@pytest.mark.parametrize(
    "more", [{"memory_report": None}, {"devices": ()}, {"devices": ("GPU-gone",)}, {"model": None}, {"engine": None}]
)
def test_a_unit_that_does_not_say_all_tells_nothing(more: dict[str, Any]) -> None:
    assert facts(fleets.node("n1", 2, units=(unit(**more),))).known(MODEL).reports == ()


def test_a_unit_of_a_profile_that_is_no_more_has_an_unknown_share() -> None:
    (report,) = facts(fleets.node("n1", 2, units=(unit(),))).known(MODEL).reports
    assert report.share is None
    served = profile(2, name=ProfileName("p"), model=MODEL, engine=EngineKind("vllm"))
    asked = fleets.catalog(fleets.service(profiles=(served,)))
    (report,) = facts(fleets.node("n1", 2, units=(unit(),)), catalog=asked).known(MODEL).reports
    assert report.share == 0.92

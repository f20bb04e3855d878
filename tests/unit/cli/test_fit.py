# SPDX-License-Identifier: Apache-2.0
"""`llmgw fit`: what it proposes for a directory, a configuration and a name in facts, and how it ends (P13)."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.cli import exits
from llmgw.cli.fit_model import Asked
from llmgw.cli.fit_text import fit_lines
from llmgw.cli.main import run
from llmgw.fleet import store
from llmgw.model.ids import DeviceClass, NodeName
from llmgw.nodekit import contract
from llmgw.placement.memory.estimate import Estimate
from llmgw.placement.memory.fit import Fit, Offer, Proposal
from llmgw.placement.memory.model_facts import KnownModel
from llmgw.placement.memory.span import Span
from llmgw.placement.pools import Pool, PoolKind
from tests.support import fleets
from tests.support.fleet_directory import Called, FleetDirectory
from tests.support.memory_models import architecture
from tests.support.model_files import gguf, model, write
from tests.support.real_models import MODELS

Call = Callable[..., Called]
CONFIG = json.dumps(MODELS["Llama-3.1-70B"].config).encode()
NOTHING_KNOWN = Estimate(None, None, Span(0, 0, 0), None, 1, must_hold=False, share=0.9, most=0.9)
NUMBERS = {
    "block_count": 32,
    "attention.head_count": 32,
    "attention.head_count_kv": 8,
    "embedding_length": 4096,
    "context_length": 8192,
}


def document(called: Called) -> dict[str, Any]:
    assert (called.status, called.err) == (0, "")
    found: dict[str, Any] = json.loads(called.out)
    return found


def only_class(found: dict[str, Any]) -> dict[str, Any]:
    (one,) = found["classes"]
    entry: dict[str, Any] = one
    return entry


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write(tmp_path / "config", {"config.json": CONFIG}) / "config.json"


def test_a_configuration_alone_is_enough_and_is_said_to_be_so(llmgw: Call, config: Path) -> None:
    called = llmgw("fit", config, "--class", "h100-80g")
    assert (called.status, called.err) == (0, "")
    assert "LlamaForCausalLM: 141.1 GB of weights (computed from config.json)" in called.out
    assert "h100-80g  79.6  4 cards (tp 4)  131072" in called.out
    assert "may be off by a tenth or more" in " ".join(called.out.split())


def test_json_has_the_bounds_of_everything(llmgw: Call, config: Path) -> None:
    found = document(llmgw("fit", config, "--class", "h100-80g", "--size", 141.1, "--json"))
    assert (found["format_version"], found["engine"], found["kv_bytes_per_token"]) == (1, "vllm", 327680)
    assert found["weights_bytes"] == {"low": 141_100_000_000, "likely": 141_100_000_000, "high": 141_100_000_000}
    way = only_class(found)["proposal"]
    assert (way["nodes"], way["gpus"], way["tensor_parallel"], way["pipeline_parallel"]) == (1, 4, 4, 1)
    for name in ("max_model_len", "weights_mib", "reserve_mib", "kv_cache_mib", "requests_at_once"):
        assert way[name]["low"] <= way[name]["likely"] <= way[name]["high"]


def test_a_shorter_context_needs_fewer_cards_and_a_smaller_cache_too(llmgw: Call, config: Path) -> None:
    base = ("fit", config, "--class", "h100-80g", "--json")
    short = only_class(document(llmgw(*base, "--max-model-len", 8192)))
    assert short["proposal"]["gpus"] == 2
    small = document(llmgw(*base, "--kv-cache-dtype", "fp8"))
    assert small["kv_bytes_per_token"] == 163840


def test_every_known_class_is_tried_and_none_is_left_out(llmgw: Call, config: Path) -> None:
    found = document(llmgw("fit", config, "--json"))
    classes = [one["class"] for one in found["classes"]]
    assert {"h200-141g", "a100-80g", "b300-269g", "l40s-45g"} <= set(classes)
    assert [one["memory_mib"] for one in found["classes"]] == sorted(one["memory_mib"] for one in found["classes"])


def test_a_directory_is_measured(llmgw: Call, tmp_path: Path) -> None:
    write(tmp_path / "m", {**model(), "config.json": CONFIG})
    found = document(llmgw("fit", tmp_path / "m", "--class", "h100-80g", "--json"))
    assert (found["weights_measured"], found["weights_bytes"]["likely"]) == (True, 512)
    assert found["weights_source"] == "read from the headers"


def test_a_gguf_file_is_for_llama_cpp(llmgw: Call, tmp_path: Path) -> None:
    write(tmp_path, {"tiny.gguf": gguf(numbers=NUMBERS)})
    found = document(llmgw("fit", tmp_path / "tiny.gguf", "--class", "l4-23g", "--json"))
    assert (found["engine"], found["model"], found["kv_bytes_per_token"]) == ("llama.cpp", "tiny.gguf", 131072)
    smaller = document(llmgw("fit", tmp_path / "tiny.gguf", "--class", "l4-23g", "--json", "--kv-cache-dtype", "q8_0"))
    assert smaller["kv_bytes_per_token"] == 131072 * 17 / 32
    called = llmgw("fit", tmp_path / "tiny.gguf", "--engine", "vllm")
    assert called.status == 1
    assert "GGUF files are served by llama.cpp" in called.err


def test_mig_has_one_instance_or_none(llmgw: Call, config: Path, tmp_path: Path) -> None:
    mig = "h100-80g-mig-3g.40gb"
    assert only_class(document(llmgw("fit", config, "--class", mig, "--json")))["fits"] is False
    small = write(tmp_path / "small", {"config.json": json.dumps(MODELS["Llama-3.1-8B"].config).encode()})
    called = llmgw("fit", small, "--class", mig, "--max-model-len", 8192)
    assert "one instance" in called.out
    assert "~ a bound from the class's name" in called.out


def test_a_slow_path_is_told_and_never_taken_in_silence(llmgw: Call, config: Path) -> None:
    called = llmgw("fit", config, "--class", "a100-80g", "--quantization", "fp8")
    assert "slow path" in called.out
    assert "allow_slow_path: quantization" in called.out


def test_a_model_that_is_not_understood_is_said_to_be_so(llmgw: Call, tmp_path: Path) -> None:
    strange = {**MODELS["Llama-3.1-70B"].config, "compress_ratios": [4]}
    where = write(tmp_path / "s", {"config.json": json.dumps(strange).encode()})
    called = llmgw("fit", where, "--class", "h100-80g", "--size", 141.1)
    assert "of a kind that is not understood" in called.out
    assert "context unknown" in called.out


@pytest.mark.parametrize(
    ("files", "arguments", "code"),
    [
        ({}, (), "model-missing"),
        ({"config.json": b"{}"}, (), "model-unreadable"),
        ({"config.json": b"no"}, (), "model-unreadable"),
        ({"config.json": json.dumps({"num_hidden_layers": 3}).encode()}, (), "model-size-unknown"),
        ({"a.gguf": gguf(), "b.gguf": gguf()}, (), "model-several"),
        ({**model(), "model-00002-of-00002.safetensors": b""}, (), "model-incomplete"),
        ({"config.json": CONFIG}, ("--class", "h100-80"), "unknown-class"),
    ],
)
def test_bad_input_is_told_with_a_code_and_a_fix(
    llmgw: Call, tmp_path: Path, files: dict[str, bytes], arguments: tuple[str, ...], code: str
) -> None:
    write(tmp_path / "m", files)
    called = llmgw("fit", tmp_path / "m", *arguments)
    assert (called.status, called.out) == (1, "")
    assert f"[{code}]" in called.err
    assert "fix: " in called.err


def test_a_class_that_is_nearly_right_is_named(llmgw: Call, config: Path) -> None:
    assert "did you mean h100-80g?" in llmgw("fit", config, "--class", "h100-80").err


def test_an_engine_of_unknown_habits_is_wrong_usage(llmgw: Call, config: Path) -> None:
    called = llmgw("fit", config, "--engine", "sim")
    assert called.status == 64
    assert "vllm, sglang or llama.cpp" in called.err


def test_a_size_stands_for_what_is_missing(llmgw: Call, tmp_path: Path) -> None:
    files = {**model(), "config.json": CONFIG, "model-00002-of-00002.safetensors": b""}
    write(tmp_path / "m", files)
    found = document(llmgw("fit", tmp_path / "m", "--size", 141.1, "--json", "--class", "h100-80g"))
    assert (found["weights_bytes"]["likely"], found["weights_measured"]) == (141_100_000_000, False)


def test_files_that_nobody_can_judge_are_taken_by_their_size(llmgw: Call, tmp_path: Path) -> None:
    files = {"config.json": CONFIG, "tokenizer.json": b"{}", "pytorch_model.bin": b"x" * 4096}
    write(tmp_path / "m", files)
    found = document(llmgw("fit", tmp_path / "m", "--class", "h100-80g", "--json"))
    assert (found["weights_source"], found["weights_bytes"]["likely"]) == ("the size of the files", 4096)


def holding(directory: FleetDirectory, devices: int = 4) -> None:
    weights = contract.Weights(
        "org/Llama-70B",
        "/hf/models--org--Llama-70B/snapshots/c",
        "hf-cache",
        complete=True,
        tensor_bytes=141_107_412_992,
        format="safetensors",
        architecture=architecture("Llama-3.1-70B"),
    )
    store.save(directory.path / "facts", "n1", fleets.facts("n1", devices, weights=(weights,)))


def test_a_fleets_classes_are_tried_with_the_cards_that_its_nodes_have(llmgw: Call, directory: FleetDirectory) -> None:
    holding(directory)
    found = document(llmgw("fit", "org/Llama-70B", "-i", directory.path, "--json"))
    one = only_class(found)
    assert (one["class"], one["proposal"]["gpus"], found["weights_measured"]) == ("h200-141g", 2, True)
    assert "on n1" in found["weights_source"]


def test_a_name_that_no_node_holds_is_told(llmgw: Call, directory: FleetDirectory) -> None:
    holding(directory)
    called = llmgw("fit", "org/Other", "-i", directory.path)
    assert called.status == 1
    assert "neither does a node of the fleet hold whole weights of that name" in called.err


def test_a_fleet_without_devices_is_told(llmgw: Call, directory: FleetDirectory) -> None:
    holding(directory, 0)
    called = llmgw("fit", "org/Llama-70B", "-i", directory.path)
    assert called.status == 1
    assert "[no-devices]" in called.err


def test_a_name_that_is_nearly_right_is_told(llmgw: Call, directory: FleetDirectory) -> None:
    holding(directory)
    assert "fix: did you mean org/Llama-70B?" in llmgw("fit", "llama70b", "-i", directory.path).err


def test_a_model_of_the_catalog_is_taken_by_its_name(llmgw: Call, directory: FleetDirectory) -> None:
    holding(directory)
    directory.catalog(
        "version: 1\nmodels:\n  big: {hf_id: org/Llama-70B}\n  none: {hf_id: org/None}\n"
        "profiles:\n  p: {engine: vllm, model: big, devices: h200-141g}\n"
        "  q: {engine: vllm, model: none, devices: h200-141g}\nservices:\n  chat: {profiles: [p, q]}\n"
    )
    found = document(llmgw("fit", "big", "-i", directory.path, "--json"))
    assert (found["model"], only_class(found)["proposal"]["gpus"], found["weights_measured"]) == ("big", 2, True)
    missing = llmgw("fit", "none", "-i", directory.path)
    assert "no node of the fleet holds whole weights of org/None, which the catalog calls none" in missing.err


def test_a_class_may_be_named_by_a_prefix_that_means_one(llmgw: Call, config: Path, directory: FleetDirectory) -> None:
    assert only_class(document(llmgw("fit", config, "--class", "h200", "--json")))["class"] == "h200-141g"
    assert "h100 may be h100-80g or h100-94g [ambiguous-class]" in llmgw("fit", config, "--class", "h100").err
    holding(directory)
    whole = document(llmgw("fit", "org/Llama-70B", "-i", directory.path, "--class", "h200", "--json"))
    assert only_class(whole)["proposal"]["gpus"] == 2


@pytest.mark.parametrize("apart", [False, True])
def test_several_nodes_that_nothing_joins_are_said_to_be_so(
    llmgw: Call, directory: FleetDirectory, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    holding(directory, 1)
    nodes = () if apart else (NodeName("n1"), NodeName("n2"))
    monkeypatch.setattr("llmgw.cli.fit.pools_of", lambda _fleet: (Pool(PoolKind.FABRIC, "ib", nodes),))
    store.save(directory.path / "facts", "n2", fleets.facts("n2", 1))
    one = only_class(document(llmgw("fit", "org/Llama-70B", "-i", directory.path, "--json")))
    assert (one["proposal"]["nodes"], one["nodes_not_joined"]) == (2, apart)
    shown = " ".join(llmgw("fit", "org/Llama-70B", "-i", directory.path).out.split())
    assert ("no domain or confirmed fabric joins 2 such nodes" in shown) == apart


def test_what_leaves_nothing_for_a_request_at_worst_may_not_start() -> None:
    asked = Asked("m", KnownModel(None, None), None, measured=False)
    way = Proposal(1, 1, 1, 1, NOTHING_KNOWN, Span(0, 9000, 9000), 9000, None)
    told = fit_lines(asked, [Fit(Offer(DeviceClass("h100-80g"), 81559), way, enough=True)], "vllm", None, None)
    assert any(line.endswith("may not start") for line in told)
    assert any(line.startswith("May not start: ") for line in told)
    better = replace(way, longest=Span(4096, 9000, 9000))
    told = fit_lines(asked, [Fit(Offer(DeviceClass("h100-80g"), 81559), better, enough=True)], "vllm", None, None)
    assert not any("may not start" in line.lower() for line in told)


@pytest.mark.parametrize("size", ["inf", "1e300", "nan", "-5", "0", "1000001"])
def test_a_size_that_cannot_be_is_a_mistake_of_usage(llmgw: Call, config: Path, size: str) -> None:
    called = llmgw("fit", config, "--size", size)
    assert (called.status, called.out) == (exits.USAGE, "")
    assert "Invalid value for '--size'" in called.err


@pytest.mark.parametrize("model_name", ["", "  "])
def test_a_model_without_a_name_is_not_the_directory_one_is_in(llmgw: Call, model_name: str) -> None:
    called = llmgw("fit", model_name)
    assert (called.status, called.out) == (1, "")
    assert called.err.startswith("llmgw: the model has an empty name [model-missing]")


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        (struct.pack("<IQQ", 3, 2**63, 2**63), f"its header names {2**63} tensors and {2**63} values"),
        (struct.pack(">IQQ", 3, 2**63, 2**63), f"its header names {2**63} tensors and {2**63} values"),
        (struct.pack("<IQQ", 3, 43, 0), "its header names 43 tensors and 0 values, and the file has 1024 bytes"),
        (struct.pack("<IQQ", 3, 0, 0), "it has no tensors"),
    ],
)
def test_a_header_that_the_file_has_no_room_for_is_refused(
    llmgw: Call, tmp_path: Path, numbers: bytes, says: str
) -> None:
    write(tmp_path / "odd", {"odd.gguf": (b"GGUF" + numbers).ljust(1024, b"\0")})
    for name in (tmp_path / "odd" / "odd.gguf", tmp_path / "odd"):
        called = llmgw("fit", name, "--class", "h200")
        assert (called.status, called.out) == (exits.ERROR, "")
        assert f"odd.gguf: not a GGUF file that can be read: {says}" in called.err


def test_a_closed_output_is_no_error(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert run(["fit", str(config), "--class", "h100-80g"]) == 0

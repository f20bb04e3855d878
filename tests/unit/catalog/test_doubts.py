# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from llmgw.catalog import codes
from llmgw.catalog.compile import File, compile_catalog
from llmgw.catalog.doubts import doubts
from llmgw.cli.main import run
from llmgw.errors import LlmgwError
from tests.unit.catalog.catalogs import HEAD

ROOT = Path(__file__).parents[3]


def warned(profile: str, seen: Mapping[str, int] | None = None) -> tuple[LlmgwError, ...]:
    text = f"{HEAD}profiles:\n  p: {{model: small, {profile}}}\nservices:\n  chat: {{profiles: p}}\n"
    return doubts(compile_catalog([File("catalog.yaml", text.encode())]), lambda: seen or {})


def test_a_class_that_nobody_knows_is_told_with_the_one_that_is_near() -> None:
    (one,) = warned("engine: vllm, devices: [h200-141g, h100-81g]")
    assert (one.code, str(one.where)) == (codes.UNKNOWN_CLASS, "catalog.yaml:5:56")
    assert one.fix == "Did you mean `h100-80g` or `h100-94g`?"


def test_a_class_that_a_node_has_is_none_to_warn_of() -> None:
    assert not warned("engine: vllm, devices: h100-81g", {"h100-81g": 8})


def test_an_instance_of_a_class_is_judged_by_its_card_and_its_form() -> None:
    assert not warned("engine: vllm, devices: a100-80g-mig-1g.10gb")
    (one,) = warned("engine: vllm, devices: a100-81g-mig-1g.10gb")
    assert one.fix is not None
    assert "`a100-80g-mig-1g.10gb`" in one.fix


def test_a_share_of_memory_that_is_the_hosts_is_to_be_named() -> None:
    (one,) = warned("engine: vllm, devices: gb10-unified")
    assert one.code == codes.SHARED_MEMORY
    assert (one.fix or "").startswith("Set it, 0.8 leaves room")
    assert not warned("engine: vllm, devices: gb10-unified, memory_utilization: 0.7")
    assert not warned("engine: llama.cpp, devices: gb10-unified")


def test_vllm_on_processors_is_to_be_told_how_much_memory_it_may_take() -> None:
    (one,) = warned("engine: vllm, devices: cpu")
    assert one.code == codes.SHARED_MEMORY
    assert not warned("engine: vllm, devices: cpu, min_memory_gb: 8")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_method_that_the_engine_is_not_known_to_have_is_told(engine: str) -> None:
    found = warned(f"engine: {engine}, devices: h100-80g, quantization: fp9, kv_cache_dtype: fp9_e4m3")
    assert [(one.code, "fp8" in (one.fix or "")) for one in found] == [(codes.UNKNOWN_WORD, True)] * 2


@pytest.mark.parametrize(
    "words",
    [
        "engine: vllm, kv_cache_dtype: auto",
        "engine: vllm, kv_cache_dtype: fp8_e5m2",
        "engine: vllm, quantization: modelopt_mixed",
        "engine: sglang, quantization: gptq, kv_cache_dtype: fp8_e4m3",
    ],
)
def test_words_that_an_engine_has_are_none_to_warn_of(words: str) -> None:
    assert not warned(f"{words}, devices: h100-80g")


def test_vllm_that_names_no_devices_is_told_to_run_on_cpu() -> None:
    (one,) = warned("engine: vllm")
    assert one.code == codes.DEFAULT_CPU
    assert not warned("engine: vllm, devices: cpu, memory_utilization: 0.2")
    assert not warned("engine: sim")


@pytest.mark.parametrize("cards", ["gpus: 16", "tensor_parallel: 16"])
def test_more_cards_than_nodes_have_are_told_with_the_nodes_to_add(cards: str) -> None:
    (one,) = warned(f"engine: vllm, devices: h100-80g, {cards}")
    assert (one.code, "`nodes: 2` and `gpus: 8`" in (one.fix or "")) == (codes.MANY_CARDS, True)
    assert not warned(f"engine: vllm, devices: h100-80g, nodes: 2, {cards.replace('gpus: 16', 'gpus: 8')}")
    assert not warned(f"engine: vllm, devices: h100-80g, {cards}", {"h100-80g": 16})


def test_check_prints_warnings_with_their_place_and_ends_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{HEAD}profiles:\n  p: {{model: small, engine: vllm}}\nservices:\n  chat: {{profiles: p}}\n"
    (tmp_path / "catalog.yaml").write_text(text, encoding="utf-8")
    assert run(["catalog", "check", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out == "ok: 1 service, 1 replica, 1 profile, 1 file, 1 warning\n"
    assert err.startswith(f"{tmp_path}/catalog.yaml:5:6: warning: ")
    assert err.endswith("    fix: Name device classes in `devices`, or write `devices: cpu`.\n")
    assert run(["catalog", "check", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in told["warnings"]] == [codes.DEFAULT_CPU]


@pytest.mark.parametrize("fleet", ["example", "showcase"])
def test_what_is_shipped_gives_no_warning(fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "check", str(ROOT / "inventory" / fleet)]) == 0
    assert capsys.readouterr().err == ""

# SPDX-License-Identifier: Apache-2.0
"""What the version of an engine, its weights and its machine's memory mean for placement (C5, D13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.decide import decide
from llmgw.model.ids import ModelName
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, fleet, node, profile, service, with_facts
from tests.support.joined_machines import Machine, fleet_of
from tests.support.placement_fleets import A100, cards_for, of, placed, sentences, where
from tests.support.world import World

H200 = "h200-141g"
SPARK = "gb10-unified"
MODEL = ModelSpec(ModelName("big"), hf_id="org/big")


def engine(kind: str, version: str | None) -> contract.Engine:
    return contract.Engine(kind, (f"/opt/{kind}",), version, runnable=True)


def having(kind: str, version: str | None, name: str = "n1", device_class: str = H200, **more: Any) -> Node:
    return node(name, gpus=2, device_class=device_class, engines=(engine(kind, version),), **more)


def one(kind: str = "vllm", device_class: str = H200, **more: Any) -> ProfileSpec:
    return profile("p", kind, (device_class,), 1, **({"model": MODEL} | more))


@pytest.mark.parametrize(("version", "fits"), [("0.24.0", True), ("0.23.1", False), ("0.99.0", True), (None, True)])
def test_an_engine_that_is_too_old_for_its_command_line_starts_nothing(version: str | None, fits: bool) -> None:
    found = placed(catalog(service("chat", 1, (one(),))), fleet(having("vllm", version)))
    assert bool(where(found)) is fits
    if not fits:
        assert sentences(found, "n1")[0] == (
            "vllm 0.23.1 is too old, llmgw needs 0.24 or newer: older ones take no UUIDs in CUDA_VISIBLE_DEVICES"
        )


def test_an_engine_that_is_newer_than_any_that_was_checked_is_used_and_told() -> None:
    wanted = catalog(service("chat", 1, (one(),)))
    decision = decide(wanted, fleet(having("vllm", "0.99.0"), having("vllm", "0.99.0", "n2")))
    told = "n1: vllm 0.99.0 is newer than 0.33.0, the newest that llmgw knows: it is started like 0.33.0"
    assert decision.plan.notes == (told,)


def weights(method: str | None) -> contract.Weights:
    built = contract.ModelArchitecture(quantization=method, weight_bits=8)
    return contract.Weights("org/big", "/srv/big", complete=True, refs=("main",), tensor_bytes=GB, architecture=built)


@pytest.mark.parametrize(("method", "fits"), [("fp8", False), ("awq", True), (None, True)])
def test_weights_that_are_stored_quantized_have_the_floor_of_their_method(method: str | None, fits: bool) -> None:
    on = having("vllm", "0.33.0", device_class=A100, weights=(weights(method),))
    assert on.facts is not None
    gpus = tuple(replace(gpu, compute_capability="8.0") for gpu in on.facts.gpus or ())
    seen = fleet(with_facts(on, replace(on.facts, gpus=gpus)))
    found = placed(catalog(service("chat", 1, (one(device_class=A100),))), seen)
    assert bool(where(found)) is fits
    if not fits:
        assert sentences(found, "n1")[0].startswith(
            "the weights' own quantization fp8 of vllm needs compute capability 8.9"
        )
    slow = one(device_class=A100, allow_slow_path=("quantization",))
    assert where(placed(catalog(service("chat", 1, (slow,))), seen))


@pytest.mark.parametrize(("share", "fits"), [(0.5, True), (0.9, False), (None, False)])
def test_a_share_of_memory_that_is_the_hosts_leaves_what_the_profile_asks_of_the_host(
    share: float | None, fits: bool
) -> None:
    on = having("vllm", "0.33.0", device_class=SPARK, memory_gb=128)
    assert on.facts is not None
    gpus = tuple(replace(gpu, unified_memory=True, memory_total_mib=None) for gpu in on.facts.gpus or ())
    seen = fleet(with_facts(on, replace(on.facts, gpus=gpus)))
    wanted = one(device_class=SPARK, memory_utilization=share, min_memory_bytes=40 * GB)
    found = placed(catalog(service("chat", 1, (wanted,))), seen)
    assert bool(where(found)) is fits
    if not fits:
        assert sentences(found, "n1")[0].startswith("its memory is shared with its device: vllm takes a share of it")


def test_replicas_whose_ranks_meet_over_many_ports_keep_them_apart() -> None:
    meeting = one("sglang", args=("--attn-dp-size", "2"))
    found = placed(catalog(service("chat", 2, (meeting,))), fleet(having("sglang", "0.5.23")))
    first, second = sorted(each.leader.port for each in found.assignments)
    assert second - first >= 15


def test_a_group_that_stays_on_nodes_whose_engines_differ_by_now_is_told_of() -> None:
    pair = of("chat", cards_for(1, A100, nodes=2))
    world = World(fleet_of(*(Machine(name, (A100,), fabric="ib-a") for name in ("n1", "n2"))))
    world.apply(catalog(pair))
    assert decide(catalog(pair), world.fleet).plan.notes == ()
    first, second = world.fleet.nodes
    assert second.facts is not None
    newer = tuple(replace(each, version="9.9") for each in second.facts.engines or ())
    world.fleet = replace(world.fleet, nodes=(first, with_facts(second, replace(second.facts, engines=newer))))
    told = decide(catalog(pair), world.fleet).plan.notes
    kind = pair.profiles[0].engine
    old = next(each.version for each in first.facts.engines or () if each.kind == kind) if first.facts else None
    differ = f"the versions of {kind} on its nodes differ now (n1 has {old}, n2 has 9.9)"
    assert told == (f"chat/0: {differ}: it stays on the one that it runs; install one version on all of them",)
    none = tuple(replace(each, version=None) for each in second.facts.engines or ())
    world.fleet = replace(world.fleet, nodes=(first, with_facts(second, replace(second.facts, engines=none))))
    assert decide(catalog(pair), world.fleet).plan.notes == (), "what is unknown differs from nothing"

# SPDX-License-Identifier: Apache-2.0
"""A fact that is missing this time rewrites and restarts nothing (D18, R5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llmgw.decide import decide
from llmgw.model.ids import ModelName
from llmgw.model.node import Node
from llmgw.model.replica import Catalog, FleetSpec, ModelSpec, ProfileSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, fleet, node, profile, service, with_facts
from tests.support.world import World

HUB = ModelSpec(ModelName("m"), hf_id="Q/M")
FETCHED = replace(HUB, fetch=True)
H200 = ("h200-141g",)
SNAPSHOT = f"models--Q--M/snapshots/{'c' * 40}"
Look = Callable[[contract.NodeFacts], contract.NodeFacts]


def of_system(**values: Any) -> Look:
    def look(facts: contract.NodeFacts) -> contract.NodeFacts:
        assert facts.system is not None
        return replace(facts, system=replace(facts.system, **values))

    return look


LOOKS: dict[str, Look] = {
    "no weights were read": lambda facts: replace(facts, weights=None),
    "no weights were seen": lambda facts: replace(facts, weights=()),
    "nothing of the system": lambda facts: replace(facts, system=None),
    "no version of systemd": of_system(systemd_version=None),
    "no journal": of_system(journal=None),
    "no interfaces were read": of_system(interfaces=None),
    "no interfaces were seen": of_system(interfaces=()),
    "an interface without addresses": of_system(interfaces=(contract.NetworkInterface("eth0"),)),
    "one more address of IPv6": of_system(
        interfaces=(contract.NetworkInterface("eth0", ("10.1.0.5", "2001:db8::77", "fe80::1%eth0")),)
    ),
    "no engines": lambda facts: replace(facts, engines=None),
    "no filesystems": lambda facts: replace(facts, filesystems=None),
}


def weights(path: str, model: str = "Q/M", **more: Any) -> contract.Weights:
    values: dict[str, Any] = {
        "revision": "c" * 40,
        "refs": ("main",),
        "size_bytes": 10 * GB,
        "complete": True,
        "shared": False,
    }
    return contract.Weights(model, path, **(values | more))


def machine(*seen: contract.Weights, systemd: int = 257, journal: bool = True) -> Node:
    engines = tuple(
        contract.Engine(kind, (f"/opt/my engines/{kind}/100%/bin/{kind}",), version, runnable=True)
        for kind, version in (("vllm", "0.33.0"), ("sglang", "0.5.23"), ("llama.cpp", "1"))
    )
    interfaces = (contract.NetworkInterface("eth0", ("10.1.0.5",)),)
    system = contract.System(hostname="n1", journal=journal, systemd_version=systemd, interfaces=interfaces)
    one = node("n1", 4)
    assert one.facts is not None
    cards = tuple(replace(card, compute_capability="9.0", numa_node=0) for card in one.facts.gpus or ())
    known = replace(one.facts, gpus=cards, engines=engines, system=system, weights=seen)
    return replace(with_facts(one, known), settings=replace(one.settings, socket_interface="eth0"))


def wanted(engine: str, model: ModelSpec = HUB, **more: Any) -> ProfileSpec:
    return profile("p", engine, H200, 1, model=model, **more)


SHAPES: dict[str, tuple[ProfileSpec, Node]] = {
    "vLLM": (wanted("vllm", secrets={"VLLM_API_KEY": "k"}), machine(weights(f"/srv/models/{SNAPSHOT}"))),
    "vLLM that fetches itself": (wanted("vllm"), machine()),
    "vLLM with fetched weights": (wanted("vllm", FETCHED), machine()),
    "weights in two places": (wanted("vllm"), machine(*(weights(f"/{one}/{SNAPSHOT}") for one in "ba"))),
    "SGLang and blanks": (wanted("sglang"), machine(weights(f"/srv/my 100% models/{SNAPSHOT}"))),
    "llama.cpp": (
        wanted("llama.cpp", ModelSpec(ModelName("m"), path="x.gguf")),
        machine(weights("/data2/x.gguf", "x", layout="file", format="gguf")),
    ),
    "an old systemd without a journal": (wanted("vllm"), machine(systemd=243, journal=False)),
}


def asked(one: ProfileSpec) -> Catalog:
    return replace(catalog(service("chat", 1, (one,))), fleet=FleetSpec(engines_reachable_from=("10.9.9.9",)))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize(("one", "on"), SHAPES.values(), ids=SHAPES)
def test_what_is_missing_this_time_changes_no_unit(one: ProfileSpec, on: Node, look: Look) -> None:
    world = World(fleet(on))
    units = world.apply(asked(one)).units
    assert world.restarted == ["llmgw-chat.0.0.service"]
    world.fleet = replace(world.fleet, nodes=tuple(with_facts(one, look(_facts(one))) for one in world.fleet.nodes))
    after = decide(asked(one), world.fleet)
    assert {unit.text for unit in after.units} <= {unit.text for unit in units}
    assert not after.plan.waves


def _facts(one: Node) -> contract.NodeFacts:
    assert one.facts is not None
    return one.facts


def test_a_time_that_the_profile_no_longer_says_is_rewritten_once_and_restarts_nothing() -> None:
    for first, on in (SHAPES["vLLM"], SHAPES["vLLM with fetched weights"]):
        world = World(fleet(on))
        world.apply(asked(replace(first, ready_timeout_s=7200)))
        (unit,) = world.apply(asked(first)).units
        assert world.restarted == []
        assert "ReadyTimeoutS=7200" not in unit.text
        assert not decide(asked(first), world.fleet).plan.waves


def test_another_first_directory_restarts_nothing() -> None:
    first, on = SHAPES["vLLM with fetched weights"]
    world = World(fleet(replace(on, settings=replace(on.settings, model_dirs=("/srv/models",)))))
    world.apply(asked(first))
    dirs = ("/nvme/models", "/srv/models")
    (there,) = world.fleet.nodes
    world.fleet = replace(world.fleet, nodes=(replace(there, settings=replace(there.settings, model_dirs=dirs)),))
    assert not decide(asked(first), world.fleet).plan.waves

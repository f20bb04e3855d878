# SPDX-License-Identifier: Apache-2.0
"""Weights that are on a node already are a preference, and never a filter (P3, D12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.ids import ModelName
from llmgw.model.node import Node
from llmgw.model.replica import ModelSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.placement_fleets import changed, placed, where
from tests.support.world import World

QWEN = ModelSpec(ModelName("qwen"), hf_id="Qwen/Qwen3-32B")
LOCAL = contract.Filesystem("/", free_bytes=500 * GB, shared=False)
FILER = contract.Filesystem("/filer", source="filer:/models", type="nfs4", free_bytes=500 * GB, shared=True)


def weights(mount_point: str = "/", **more: Any) -> contract.Weights:
    values: dict[str, Any] = {"layout": "hf-cache", "complete": True, "mount_point": mount_point} | more
    return contract.Weights("Qwen/Qwen3-32B", f"{mount_point.rstrip('/')}/models/qwen", **values)


def holding(
    name: str, *found: contract.Weights, disks: tuple[contract.Filesystem, ...] = (LOCAL,), **more: Any
) -> Node:
    return node(name, weights=found, filesystems=disks, **more)


def never_looked(name: str, **more: Any) -> Node:
    return node(name, weights=None, filesystems=(LOCAL,), **more)


def chosen(*nodes: Node, replicas: int = 1, **more: Any) -> list[str]:
    wanted = service("chat", replicas, (profile(model=QWEN, **more),))
    return sorted(names[0] for names in where(placed(catalog(wanted), fleet(*nodes))).values())


def test_a_node_that_has_the_weights_is_preferred() -> None:
    assert chosen(holding("a"), holding("b"), holding("c", weights())) == ["c"]


def test_weights_are_not_required() -> None:
    assert chosen(holding("a"), never_looked("b"), replicas=2) == ["a", "b"]
    assert chosen(holding("a", weights(), memory_gb=8), holding("b"), min_memory_bytes=24 * GB) == ["b"]


def test_weights_that_are_half_there_are_no_weights() -> None:
    assert chosen(holding("a"), holding("b", weights(complete=False, missing=("model-2.safetensors",)))) == ["a"]


def test_weights_of_another_revision_are_not_those_that_are_asked_for() -> None:
    pinned = replace(QWEN, revision="abc")
    wanted = catalog(service("chat", 1, (profile(model=pinned),)))
    nodes = fleet(holding("a"), holding("b", weights(revision="def")), holding("c", weights(revision="abc")))
    assert where(placed(wanted, nodes)) == {"chat/0": ("c",)}


def test_a_node_that_never_looked_ranks_like_one_that_looked_and_has_nothing() -> None:
    assert chosen(holding("a"), never_looked("b")) == ["a"]
    assert chosen(never_looked("a"), holding("b")) == ["a"]


def test_enabling_model_directories_on_one_node_does_not_drain_the_others() -> None:
    wanted = catalog(service("chat", 4, (profile(model=QWEN),)))
    world = World(fleet(*(never_looked(f"n{at}") for at in range(4))))
    world.apply(wanted)
    nodes = [
        replace(one, facts=replace(one.facts, weights=(weights(),))) if one.name == "n2" and one.facts else one
        for one in world.fleet.nodes
    ]
    world.fleet = replace(world.fleet, nodes=tuple(nodes))
    assert changed(world.apply(wanted)) == []


def test_enabling_model_directories_where_there_are_none_keeps_a_node_in_use() -> None:
    nodes = [holding("n0"), *(never_looked(f"n{at}") for at in (1, 2, 3))]
    assert chosen(*nodes, replicas=4) == ["n0", "n1", "n2", "n3"]


@pytest.mark.parametrize("seen_by", ["b", "c"])
def test_a_shared_filer_counts_like_local_copies_on_every_node_that_mounts_it(seen_by: str) -> None:
    def mounting(name: str) -> Node:
        return holding(name, *([weights("/filer")] if name == seen_by else []), disks=(LOCAL, FILER))

    nodes = (holding("a"), mounting("b"), mounting("c"), holding("d", weights()))
    assert chosen(*nodes, replicas=3) == ["b", "c", "d"]


def test_a_filer_that_is_mounted_elsewhere_under_another_path_is_the_same_one() -> None:
    other = replace(FILER, mount_point="/mnt/models")
    nodes = [holding("a"), holding("b", disks=(LOCAL, other)), holding("c", weights("/filer"), disks=(FILER,))]
    assert chosen(*nodes, replicas=2) == ["b", "c"]


def test_another_filer_and_a_filer_that_hangs_count_for_nothing() -> None:
    source = holding("d", weights("/filer"), disks=(FILER,), cordoned=True)
    others = [
        holding("b", disks=(replace(FILER, source="filer:/other"),)),
        holding("c", disks=(replace(FILER, answers=False),)),
    ]
    assert chosen(holding("a"), *others, source) == ["a"]


def test_local_disks_of_one_name_are_not_one_filer() -> None:
    disk = contract.Filesystem("/data", source="/dev/nvme0n1p1", type="ext4", free_bytes=500 * GB, shared=False)
    source = holding("c", weights("/data"), disks=(disk,), cordoned=True)
    assert chosen(holding("a"), holding("b", disks=(disk,)), source) == ["a"]

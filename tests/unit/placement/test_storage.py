# SPDX-License-Identifier: Apache-2.0
"""Disk space for weights that must be fetched: promised once a filesystem, and never twice (P1, D11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.ids import ModelName
from llmgw.model.node import Node, NodeSettings
from llmgw.model.replica import ModelSpec, ServiceSpec
from llmgw.nodekit import contract
from tests.support.fleets import GB, catalog, fleet, node, profile, service
from tests.support.placement_fleets import placed, sentences, told, where


def disk(mount_point: str = "/", free_gb: int | None = 150, **more: Any) -> contract.Filesystem:
    return contract.Filesystem(mount_point, free_bytes=None if free_gb is None else free_gb * GB, **more)


def filer(free_gb: int = 150, mount_point: str = "/filer", source: str = "filer:/models") -> contract.Filesystem:
    return disk(mount_point, free_gb, source=source, shared=True)


def having(name: str, *disks: contract.Filesystem, model_dirs: tuple[str, ...] = (), **more: Any) -> Node:
    made = node(name, filesystems=disks, **more)
    return replace(made, settings=NodeSettings(model_dirs=model_dirs))


def fetching(name: str, replicas: int = 1, needs_gb: int = 100, model: str | None = None) -> ServiceSpec:
    """A service whose model is nowhere yet."""
    spec = ModelSpec(ModelName(model or name), hf_id=f"org/{model or name}")
    return service(name, replicas, (profile(name, model=spec, min_free_disk_bytes=needs_gb * GB),))


def short(has_gb: int, on: str) -> str:
    return f"has {has_gb} GB of free disk on {on}, needs 100"


def test_a_disk_with_too_little_space_is_refused_with_both_amounts() -> None:
    found = placed(catalog(fetching("a")), fleet(having("n1", disk(free_gb=20))))
    (refused,) = told(found, "n1")
    assert refused.message == short(20, "/")
    assert (refused.constraint, refused.has, refused.needs, refused.unit) == ("disk", 20 * GB, 100 * GB, "bytes")


def test_disk_that_was_promised_to_one_model_is_refused_to_another() -> None:
    found = placed(catalog(fetching("a"), fetching("b")), fleet(having("n1", disk(free_gb=150))))
    assert where(found) == {"a/0": ("n1",)}
    assert sentences(found, "n1") == [short(50, "/")]


def test_two_directories_on_one_disk_are_counted_once() -> None:
    both = disk("/data", 150, directories=("/data/hub", "/data/gguf"))
    nodes = fleet(having("n1", both, model_dirs=("/data/hub", "/data/gguf")))
    assert where(placed(catalog(fetching("a"), fetching("b")), nodes)) == {"a/0": ("n1",)}


def test_two_disks_are_two_pools() -> None:
    first, second = disk("/one", 150, directories=("/one/m",)), disk("/two", 120, directories=("/two/m",))
    nodes = fleet(having("n1", first, second, model_dirs=("/one/m", "/two/m")))
    found = placed(catalog(fetching("a"), fetching("b"), fetching("c")), nodes)
    assert sorted(where(found)) == ["a/0", "b/0"]
    assert sentences(found, "n1") == [short(50, "/one")]


def test_a_disk_without_a_model_directory_is_not_for_weights() -> None:
    nodes = fleet(having("n1", disk("/", 900), disk("/data", 20, directories=("/data/m",)), model_dirs=("/data/m",)))
    assert sentences(placed(catalog(fetching("a")), nodes), "n1") == [short(20, "/data")]


def test_replicas_of_one_model_on_one_disk_need_it_once() -> None:
    found = placed(catalog(fetching("a", 3)), fleet(having("n1", disk(free_gb=150))))
    assert len(where(found)) == 3
    found = placed(catalog(fetching("a", model="m"), fetching("b", model="m")), fleet(having("n1", disk(free_gb=150))))
    assert len(where(found)) == 2
    found = placed(catalog(fetching("a", 3), fetching("b", needs_gb=160)), fleet(having("n1", disk(free_gb=250))))
    assert sentences(found, "n1") == ["has 150 GB of free disk on /, needs 160"]


def test_a_shared_filer_is_promised_once_for_the_fleet() -> None:
    nodes = fleet(having("n1", filer(150)), having("n2", filer(150, "/mnt/models")))
    found = placed(catalog(fetching("a"), fetching("b")), nodes)
    assert list(where(found)) == ["a/0"]
    assert sentences(found, "n1") == [short(50, "/filer")]
    assert sentences(found, "n2") == [short(50, "/mnt/models")]


def test_one_model_on_a_shared_filer_is_fetched_once_for_all_nodes() -> None:
    nodes = fleet(having("n1", filer(150)), having("n2", filer(150)))
    found = placed(catalog(fetching("a", 4)), nodes)
    assert len(where(found)) == 4
    assert {names[0] for names in where(found).values()} == {"n1", "n2"}


def test_two_filers_are_two_pools() -> None:
    nodes = fleet(having("n1", filer(150)), having("n2", filer(150, source="other:/models")))
    assert len(where(placed(catalog(fetching("a"), fetching("b")), nodes))) == 2


def test_local_disks_of_two_nodes_are_two_pools_though_they_are_named_alike() -> None:
    local = disk("/data", 150, source="/dev/nvme0n1", shared=False)
    nodes = fleet(having("n1", local), having("n2", local))
    assert len(where(placed(catalog(fetching("a"), fetching("b")), nodes))) == 2


@pytest.mark.parametrize("disks", [(), (disk(free_gb=None),)], ids=["no storage facts", "free space unknown"])
def test_a_node_whose_storage_is_unknown_is_not_full(disks: tuple[contract.Filesystem, ...]) -> None:
    assert len(where(placed(catalog(fetching("a")), fleet(having("n1", *disks))))) == 1
    assert len(where(placed(catalog(fetching("a")), fleet(having("n1", *disks, model_dirs=("/data/m",)))))) == 1


def test_a_node_without_model_directories_uses_any_disk() -> None:
    assert len(where(placed(catalog(fetching("a")), fleet(having("n1", disk("/", 20), disk("/data", 150)))))) == 1


@pytest.mark.parametrize("trouble", [{"read_only": True}, {"answers": False}], ids=["read-only", "hangs"])
def test_a_disk_that_takes_nothing_is_not_counted(trouble: dict[str, bool]) -> None:
    broken = disk("/data", 900, **trouble)
    nodes = fleet(having("n1", broken, disk("/", 20)))
    assert sentences(placed(catalog(fetching("a")), nodes), "n1") == [short(20, "/")]


def test_weights_that_are_there_need_no_disk() -> None:
    seen = contract.Weights("org/a", "/hub/a", layout="hf-cache", complete=True, mount_point="/")
    nodes = fleet(having("n1", disk(free_gb=1), weights=(seen,)))
    assert where(placed(catalog(fetching("a")), nodes)) == {"a/0": ("n1",)}


def test_weights_on_a_filer_need_no_disk_on_any_node_that_mounts_it() -> None:
    seen = contract.Weights("org/a", "/filer/a", layout="hf-cache", complete=True, mount_point="/filer")
    nodes = fleet(having("n1", filer(1), weights=(seen,)), having("n2", filer(1)), having("n3", disk(free_gb=1)))
    found = placed(catalog(fetching("a", 2)), nodes)
    assert sorted(where(found).values()) == [("n1",), ("n2",)]


def test_weights_that_are_half_there_need_their_disk() -> None:
    seen = contract.Weights("org/a", "/hub/a", layout="hf-cache", complete=False, mount_point="/")
    nodes = fleet(having("n1", disk(free_gb=1), weights=(seen,)))
    assert sentences(placed(catalog(fetching("a")), nodes), "n1") == [short(1, "/")]


def test_a_profile_that_asks_for_no_disk_fits_on_a_full_one() -> None:
    wanted = service("a", 1, (profile("a"),))
    assert len(where(placed(catalog(wanted), fleet(having("n1", disk(free_gb=0)))))) == 1

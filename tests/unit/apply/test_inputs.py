# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.apply.inputs import find_paths, inputs_of, read_inputs
from llmgw.catalog.load import load_catalog
from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.fleet import store
from llmgw.fleet.hosts import Host
from llmgw.fleet.inventory import read_inventory
from llmgw.model.node import NodeState
from tests.support.fleet_directory import FleetDirectory
from tests.support.fleets import catalog, facts, service

HOSTS = (Host("n1", node=True, gateway=False), Host("n2", node=True, gateway=False))


@pytest.mark.parametrize("name", ["hosts.yml", "hosts.yaml", "hosts.ini", "hosts"])
def test_a_directory_means_the_hosts_file_in_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    paths = find_paths(tmp_path)
    assert (paths.inventory, paths.catalog, paths.facts) == (
        tmp_path / name,
        tmp_path / "catalog.yaml",
        tmp_path / "facts",
    )
    assert find_paths(tmp_path / name) == paths


def test_catalog_and_facts_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("")
    paths = find_paths(tmp_path, Path("c.yaml"), Path("cache"))
    assert (paths.catalog, paths.facts) == (Path("c.yaml"), Path("cache"))


@pytest.mark.parametrize("missing", ["", "nothing", "nothing/hosts.yml"])
def test_a_missing_inventory_is_an_error_before_anything_else(tmp_path: Path, missing: str) -> None:
    with pytest.raises(LlmgwError) as caught:
        find_paths(tmp_path / missing)
    assert caught.value.code == "inventory-missing"
    assert str(tmp_path) in caught.value.why


def test_inputs_are_the_fleet_its_problems_and_the_digests_of_everything(tmp_path: Path) -> None:
    store.save(tmp_path, "n1", facts("n1"))
    (tmp_path / "n2.json").write_text("{")
    inputs = inputs_of(catalog(service()), HOSTS, tmp_path, 2000.0)
    assert [(node.name, node.state) for node in inputs.fleet.nodes] == [("n1", NodeState.OK), ("n2", NodeState.UNSEEN)]
    assert [error.code for error in inputs.problems] == ["facts-broken"]
    assert inputs.digests.catalog == "sha256:catalog"
    assert sorted(inputs.digests.facts) == ["n1", "n2"]


def test_nodes_that_are_named_as_lost_must_exist(tmp_path: Path) -> None:
    inputs = inputs_of(catalog(), HOSTS, tmp_path, 2000.0, ["n1"])
    assert inputs.fleet.nodes[0].state is NodeState.LOST
    with pytest.raises(LlmgwError) as caught:
        inputs_of(catalog(), HOSTS, tmp_path, 2000.0, ["n1", "typo"])
    assert (caught.value.code, caught.value.why) == ("unknown-host", "the inventory has no host typo")


def test_inputs_read_side_by_side_are_those_read_one_after_the_other(tmp_path: Path) -> None:
    directory = FleetDirectory(tmp_path)
    store.save(directory.facts, "gone-from-the-inventory", facts("x"))
    paths = find_paths(tmp_path)
    hosts = read_inventory(paths.inventory)
    assert [host.name for host in hosts] == ["gw", "n1", "n2"]
    apart = inputs_of(load_catalog(paths.catalog), hosts, paths.facts, 2000.0)
    assert read_inputs(paths, 2000.0) == apart


def test_a_wrong_catalog_is_told_before_a_wrong_inventory(tmp_path: Path) -> None:
    directory = FleetDirectory(tmp_path)
    directory.hosts("all: [")
    with pytest.raises(LlmgwError) as caught:
        read_inputs(find_paths(tmp_path), 2000.0)
    assert caught.value.code == "inventory-broken"
    directory.catalog("version: 7")
    with pytest.raises(LlmgwErrors, match="version"):
        read_inputs(find_paths(tmp_path), 2000.0)

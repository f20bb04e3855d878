# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from llmgw.fleet.fabrics import judge
from llmgw.model.fabric import FabricPort
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, declared, ib, judged, ports_of, roce, verdicts

SM: dict[str, Any] = {"sm_guids": ("0x00000000000000aa",)}
OTHER_SM: dict[str, Any] = {"sm_guids": ("0x00000000000000bb",)}
SET = "fec0:0000:0000:0001"

Nodes = dict[str, tuple[contract.RdmaPort, ...] | None]


def words(nodes: Nodes, **fabrics: Any) -> set[str]:
    return set(verdicts(judged(nodes, **(fabrics or {"ib_a": by_pci()}))).values())


def the(found: Any, name: str) -> FabricPort:
    return next(port for port in ports_of(found) if f"{port.node} {port.name}" == name)


def test_nodes_without_adapters_and_nodes_that_do_not_tell_are_told_apart() -> None:
    found = judged({"n1": (), "n2": None})
    assert found.ports == {"n1": ()}
    assert found.fabrics == ()


def test_what_nobody_declared_gets_a_name_from_its_manager_or_switch() -> None:
    nodes: Nodes = {
        "n1": (
            ib(1, 0, sm_guids=("0x506b4b0300ca0001",)),
            ib(2, 1, switch_guid="0xb83fd20300000011"),
            ib(3, 2),
            roce("10.8.0.1", 3),
        ),
    }
    found = judged(nodes)
    assert [port.fabric for port in found.ports["n1"]] == ["ib-00ca0001", "ib-00000011", None, None]
    assert [(fabric.name, fabric.declared, fabric.verdict.value) for fabric in found.fabrics] == [
        ("ib-00000011", False, "undeclared"),
        ("ib-00ca0001", False, "undeclared"),
    ]


def test_a_found_fabric_never_takes_the_name_of_another() -> None:
    ends_alike: Nodes = {f"n{number}": (ib(number, sm_guids=(f"0x506b4b0{number}00ca0001",)),) for number in (1, 2)}
    found = judged(ends_alike)
    assert [fabric.name for fabric in found.fabrics] == ["ib-0x506b4b0100ca0001", "ib-0x506b4b0200ca0001"]
    loose: Nodes = {"n1": (ib(1), ib(2, 1, sm_guids=("0x506b4b0300ca0001",)))}
    adopted = judge(loose, declared(["n1"], **{"ib-00ca0001": by_pci(1)}))
    assert [fabric.name for fabric in adopted.fabrics] == ["ib-00ca0001", "ib-0x506b4b0300ca0001"]


def test_an_undeclared_port_of_a_declared_subnet_says_whose_it_is() -> None:
    nodes: Nodes = {"n1": (ib(1, **SM), ib(3, 1, **SM)), "n2": (ib(2, **SM),)}
    found = judged(nodes, ib_a=by_pci(1))
    assert the(found, "n1 mlx5_1:1").evidence == (
        "in one subnet with n1 mlx5_0:1: both have the subnet manager 0x00000000000000aa, which is declared ib-a",
    )


@pytest.mark.parametrize(
    ("body", "selector"),
    [
        ({"kind": "infiniband", "hcas": {"pci": ["0000:77:00.0"]}}, "its hcas.pci"),
        ({"kind": "infiniband", "hcas": {"sm_guids": ["0xcc"]}}, "hcas.sm_guids 0x00000000000000cc"),
        ({"kind": "infiniband", "hcas": {"subnet_prefix": "fec0:0:0:7"}}, "hcas.subnet_prefix fec0:0000:0000:0007"),
        ({"kind": "roce", "cidrs": ["10.77.0.0/16"]}, "cidrs 10.77.0.0/16"),
    ],
)
def test_a_declared_fabric_that_no_port_matches_is_a_fabric_without_members(body: Any, selector: str) -> None:
    (fabric,) = judged({"n1": (ib(1),), "n2": (), "n3": None}, ib_a=body).fabrics
    assert (fabric.name, fabric.kind, fabric.declared, fabric.members) == ("ib-a", body["kind"], True, ())
    assert fabric.notes == (
        f"declared on 3 nodes, and no usable port matches {selector}; the ports of 1 node are unknown",
    )


def test_a_declared_fabric_of_nodes_that_do_not_tell_their_ports_is_not_called_unmatched() -> None:
    for ports in (None, (ib(1, active=None, state=None),)):
        (fabric,) = judged({"n1": ports}, ib_a=by_pci()).fabrics
        assert fabric.notes == ("declared on 1 node, whose ports are unknown",)

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from llmgw.fleet.fabric_findings import findings_of
from llmgw.fleet.fabrics import judge
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, declared, ib, roce

SM: dict[str, Any] = {"sm_guids": ("0x00000000000000aa",)}
Nodes = dict[str, tuple[contract.RdmaPort, ...] | None]


def told(nodes: Nodes, **fabrics: Any) -> dict[str, list[contract.Finding]]:
    declarations = declared(list(nodes), **fabrics)
    found = findings_of(judge(nodes, declarations), declarations)
    assert all(finding.severity != "block" for findings in found.values() for finding in findings), "P1b"
    return {node: list(findings) for node, findings in found.items()}


def test_a_fleet_in_order_has_nothing_to_say() -> None:
    assert told({"n1": (ib(1, **SM),), "n2": (ib(2, **SM),), "n3": (), "n4": None}, ib_a=by_pci(1)) == {}


def test_a_contradicted_port_is_told_at_its_node_with_the_other_side() -> None:
    nodes: Nodes = {name: (ib(number, **SM),) for number, name in enumerate(("n1", "n2"), 1)}
    nodes["n3"] = (ib(3, lid=1, sm_lid=2),)
    found = told(nodes, ib_a=by_pci(1))
    assert [one.code for one in found["n3"]][:1] == ["fabric-contradicted"]
    (finding, *_) = found["n3"]
    assert (finding.severity, finding.subject) == ("warn", "mlx5_0:1")
    assert finding.message == (
        "mlx5_0:1 is declared ib-a, and that is wrong: its subnet manager has LID 2, and that of n1 mlx5_0:1 and 1 "
        "more has LID 1"
    )
    assert finding.evidence == ("its LID 1 is that of n1 mlx5_0:1 too, and a subnet gives each LID once",)
    assert "rails: independent" in (finding.remedy or "")


def test_a_declared_adapter_that_is_missing_or_down_is_named_where_its_fellows_are() -> None:
    nodes: Nodes = {
        "n1": (ib(1), ib(2, 1, active=False, state="DOWN")),
        "n2": (),
        "n3": (roce("10.8.0.1", 9),),
    }
    found = told(nodes, ib_a=by_pci(3))
    assert [(one.code, one.subject, one.message) for one in found["n1"]] == [
        (
            "fabric-port-missing",
            "mlx5_1:1",
            "ib-a is declared with 0000:11:00.0: mlx5_1:1 is not usable, it is not active",
        ),
        ("fabric-port-missing", "0000:12:00.0", "ib-a is declared with 0000:12:00.0: no adapter of this node has it"),
    ]
    assert "n2" not in found
    assert "n3" not in found, "a group's variable reaches nodes without that fabric too"


def test_the_node_with_another_number_of_ports_is_named() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, **SM), ib(10 + number, 1, **SM)) for number in (1, 2, 3)}
    nodes["n4"] = (ib(4, **SM),)
    found = told(nodes, ib_a=by_pci(1), ib_b={"kind": "infiniband", "hcas": {"sm_guids": ["0xcc"]}})
    assert {node for node, findings in found.items() if any(one.code == "fabric-uneven" for one in findings)} == set()
    found = told(nodes, ib_a={"kind": "infiniband", "hcas": {"sm_guids": ["0xaa"]}})
    assert [(one.code, one.message) for one in found["n4"]] == [
        ("fabric-uneven", "3 of 4 nodes have 2 ports in ib-a, this one has 1")
    ]
    assert set(found) == {"n4"}


def test_undeclared_infiniband_is_information_and_ethernet_is_none() -> None:
    found = told({"n1": (ib(1, **SM), ib(2, 1), roce("10.8.0.1", 2)), "n2": (roce("10.8.0.2"),)})
    ((finding,),) = found.values()
    assert (finding.code, finding.severity) == ("fabric-undeclared", "info")
    assert finding.message == "InfiniBand ports that no declared fabric has (ib-000000aa): mlx5_0:1, mlx5_1:1"


def test_a_port_with_another_manager_is_told_at_its_node() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, **SM), ib(10 + number, 1, **SM)) for number in (1, 2)}
    nodes["n3"] = (ib(3, **SM), ib(13, 1, sm_guids=("0x00000000000000bb",)))
    found = told(nodes, ib_a=by_pci(2))
    (finding,) = found["n3"]
    assert (finding.code, finding.severity, finding.subject) == ("fabric-other-manager", "warn", "mlx5_1:1")
    assert finding.message == (
        "mlx5_1:1 is declared ib-a: its subnet manager is 0x00000000000000bb, that of 5 others 0x00000000000000aa"
    )
    assert set(found) == {"n3"}


def test_a_fabric_that_no_port_matches_is_told_where_a_port_may_have_been_meant() -> None:
    nodes: Nodes = {"n1": (ib(1, **SM),), "n2": (), "n3": (roce("10.8.0.1"),)}
    found = told(nodes, ib_a={"kind": "infiniband", "hcas": {"subnet_prefix": "fec0:0:0:7"}})
    assert [(one.code, one.subject) for one in found["n1"]] == [
        ("fabric-undeclared", None),
        ("fabric-unmatched", "ib-a"),
    ]
    assert found["n1"][1].message == (
        "ib-a is declared on 3 nodes, and no usable port matches hcas.subnet_prefix fec0:0000:0000:0007"
    )
    assert set(found) == {"n1"}

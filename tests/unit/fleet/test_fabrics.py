# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.fabric import FabricPort, Verdict
from llmgw.nodekit import contract
from tests.support.fabric_fleets import by_pci, ib, judged, port_guid, ports_of, roce, verdicts

SM: dict[str, Any] = {"sm_guids": ("0x00000000000000aa",)}
OTHER_SM: dict[str, Any] = {"sm_guids": ("0x00000000000000bb",)}
SET = "fec0:0000:0000:0001"

Nodes = dict[str, tuple[contract.RdmaPort, ...] | None]


def words(nodes: Nodes, **fabrics: Any) -> set[str]:
    return set(verdicts(judged(nodes, **(fabrics or {"ib_a": by_pci()}))).values())


def the(found: Any, name: str) -> FabricPort:
    return next(port for port in ports_of(found) if f"{port.node} {port.name}" == name)


@pytest.mark.parametrize(
    ("one", "other", "proof"),
    [
        (ib(1, **SM), ib(2, **SM), "both have the subnet manager 0x00000000000000aa"),
        (ib(1, prefix=SET), ib(2, prefix=SET), "both have the subnet prefix fec0:0000:0000:0001"),
        (ib(1, subnet_port_guids=(port_guid(2),)), ib(2), "one was seen in the subnet of the other"),
        (ib(1), ib(2, subnet_port_guids=(port_guid(2), port_guid(1))), "one was seen in the subnet of the other"),
        (
            ib(1, subnet_digest="d", subnet_port_count=9),
            ib(2, subnet_digest="d", subnet_port_count=9),
            "both see the same ports in it",
        ),
    ],
)
def test_ports_that_prove_one_subnet_are_confirmed(
    one: contract.RdmaPort, other: contract.RdmaPort, proof: str
) -> None:
    found = judged({"n1": (one,), "n2": (other,)}, ib_a=by_pci())
    assert verdicts(found) == {"n1 mlx5_0:1": "confirmed", "n2 mlx5_0:1": "confirmed"}
    assert the(found, "n1 mlx5_0:1").evidence == (f"in one subnet with n2 mlx5_0:1: {proof}",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ib(1), ib(2)),
        (ib(1, prefix=SET), ib(2)),
        (ib(1, subnet_port_guids=(port_guid(7),)), ib(2)),
        (ib(1, subnet_digest="d", subnet_port_count=0), ib(2, subnet_digest="d", subnet_port_count=0)),
        (ib(1, **SM), ib(2, **OTHER_SM)),
        (ib(1, prefix=SET, **SM), ib(2, prefix=SET, **OTHER_SM)),
        (ib(1, prefix=SET, subnet_port_guids=(port_guid(1),)), ib(2, prefix=SET, subnet_port_guids=(port_guid(2),))),
        (ib(1, port_guid=port_guid(2), lid=1), ib(2, subnet_port_guids=(port_guid(2),))),
    ],
    ids=[
        "the default prefix and one manager's LID",
        "a prefix on one side only",
        "a list without the other",
        "a digest of nothing",
        "two managers",
        "one prefix given by two managers",
        "one prefix and lists without the other",
        "a GUID that two ports claim",
    ],
)
def test_what_is_alike_everywhere_proves_nothing(one: contract.RdmaPort, other: contract.RdmaPort) -> None:
    assert words({"n1": (one,), "n2": (other,)}) == {"unverified"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"lid": 1}, "its LID 1 is that of n1 mlx5_0:1 too, and a subnet gives each LID once"),
        ({"sm_lid": 7}, "its subnet manager has LID 7, and that of n1 mlx5_0:1 and 2 more has LID 1"),
        ({"pkeys": ("0x8001",)}, "it shares no partition with n1 mlx5_0:1 and 2 more (0x8001; there 0xffff)"),
    ],
)
def test_the_odd_one_out_is_named_and_not_the_many_against_it(more: dict[str, Any], says: str) -> None:
    nodes: Nodes = {f"n{number}": (ib(number),) for number in (1, 2, 3)}
    nodes["n9"] = (ib(9, **more),)
    if "lid" in more:  # who has a LID wrongly is told by what else proves the others
        nodes |= {f"n{number}": (ib(number, **SM),) for number in (1, 2, 3)}
    found = judged(nodes, ib_a=by_pci())
    assert [f"{port.node}" for port in ports_of(found) if port.verdict is Verdict.CONTRADICTED] == ["n9"]
    assert the(found, "n9 mlx5_0:1").evidence == (says,)


def test_another_prefix_that_somebody_set_contradicts() -> None:
    nodes: Nodes = {"n1": (ib(1, prefix=SET),), "n2": (ib(2, prefix=SET),), "n3": (ib(3, prefix="fec0:0:0:2"),)}
    found = judged(nodes, ib_a=by_pci())
    assert verdicts(found)["n3 mlx5_0:1"] == "contradicted"
    assert the(found, "n3 mlx5_0:1").evidence == (
        "its subnet prefix is fec0:0000:0000:0002, and that of n1 mlx5_0:1 and 1 more is fec0:0000:0000:0001",
    )
    assert {verdicts(found)[f"{name} mlx5_0:1"] for name in ("n1", "n2")} == {"confirmed"}


def test_half_against_half_is_told_at_both_halves() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, sm_lid=1 + number % 2),) for number in (1, 2, 3, 4)}
    found = judged(nodes, ib_a=by_pci())
    assert set(verdicts(found).values()) == {"contradicted"}
    assert the(found, "n1 mlx5_0:1").evidence == (
        "its subnet manager has LID 2, and that of n2 mlx5_0:1 and 1 more has LID 1",
    )


def test_a_prefix_of_its_own_parts_a_port_even_from_those_with_its_manager() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, prefix=SET, **SM),) for number in (1, 2)}
    nodes["n3"] = (ib(3, prefix="fec0:0:0:2", **SM),)
    assert [port.node for port in ports_of(judged(nodes, ib_a=by_pci())) if port.verdict is Verdict.CONTRADICTED] == [
        "n3"
    ]


def test_between_two_that_contradict_each_other_both_are_named() -> None:
    found = judged({"n1": (ib(1, lid=5),), "n2": (ib(2, lid=5),), "n3": (ib(3),)}, ib_a=by_pci())
    assert verdicts(found) == {
        "n1 mlx5_0:1": "contradicted",
        "n2 mlx5_0:1": "contradicted",
        "n3 mlx5_0:1": "unverified",
    }
    assert "n2 mlx5_0:1" in the(found, "n1 mlx5_0:1").evidence[0]
    assert "n1 mlx5_0:1" in the(found, "n2 mlx5_0:1").evidence[0]


def test_what_cuts_one_port_off_cuts_off_those_that_share_its_subnet() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, **SM),) for number in (1, 2, 3)}
    nodes |= {"n4": (ib(4, lid=1, **OTHER_SM),), "n5": (ib(5, **OTHER_SM),)}
    found = judged(nodes, ib_a=by_pci())
    assert [port.node for port in ports_of(found) if port.verdict is Verdict.CONTRADICTED] == ["n4", "n5"]
    (sentence,) = the(found, "n5 mlx5_0:1").evidence
    assert sentence.startswith("in one subnet with n4 mlx5_0:1: both have the subnet manager 0x00000000000000bb; of ")
    assert sentence.endswith("its LID 1 is that of n1 mlx5_0:1 too, and a subnet gives each LID once")


def test_a_manager_that_moved_between_two_looks_does_not_part_what_is_proved() -> None:
    assert words({"n1": (ib(1, **SM),), "n2": (ib(2, sm_lid=7, **SM),)}) == {"confirmed"}


def test_partitions_part_ports_even_of_one_subnet() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, **SM),) for number in (1, 2)}
    nodes["n3"] = (ib(3, pkeys=("0x8001", "0x7fff"), **SM),)
    assert verdicts(judged(nodes, ib_a=by_pci()))["n3 mlx5_0:1"] == "contradicted"


def test_a_prefix_given_to_two_fabrics_by_mistake_proves_nothing() -> None:
    ports: Nodes = {f"a{lid}": (ib(lid, prefix=SET),) for lid in (1, 2, 3)}
    ports |= {f"b{lid}": (ib(10 + lid, prefix=SET, lid=lid),) for lid in (1, 2)}
    assert "confirmed" not in words(ports)
    ports["a4"] = (ib(4, prefix=SET),)
    assert "confirmed" not in words(ports), "two are left, and four are refuted"
    del ports["a4"]
    ports |= {f"c{lid}": (ib(lid, prefix=SET),) for lid in (21, 22, 23, 24)}
    found = verdicts(judged(ports, ib_a=by_pci()))
    assert [name[:2] for name, word in found.items() if word == "contradicted"] == ["a1", "a2", "b1", "b2"]
    assert [name[:2] for name, word in found.items() if word == "confirmed"] == ["a3", "c2", "c2", "c2", "c2"]


def test_a_port_on_the_cable_of_another_fabric_is_contradicted_by_that_fabric() -> None:
    nodes: Nodes = {
        "n1": (ib(1, **SM), ib(11, 1, **OTHER_SM)),
        "n2": (ib(2, **SM), ib(12, 1, **OTHER_SM)),
        "n3": (ib(3, **SM), ib(13, 1, **SM)),
    }
    second = {"kind": "infiniband", "hcas": {"pci": ["0000:11:00.0"]}}
    found = judged(nodes, ib_a=by_pci(1), ib_b=second)
    assert [port.name for port in ports_of(found) if port.verdict is Verdict.CONTRADICTED] == ["mlx5_1:1"]
    assert the(found, "n3 mlx5_1:1").evidence == (
        "in one subnet with n1 mlx5_0:1: both have the subnet manager 0x00000000000000aa; that one is declared ib-a",
    )


def test_two_names_for_one_subnet_are_a_note_and_stay_usable() -> None:
    second = {"kind": "infiniband", "hcas": {"pci": ["0000:11:00.0"]}}
    nodes: Nodes = {name: (ib(number, **SM), ib(10 + number, 1, **SM)) for number, name in ((1, "n1"), (2, "n2"))}
    found = judged(nodes, ib_a=by_pci(1), ib_b=second)
    assert set(verdicts(found).values()) == {"confirmed"}
    assert found.fabrics[0].notes == (
        "ib-b is the same subnet: n1 mlx5_0:1 is in one subnet with n1 mlx5_1:1: both have the subnet manager "
        + SM["sm_guids"][0],
    )


def test_most_of_a_fabric_is_never_misplaced_by_another_of_the_same_subnet() -> None:
    second = {"kind": "infiniband", "hcas": {"pci": ["0000:11:00.0"]}}
    nodes: Nodes = {name: (ib(number, **SM), ib(10 + number, 1, **SM)) for number, name in ((1, "n1"), (2, "n2"))}
    nodes["n3"] = (ib(3),)
    found = verdicts(judged(nodes, ib_a=by_pci(1), ib_b=second))
    assert [found[f"{name} mlx5_0:1"] for name in ("n1", "n2", "n3")] == ["confirmed", "confirmed", "unverified"]


def test_two_halves_that_nothing_joins_are_both_unverified() -> None:
    nodes: Nodes = {"n1": (ib(1, **SM),), "n2": (ib(2, **SM),), "n3": (ib(3, **OTHER_SM),), "n4": (ib(4, **OTHER_SM),)}
    found = judged(nodes, ib_a=by_pci())
    assert set(verdicts(found).values()) == {"unverified"}
    assert the(found, "n1 mlx5_0:1").evidence == (
        (
            "declared; its subnet manager is 0x00000000000000aa, that of 2 others 0x00000000000000bb, "
            "and nothing proves that these are one subnet"
        ),
    )


def test_a_port_alone_is_proved_by_the_manager_that_was_declared() -> None:
    by_manager = {"kind": "infiniband", "hcas": {"sm_guids": ["0xaa"]}}
    assert words({"n1": (ib(1, **SM),)}, ib_a=by_manager) == {"confirmed"}
    assert words({"n1": (ib(1, **SM),)}, ib_a=by_pci()) == {"unverified"}
    both = {"kind": "infiniband", "hcas": {"sm_guids": ["0xaa", "0xbb"]}}
    assert words({"n1": (ib(1, **SM),), "n2": (ib(2, **OTHER_SM),)}, ib_a=both) == {"confirmed"}


@pytest.mark.parametrize(
    ("port", "fabric", "says"),
    [
        (roce("10.8.0.1"), by_pci(), "its link is Ethernet, and ib-a is declared infiniband"),
        (ib(1), by_pci(kind="roce"), "its link is InfiniBand, and ib-a is declared roce"),
        (
            ib(1, **OTHER_SM),
            {"kind": "infiniband", "hcas": {"pci": ["0000:10:00.0"], "sm_guids": ["0xaa"]}},
            "its subnet manager is 0x00000000000000bb, and ib-a is declared with 0x00000000000000aa",
        ),
        (
            ib(1),
            {"kind": "infiniband", "hcas": {"pci": ["0000:10:00.0"], "subnet_prefix": "fec0:0:0:1"}},
            "its subnet prefix is fe80:0000:0000:0000, and ib-a is declared with fec0:0000:0000:0001",
        ),
        (
            roce("10.9.0.1"),
            {"kind": "roce", "hcas": {"pci": ["0000:10:00.0"]}, "cidrs": ["10.8.0.0/16"]},
            "its address is 10.9.0.1, and ib-a is declared in 10.8.0.0/16",
        ),
    ],
)
def test_a_port_that_is_not_as_declared_is_contradicted_by_the_declaration(
    port: contract.RdmaPort, fabric: dict[str, Any], says: str
) -> None:
    found = judged({"n1": (port,)}, ib_a=fabric)
    assert [(one.verdict, one.fabric, one.evidence) for one in ports_of(found)] == [
        (Verdict.CONTRADICTED, "ib-a", (says,))
    ]


def test_a_port_that_two_declarations_mean_is_contradicted() -> None:
    prefix = {"kind": "infiniband", "hcas": {"subnet_prefix": "fec0:0:0:1"}}
    found = judged({"n1": (ib(1, prefix=SET),)}, ib_a=by_pci(1), ib_b=prefix)
    assert the(found, "n1 mlx5_0:1").evidence == ("declared ib-a by its PCI address, and ib-b by its subnet prefix",)


def test_interface_names_narrow_what_a_declaration_tells() -> None:
    narrowed = {"kind": "roce", "cidrs": ["10.8.0.0/16"], "hcas": {"netdevs": ["eth1", "bond0"]}}
    nodes: Nodes = {"n1": (roce("10.8.0.1"), roce("10.8.0.2", 1), roce("10.8.0.3", 2, netdevs=("eth2", "bond0")))}
    assert verdicts(judged(nodes, roce_a=narrowed)) == {
        "n1 mlx5_0:1": "undeclared",
        "n1 mlx5_1:1": "unverified",
        "n1 mlx5_2:1": "unverified",
    }


def test_roce_is_never_proved_by_its_addresses() -> None:
    found = judged(
        {"n1": (roce("10.8.0.1"),), "n2": (roce("10.8.0.2"),)}, roce_a={"kind": "roce", "cidrs": ["10.8.0.0/16"]}
    )
    assert set(verdicts(found).values()) == {"unverified"}
    assert the(found, "n1 mlx5_0:1").evidence == (
        "declared, and its 10.8.0.1 is in 10.8.0.0/16; whether it reaches the other ports was not tried",
    )
    assert (found.fabrics[0].kind, found.fabrics[0].verdict) == ("roce", Verdict.UNVERIFIED)


def test_ports_that_engines_cannot_use_are_in_no_fabric_and_say_why() -> None:
    ports = (
        ib(1, 0, virtual_function=True, **SM),
        ib(2, 1, switch_management=True, **SM),
        ib(3, 2, active=False, state="DOWN", **SM),
        ib(4, 3, active=None, state="4: ACTIVE", kind=None, **SM),
        ib(5, 4, active=None, state=None, **SM),
        ib(6, 5, kind="efa", **SM),
        ib(7, 6, kind=None, link_layer="Unspecified", **SM),
        ib(8, 7, kind=None, device="efa_0", **SM),
        ib(9, 8, device="mlx5_0_dma", **SM),
        roce("10.8.0.1", 9, gids=(), gids_known=True),
    )
    found = judged({"n1": ports, "n2": (ib(10, **SM),)}, ib_a=by_pci())
    assert [(port.verdict.value, port.evidence[0]) for port in found.ports["n1"] if port.name != "mlx5_3:1"] == [
        ("excluded", "it is neither InfiniBand nor RoCE: efa"),
        ("excluded", "it is a virtual function"),
        ("excluded", "it is the way to the management of the NVSwitches, not a network"),
        ("excluded", "it is not active"),
        ("excluded", "its state is unknown"),
        ("excluded", "it is neither InfiniBand nor RoCE: efa"),
        ("excluded", "it is neither InfiniBand nor RoCE: Unspecified"),
        ("excluded", "it has no GID here: its network interface belongs to another namespace, or has no address"),
        ("excluded", "it is the data-direct half of another adapter"),
    ]
    assert verdicts(found)["n1 mlx5_3:1"] == "confirmed"
    (fabric,) = found.fabrics
    assert [(member.node, len(member.ports)) for member in fabric.members] == [("n1", 1), ("n2", 1)]


def rail_fleet(**more: Any) -> Nodes:
    """Two nodes on two rails that nothing connects: equal LIDs, a manager each."""
    rails = [{"sm_guids": (f"0x00000000000000a{index}",)} | more for index in (0, 1)]
    return {
        f"n{number}": tuple(ib(10 * index + number, index, lid=number, **rails[index]) for index in (0, 1))
        for number in (1, 2)
    }


def test_rails_that_nothing_connects_may_have_all_alike_when_they_are_declared_so() -> None:
    found = judged(rail_fleet(), ib_a=by_pci(rails="independent"))
    assert set(verdicts(found).values()) == {"confirmed"}
    assert {f"{port.node} {port.name}": port.rail for port in ports_of(found)} == {
        "n1 mlx5_0:1": 0,
        "n1 mlx5_1:1": 1,
        "n2 mlx5_0:1": 0,
        "n2 mlx5_1:1": 1,
    }
    assert words(rail_fleet(), ib_a=by_pci()) == {"contradicted"}


def test_rails_without_proof_are_unverified_and_have_no_number() -> None:
    found = judged(rail_fleet(sm_guids=None), ib_a=by_pci(rails="independent"))
    assert {(port.verdict.value, port.rail) for port in ports_of(found)} == {("unverified", None)}


def test_one_lid_twice_on_one_rail_contradicts_rails_too() -> None:
    nodes = rail_fleet()
    nodes["n3"] = (ib(3, lid=1, sm_guids=("0x00000000000000a0",)),)
    found = verdicts(judged(nodes, ib_a=by_pci(rails="independent")))
    assert [name for name, word in found.items() if word == "contradicted"] == ["n1 mlx5_0:1", "n3 mlx5_0:1"]


def test_two_devices_for_one_port_do_not_contradict_each_other() -> None:
    twin = replace(ib(1, **SM), device="mlx5_9", pci_address="0000:11:00.0")
    assert words({"n1": (ib(1, **SM), twin), "n2": (ib(2, **SM),)}) == {"confirmed"}


def test_a_fabric_knows_its_members_and_the_managers_that_it_had() -> None:
    nodes: Nodes = {"n2": (ib(2, **SM), ib(4, 1, **SM)), "n1": (ib(1, **SM),), "n3": (ib(1, **OTHER_SM),)}
    (fabric,) = judged(nodes, ib_a=by_pci()).fabrics
    assert [(one.node, one.verdict.value, len(one.ports)) for one in fabric.members] == [
        ("n1", "confirmed", 1),
        ("n2", "confirmed", 2),
        ("n3", "contradicted", 1),
    ]
    assert fabric.verdict is Verdict.CONTRADICTED
    assert fabric.fingerprint == ("0x00000000000000aa",)


def test_a_port_with_another_manager_than_its_fellows_is_named_with_both_managers() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, **SM), ib(10 + number, 1, **SM)) for number in (1, 2, 3)}
    nodes["n4"] = (ib(4, **SM), ib(14, 1, **OTHER_SM))
    found = judged(nodes, ib_a=by_pci())
    clause = "its subnet manager is 0x00000000000000bb, that of 7 others 0x00000000000000aa"
    odd = the(found, "n4 mlx5_1:1")
    assert (odd.verdict, odd.evidence) == (
        Verdict.UNVERIFIED,
        (f"declared; {clause}, and nothing proves that these are one subnet",),
    )
    assert found.apart == {"n4": {"mlx5_1:1": clause}}
    assert found.fabrics[0].notes == (f"n4 mlx5_1:1: {clause}",)


def test_unverified_ports_of_a_fabric_that_is_proved_are_named_and_counted() -> None:
    nodes: Nodes = {f"n{number}": (ib(number, **SM),) for number in range(1, 10)}
    nodes |= {f"z{number}": (ib(20 + number),) for number in range(1, 8)}
    (fabric,) = judged(nodes, ib_a=by_pci()).fabrics
    assert fabric.notes == ("z1 mlx5_0:1, z2 mlx5_0:1, z3 mlx5_0:1, z4 mlx5_0:1, z5 mlx5_0:1 and 2 more: unverified",)
    assert judged({"n1": (ib(1),), "n2": (ib(2),)}, ib_a=by_pci()).fabrics[0].notes == (), "none is proved"

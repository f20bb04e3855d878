# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.fleet.domains import Candidate, Domains, find, is_joined, key_of
from llmgw.model.fabric import DomainMember
from llmgw.nodekit import contract
from tests.support.fabric_fleets import NO_UUID, OTHER_UUID, UUID, imex, linked, tray
from tests.support.fleets import facts

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
FOUR = (linked(),) * 4


def node(number: int, *fabrics: contract.GpuFabric | None, **more: Any) -> Candidate:
    address = f"10.0.0.{number}"
    known = tray(*(fabrics or FOUR), imex=more.pop("imex", imex(*ADDRESSES, local=address)))
    return Candidate(f"n{number}", address, replace(facts(f"n{number}"), **known, **more))


def members(found: Domains) -> dict[str, DomainMember]:
    return {member.node: member for domain in found.domains for member in domain.members}


def kept_out(*nodes: Candidate) -> dict[str, tuple[str, ...]]:
    return {name: member.kept_out for name, member in members(find(nodes)).items() if member.kept_out}


def test_nodes_with_one_uuid_and_one_clique_are_a_domain() -> None:
    found = find([node(2), node(1), node(3)])
    (domain,) = found.domains
    assert (domain.name, domain.cluster_uuid, domain.clique_id) == (f"{UUID[:8]}.2", UUID, 2)
    assert domain.ready == ("n1", "n2", "n3")
    assert members(found)["n1"] == DomainMember("n1", domain.name, 4, 4, imex_up=True, ready=True)  # type: ignore[arg-type]
    assert found.findings == {}


@pytest.mark.parametrize(
    "fabric",
    [
        None,
        contract.GpuFabric(),
        linked(NO_UUID, 0),
        linked(NO_UUID, 32766),
        linked(None, 32766),
        linked(UUID, None),
        contract.GpuFabric("N/A"),
    ],
)
def test_one_machines_nvswitch_and_what_is_not_known_are_no_domain(fabric: contract.GpuFabric | None) -> None:
    assert key_of(fabric) is None
    assert not is_joined(fabric)
    assert find([node(1, fabric), node(2, fabric)]).domains == ()


def test_equal_cliques_of_different_racks_are_different_domains() -> None:
    found = find([node(1, linked(UUID, 32766)), node(2, linked(OTHER_UUID, 32766)), node(3, linked(UUID, 7))])
    assert [(domain.name, len(domain.members)) for domain in found.domains] == [
        (f"{UUID[:8]}.32766", 1),
        (f"{UUID[:8]}.7", 1),
        (f"{OTHER_UUID[:8]}.32766", 1),
    ]


def test_domains_whose_short_names_are_alike_get_long_ones() -> None:
    twin = UUID[:8] + OTHER_UUID[8:]
    assert [one.name for one in find([node(1, linked(UUID)), node(2, linked(twin))]).domains] == sorted(
        [f"{UUID}.2", f"{twin}.2"]
    )


def test_a_node_whose_cards_disagree_is_broken_and_in_no_domain() -> None:
    found = find([node(1, linked(), linked(OTHER_UUID)), node(2)])
    assert set(members(found)) == {"n2"}
    (finding,) = found.findings["n1"]
    assert (finding.code, finding.severity) == ("fabric-split", "warn")
    assert f"{UUID}.2" in finding.message
    assert f"{OTHER_UUID}.2" in finding.message
    knows = node(1, linked(), linked(OTHER_UUID), findings=(replace(finding, part="gpus"),))
    assert find([knows, node(2)]).findings.get("n1") is None, "it is told once"


@pytest.mark.parametrize(
    ("fabric", "word"),
    [
        (linked(state="In Progress"), "In Progress"),
        (linked(status="Insufficient Resources"), "Insufficient Resources"),
        (linked(health_summary="Unhealthy"), "Unhealthy"),
        (linked(NO_UUID), "in no domain"),
        (None, "state not known"),
    ],
)
def test_a_card_that_is_not_joined_keeps_its_node_out_and_is_named(
    fabric: contract.GpuFabric | None, word: str
) -> None:
    found = find([node(1, linked(), linked(), fabric), node(2), node(3)])
    member = members(found)["n1"]
    assert (member.joined, member.cards, member.ready) == (2, 3, False)
    assert member.kept_out == (f"1 of 3 cards not joined (card 2: {word})",)
    assert found.domains[0].ready == ("n2", "n3")
    assert [one.code for one in found.findings["n1"]] == ["nvlink-not-ready"]


@pytest.mark.parametrize("fabric", [linked(status=None), linked(health_summary=None), linked(health_summary="N/A")])
def test_words_that_an_old_driver_lacks_keep_nobody_out(fabric: contract.GpuFabric) -> None:
    assert is_joined(fabric)


def test_degraded_cards_are_joined_and_counted() -> None:
    slow = (linked(bandwidth="Degraded"), linked(health_summary="Limited Capacity"), linked())
    member = members(find([node(1, *slow), node(2), node(3)]))["n1"]
    assert (member.joined, member.degraded, member.ready) == (3, 2, True)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        (None, "whether IMEX is up is not known"),
        (contract.Imex(), "whether IMEX is up is not known"),
        (contract.Imex(active=True), "whether IMEX is up is not known"),
        (contract.Imex(active=False, service_state="inactive"), "IMEX is inactive"),
        (imex(*ADDRESSES, state="DEGRADED"), "IMEX is DEGRADED"),
        (replace(imex(*ADDRESSES), listed=False), "its IMEX list does not have the node itself (10.0.0.1)"),
        (imex("10.0.0.2", "10.0.0.3"), "its IMEX list does not have the node itself (10.0.0.1)"),
    ],
)
def test_a_node_without_a_working_imex_is_kept_out(service: contract.Imex | None, reason: str) -> None:
    assert kept_out(node(1, imex=service), node(2), node(3))["n1"] == (reason,)


def test_a_list_that_lacks_the_others_keeps_its_own_node_out() -> None:
    alone = imex("10.0.0.1", local="10.0.0.1")
    assert kept_out(node(1, imex=alone), node(2), node(3)) == {"n1": ("its IMEX list lacks n2, n3",)}


def test_a_node_that_the_others_do_not_list_is_kept_out() -> None:
    two = ADDRESSES[:2]
    nodes = [node(1, imex=imex(*two)), node(2, imex=imex(*two)), node(3)]
    assert kept_out(*nodes) == {"n3": ("the IMEX list of n1, n2 lacks it",)}
    assert find(nodes).domains[0].ready == ("n1", "n2")


def test_a_listed_node_that_is_not_ready_counts_as_not_listed() -> None:
    lost = contract.ImexNode("10.0.0.3", "UNAVAILABLE")
    seen = replace(imex(*ADDRESSES[:2]), nodes=(*imex(*ADDRESSES[:2]).nodes, lost))
    assert set(kept_out(node(1, imex=seen), node(2, imex=seen), node(3))) == {"n3"}


def test_imex_may_use_another_network_and_names_instead_of_addresses() -> None:
    others = [f"172.16.0.{number}" for number in (1, 2, 3)]
    nodes = [node(number, imex=imex(*others, local=others[number - 1])) for number in (1, 2, 3)]
    assert kept_out(*nodes) == {}
    named = contract.Imex(
        domain_state="UP", nodes=tuple(contract.ImexNode(f"N{number}.rack.example") for number in (1, 2, 3))
    )
    assert kept_out(*(node(number, imex=named) for number in (1, 2, 3))) == {}
    hosts = contract.Imex(
        domain_state="UP",
        nodes=tuple(contract.ImexNode(others[number - 1], hostname=f"n{number}") for number in (1, 2, 3)),
    )
    assert kept_out(*(node(number, imex=hosts) for number in (1, 2, 3))) == {}


def test_ready_members_list_one_another_whatever_the_lists() -> None:
    lists = {1: ADDRESSES, 2: ("10.0.0.2", "10.0.0.3"), 3: ("10.0.0.3", "10.0.0.1"), 4: ("10.0.0.4",)}
    nodes = [node(number, imex=imex(*addresses)) for number, addresses in lists.items()]
    ready = find(nodes).domains[0].ready
    for one in ready:
        listed = lists[int(one[1])]
        assert all(f"10.0.0.{other[1]}" in listed for other in ready)
    assert ready == ("n1", "n3")

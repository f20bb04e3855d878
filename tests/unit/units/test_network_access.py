# SPDX-License-Identifier: Apache-2.0
"""Who may reach an engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.node import Node, NodeSettings
from llmgw.nodekit import contract
from tests.support.fleets import profile, with_facts
from tests.unit.units.unit_cases import USER, Case, alone, group, machine, wide

GATEWAY = ("10.9.0.1",)


def allowed(case: Case) -> list[str] | None:
    """The list, in the order of the unit; None where there is no restriction."""
    lines = [line for line in case.unit.text.split("\n") if line.startswith("IPAddress")]
    if not lines:
        return None
    assert lines[0] == "IPAddressDeny=any"
    return lines[1].removeprefix("IPAddressAllow=").split(" ")


def test_nobody_is_kept_out_unless_the_catalog_says_so() -> None:
    case = alone(profile())
    assert allowed(case) is None
    assert "Anyone" not in case.unit.text


def test_the_machine_itself_and_who_was_named_are_let_in() -> None:
    assert allowed(alone(profile(), access=GATEWAY)) == ["localhost", "10.0.0.1", "10.9.0.1"]


def test_networks_are_written_as_systemd_reads_them() -> None:
    access = ("10.8.3.4/16", "fd00::1/64", "10.9.0.1/32")
    assert allowed(alone(profile(), access=access)) == ["localhost", "10.0.0.1", "10.8.0.0/16", "10.9.0.1", "fd00::/64"]


def test_members_reach_one_another() -> None:
    for rank in (0, 1):
        assert allowed(group(wide("vllm"), rank, access=GATEWAY)) == ["localhost", "10.0.0.1", "10.0.0.2", "10.9.0.1"]


def by_interface(name: str, **system: Any) -> Node:
    return machine(name, gpus=8, settings=NodeSettings(socket_interface="ib0"), **system)


def test_members_that_talk_over_an_interface_of_their_own_are_let_in_by_its_addresses() -> None:
    nodes = tuple(
        by_interface(name, interfaces=(contract.NetworkInterface("ib0", (f"192.168.7.{name[1:]}",)),))
        for name in ("n1", "n2")
    )
    found = allowed(group(wide("vllm"), 0, nodes=(nodes[0], nodes[1]), socket_interface="ib0", access=GATEWAY))
    assert found == ["localhost", "10.0.0.1", "10.0.0.2", "10.9.0.1", "192.168.7.1", "192.168.7.2"]


UNKNOWN: dict[str, Case] = {
    "a gateway by name": alone(profile(), access=("gw.example.org",)),
    "a node by name": alone(profile(), replace(machine(), address="n1.example.org"), access=GATEWAY),
    "a peer by name": group(
        wide("vllm"), 0, nodes=(machine("n1"), replace(machine("n2"), address="n2.example.org")), access=GATEWAY
    ),
    "an interface that nobody saw": group(
        wide("vllm"), 0, nodes=(by_interface("n1"), by_interface("n2")), socket_interface="ib0", access=GATEWAY
    ),
    "a user's manager": alone(profile(), machine(settings=USER), access=GATEWAY),
}


@pytest.mark.parametrize("case", UNKNOWN.values(), ids=UNKNOWN)
def test_where_somebody_who_must_come_in_would_be_kept_out_nobody_is(case: Case) -> None:
    assert allowed(case) is None
    assert "\n# Anyone may reach this engine, whatever engines_reachable_from says: " in case.unit.text


def seeing(*addresses: str, before: str = "", node_address: str = "10.0.0.1") -> Case:
    """A member on a node whose interface has these addresses, and whose unit lets these in."""
    interfaces = (contract.NetworkInterface("ib0", addresses),)
    on = replace(by_interface("n1", interfaces=interfaces), address=node_address)
    assert on.facts is not None
    text = f"[Service]\nIPAddressDeny=any\nIPAddressAllow={before}\n" if before else "[Service]\n"
    unit = contract.ObservedUnit("llmgw-chat.0.0.service", replica="chat/0", rank=0, text=text)
    return alone(profile(), with_facts(on, replace(on.facts, units=(unit,))), access=GATEWAY)


def test_facts_name_addresses_and_never_networks() -> None:
    assert allowed(seeing("0.0.0.0/0", "::/0", "192.168.7.1")) == ["localhost", "10.0.0.1", "10.9.0.1", "192.168.7.1"]
    assert allowed(seeing("0.0.0.0/0", "x y", before="")) is None


def test_an_interface_with_ipv4_is_talked_to_by_ipv4() -> None:
    both = "192.168.7.1", "fd00::7", "fe80::1%ib0"
    assert allowed(seeing(*both)) == ["localhost", "10.0.0.1", "10.9.0.1", "192.168.7.1"]
    assert allowed(seeing(*both[1:])) == ["localhost", "10.0.0.1", "10.9.0.1", "fd00::7"]
    six = allowed(seeing(*both, node_address="fd00::1"))
    assert six == ["localhost", "10.9.0.1", "192.168.7.1", "fd00::1", "fd00::7"]


BEFORE = "localhost 10.0.0.1 10.9.0.1 192.168.7.1"


@pytest.mark.parametrize("addresses", [(), ("fe80::1",), ("0.0.0.0/0",)])
def test_who_was_let_in_is_let_in_on_while_an_interface_is_not_seen(addresses: tuple[str, ...]) -> None:
    assert allowed(seeing(*addresses, before=BEFORE)) == BEFORE.split()


def test_whom_the_catalog_names_anew_is_let_in_at_once() -> None:
    assert allowed(seeing(before="localhost 10.0.0.1 192.168.7.1")) == BEFORE.split()


def test_who_is_no_longer_named_is_kept_out_once_the_interface_is_seen() -> None:
    assert allowed(seeing("192.168.7.1", before=f"{BEFORE} 172.16.0.0/12")) == BEFORE.split()

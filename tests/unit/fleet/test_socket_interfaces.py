# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.fleet.socket_interfaces import socket_interface
from llmgw.model.node import Node, NodeSettings
from llmgw.nodekit import contract
from tests.support.fleets import facts, node, with_facts

SEEN = (
    contract.NetworkInterface("bond0", ("10.0.0.1", "fd00::1"), up=True),
    contract.NetworkInterface("ib0", ("10.1.0.1",), up=True),
)


def at(address: str, seen: tuple[contract.NetworkInterface, ...] | None = SEEN) -> Node:
    known = facts("n1", system=contract.System(interfaces=seen))
    return replace(with_facts(node("n1"), known), address=address)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (at("10.0.0.1"), "bond0"),
        (at("10.1.0.1"), "ib0"),
        (at("fd00:0::1"), "bond0"),
        (at("10.0.0.9"), None),
        (at("n1.example"), None),
        (at("10.0.0.1", None), None),
        (at("10.0.0.1", ()), None),
        (at("10.0.0.1", (contract.NetworkInterface("odd,name", ("10.0.0.1",)),)), None),
        (replace(at("10.0.0.1"), facts=None), None),
        (replace(at("10.0.0.1"), settings=NodeSettings(socket_interface="eth7")), "eth7"),
    ],
)
def test_members_are_reached_by_the_interface_that_has_the_nodes_address(one: Node, expected: str | None) -> None:
    assert socket_interface(one) == expected

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.decide import decide
from llmgw.model.node import FleetSnapshot, NodeSettings
from llmgw.model.replica import Catalog, FleetSpec
from tests.support.fleets import catalog, fleet, node, service


def closed(*networks: str) -> Catalog:
    return replace(catalog(service("chat", 1)), fleet=FleetSpec(engines_reachable_from=networks))


def seen(gateway: str | None, **settings: str) -> FleetSnapshot:
    one = replace(node("n1"), settings=NodeSettings(**settings))  # type: ignore[arg-type]
    found = fleet(one)
    return replace(found, gateways=tuple(replace(each, address=gateway) for each in found.gateways))


def test_gateways_and_networks_become_addresses_of_the_unit() -> None:
    decision = decide(closed("10.9.0.0/16", "gateways"), seen("10.0.0.9"))
    (allowed,) = [line for line in decision.units[0].text.splitlines() if line.startswith("IPAddressAllow=")]
    assert {"localhost", "10.0.0.9", "10.9.0.0/16"} < set(allowed.partition("=")[2].split())
    assert decision.plan.notes == ()


@pytest.mark.parametrize(
    ("gateway", "settings", "told"),
    [
        ("gw.example.net", {}, "a gateway's address is a name (gw.example.net)"),
        (None, {}, "a gateway's address is a name, and"),
        ("10.0.0.9", {"scope": "user", "state_dir": "~/.local/state/llmgw"}, "restricts nothing on n1: only scope"),
    ],
)
def test_a_restriction_that_cannot_be_had_is_told(gateway: str | None, settings: dict[str, str], told: str) -> None:
    decision = decide(closed("gateways"), seen(gateway, **settings))
    assert any(told in note for note in decision.plan.notes)
    assert "IPAddressAllow" not in decision.units[0].text


def test_without_a_restriction_nothing_is_told() -> None:
    decision = decide(closed(), seen("gw.example.net"))
    assert decision.plan.notes == ()

# SPDX-License-Identifier: Apache-2.0
"""What there is once a plan is carried out, as people read it."""

from __future__ import annotations

from dataclasses import replace

from llmgw.decide import decide
from llmgw.plan.after_text import after_lines
from tests.support.fleets import catalog, fleet, node, profile, service
from tests.support.world import World


def test_replicas_are_counted_by_service_and_node_and_devices_by_class() -> None:
    blind = replace(node("n3"), devices=None)
    nodes = fleet(node("n1", gpus=4), node("n10", gpus=2, device_class="l40s-45g"), node("n2"), blind)
    wanted = catalog(
        service(replicas=2, profiles=(profile("g", classes=("h200-141g",), gpus=2),)),
        service("other", replicas=1, profiles=(profile("none", classes=("b200-180g",), gpus=1),)),
    )
    assert after_lines(wanted, decide(wanted, nodes).placement, nodes) == [
        "After this plan:",
        "  chat   2 of 2 replicas: 2 on n1",
        "  other  0 of 1 replica",
        "  n1   2 replicas  4/4 h200-141g used",
        "  n10  0 replicas  0/2 l40s-45g used",
        "  n2   0 replicas  no devices",
        "  n3   0 replicas  devices unknown",
        "  h200-141g: 4 of 4 devices used",
        "  l40s-45g: 0 of 2 devices used",
        "  not counted are the devices of n3: they are unknown",
    ]


def test_what_goes_on_running_without_a_place_has_its_devices() -> None:
    wanted = catalog(service(replicas=1, profiles=(profile("g", classes=("h200-141g",), gpus=1),)))
    world = World(fleet(node("n1", gpus=1)))
    world.apply(wanted)
    drained = replace(world.fleet, nodes=tuple(replace(one, drained=True) for one in world.fleet.nodes))
    placement = decide(wanted, drained).placement
    assert placement.unplaced[0].runs_on == ("n1",)
    assert after_lines(wanted, placement, drained) == [
        "After this plan:",
        "  chat  0 of 1 replica",
        "  n1  1 replica  1/1 h200-141g used",
        "  h200-141g: 1 of 1 device used",
    ]


def test_nothing_at_all_is_nothing() -> None:
    assert after_lines(catalog(), decide(catalog(), fleet()).placement, fleet()) == ["After this plan:"]

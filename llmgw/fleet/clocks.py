# SPDX-License-Identifier: Apache-2.0
"""Facts of a node whose clock is wrong, told by the controller's clock, with which ages are compared. Pure."""

from __future__ import annotations

from dataclasses import replace

from llmgw.nodekit import contract

AHEAD_S = 5.0
BEHIND_S = 120.0
"""A sweep stores what all its hosts answered at its end, so that facts may be as old as a sweep takes."""


def on_our_clock(facts: contract.NodeFacts, received_at: float) -> contract.NodeFacts:
    """The facts as they are where the node's clock is right; else with its times moved, and the finding `clock-skew`.

    `received_at` is the controller's time in Unix seconds. `system.clock` stays what the node said.
    """
    if facts.collected_at is None:
        return facts
    offset = received_at - facts.collected_at
    if -AHEAD_S <= offset <= BEHIND_S:
        return facts
    probes = tuple(one if one.at is None else replace(one, at=one.at + offset) for one in facts.probes)
    direction = "behind" if offset > 0 else "ahead of"
    finding = contract.Finding(
        code="clock-skew",
        severity="warn",
        message=f"the clock of this node is {abs(offset):.0f} s {direction} the controller's",
        remedy="Set the clocks by NTP (timedatectl set-ntp true) on both.",
        part="system",
    )
    return replace(facts, collected_at=received_at, probes=probes, findings=(*facts.findings, finding))

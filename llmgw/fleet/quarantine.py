# SPDX-License-Identifier: Apache-2.0
"""What the marks of quarantined devices come to as findings (P1b). Pure.

When it was is told as a date and not as an age: findings stand in plans, and a plan is the same a minute later.
"""

from __future__ import annotations

from datetime import UTC, datetime

from llmgw.nodekit import contract

CODE, ABSENT = "quarantined", "quarantined-absent"
_LATEST = 4_000_000_000.0
"""Seconds that calendars can tell of, whatever a file on a node says."""


def mark_findings(facts: contract.NodeFacts, node: str | None = None) -> tuple[contract.Finding, ...]:
    """One finding for each mark, sorted by device: blocking where the device is on the node, for information where it
    is not. `node` is for the command that clears it.

    Where the cards are unknown, every device may be there.
    """
    names = names_of(facts)
    marks = sorted(facts.quarantined or (), key=lambda mark: mark.device)
    return tuple(_finding(mark, names, node or "NODE") for mark in marks)


def names_of(facts: contract.NodeFacts) -> dict[str, str] | None:
    """UUID to the name that people know (`2`, `2/mig1`) of every card and instance; None when the cards are unknown."""
    if facts.gpus is None:
        return None
    cards = {gpu.uuid: str(gpu.index) for gpu in facts.gpus if gpu.uuid is not None}
    instances = {one.uuid: f"{gpu.index}/mig{one.index}" for gpu in facts.gpus for one in gpu.mig_instances if one.uuid}
    return cards | instances


def since(mark: contract.QuarantinedDevice) -> str:
    """` since 2026-11-30 14:03 UTC`, or nothing where it is not told."""
    if mark.since is None or not 0 < mark.since < _LATEST:
        return ""
    return f" since {datetime.fromtimestamp(mark.since, UTC):%Y-%m-%d %H:%M} UTC"


def _finding(mark: contract.QuarantinedDevice, names: dict[str, str] | None, node: str) -> contract.Finding:
    why = mark.message or mark.code or "its mark does not tell why"
    if names is None or mark.device in names:
        name = mark.device if names is None else names[mark.device]
        return contract.Finding(
            CODE,
            "block",
            f"quarantined{since(mark)}: {why}",
            f"`llmgw nodes clear {node} {name}` after it was mended",
            mark.device,
        )
    return contract.Finding(
        ABSENT,
        "info",
        f"{mark.device} is quarantined{since(mark)} and the node does not have it now: {why}",
        f"`llmgw nodes clear {node} {mark.device}` if it was replaced; if it comes back, the mark keeps it out",
        mark.device,
    )

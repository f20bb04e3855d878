# SPDX-License-Identifier: Apache-2.0
"""One unit of a node in a line: its state, since when, how long it may last, how far it is, and why (R6)."""

from __future__ import annotations

from llmgw.cli.cells import age, or_dash, plural
from llmgw.nodekit import contract


def unit_line(unit: contract.ObservedUnit, at: float | None) -> str:
    """`llmgw-chat.0.0.service: loading for 40s, 33 %, 9m left, port 18000: loading weights, 50 %`.

    `at`: when the facts were taken (Unix seconds), for what is said of time. Without a state systemd's words are shown.
    """
    parts = [_state(unit, at)]
    if unit.progress is not None and unit.state != "ready":
        parts.append(f"{unit.progress * 100:.0f} %")
    parts += _left(unit, at)
    parts.append(f"port {or_dash(unit.port)}")
    if unit.restarts:
        parts.append(plural(unit.restarts, "restart"))
    why = f": {unit.reason}" if unit.reason else ""
    return f"{unit.name}: {', '.join(parts)}{why}"


def _state(unit: contract.ObservedUnit, at: float | None) -> str:
    state = unit.state or f"{or_dash(unit.active_state)}/{or_dash(unit.sub_state)}"
    if unit.state is None or unit.state_since is None or at is None:
        return state
    return f"{state} for {age(max(0.0, at - unit.state_since))}"


def _left(unit: contract.ObservedUnit, at: float | None) -> list[str]:
    """How long the state may still last; it is over when the deadline has passed."""
    if unit.deadline is None or at is None:
        return []
    left = unit.deadline - at
    return [f"{age(left)} left"] if left >= 0 else [f"{age(-left)} over its time"]

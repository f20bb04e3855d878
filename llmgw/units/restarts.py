# SPDX-License-Identifier: Apache-2.0
"""How a unit ends and comes back: stop deadline, restarts with back-off, and when to give up (R5)."""

from __future__ import annotations

import math

from llmgw.units.member_unit import MemberUnit

STOP_MARGIN_S = 10
RESTART_S = 5
RESTART_MAX_S = 120
RESTART_STEPS = 5
START_LIMIT = 5
START_LIMIT_WINDOW_S = 600


def stop_timeout_s(unit: MemberUnit) -> int:
    """Seconds from SIGTERM until systemd kills what is left.

    The others of a group end after rank 0 has drained, so they are given longer than it.
    """
    return unit.drain_s + STOP_MARGIN_S * (2 if unit.member.rank else 1)


def start_limit(unit: MemberUnit) -> list[str]:
    """Lines of [Unit]: after so many starts in that time the unit is failed.

    The time holds as many loads that end at their deadline: else an engine that dies late in loading tries for ever.
    """
    window_s = max(START_LIMIT_WINDOW_S, math.ceil(START_LIMIT * unit.launch.readiness.ready_timeout_s))
    return [f"StartLimitIntervalSec={window_s}", f"StartLimitBurst={START_LIMIT}"]


def restarts(unit: MemberUnit) -> list[str]:
    """Lines of [Service]. Only the main process gets SIGTERM: signalled workers would end the drain."""
    return [
        "KillMode=mixed",
        f"TimeoutStopSec={stop_timeout_s(unit)}",
        "Restart=on-failure",
        f"RestartSec={RESTART_S}",
        f"RestartSteps={RESTART_STEPS}",
        f"RestartMaxDelaySec={RESTART_MAX_S}",
    ]

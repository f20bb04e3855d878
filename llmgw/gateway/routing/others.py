# SPDX-License-Identifier: Apache-2.0
"""What an engine reports beyond the requests that this gateway knows of, and priors for what it does not (G4)."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.gateway.endpoints.engine_load import EngineLoad

KV_PRESSURE_S = 0.15
"""Seconds at half a cache: k/(1-k) grows without bound as an engine comes near to evicting what runs."""
FULLEST_KV = 0.999
UNREPORTED_KV = 0.5
UNREPORTED_RUNNING = 1.0
"""Requests of others."""
UNREPORTED_QUEUE_S = 0.02
"""Not requests: on slow hardware one prompt of others takes so long that no engine without a report would get any."""


@dataclass(frozen=True, slots=True)
class Others:
    """Requests in an engine that are neither this gateway's nor those of its other workers, and what cannot be told
    apart. `waiting`, `running`: requests. `queue_s`, `kv_s`: seconds for a queue that is not reported, and for the
    cache. `reported`: whether there was a report.
    """

    running: float
    waiting: float
    queue_s: float
    kv_s: float
    reported: bool


def others(load: EngineLoad | None, own: int) -> Others:
    """What to reckon with where the engine reports `load` and `own` of its requests are known.

    Each part that is None costs more than it would at an idle engine, as silence must not look idle.
    """
    if load is None:
        return UNREPORTED
    running, waiting = load.running, load.waiting
    if running is not None and waiting is not None:
        # Which of its own wait is not known; taking all others for waiting ones first errs on the safe side.
        foreign = max(0.0, running + waiting - own)
        waits = min(foreign, waiting)
        return Others(foreign - waits, waits, 0.0, _kv_s(load.kv_usage), reported=True)
    return Others(
        UNREPORTED_RUNNING if running is None else max(0.0, running - own),
        0.0 if waiting is None else max(0.0, waiting - own),
        UNREPORTED_QUEUE_S if waiting is None else 0.0,
        _kv_s(load.kv_usage),
        reported=True,
    )


def _kv_s(usage: float | None) -> float:
    share = UNREPORTED_KV if usage is None else min(FULLEST_KV, max(0.0, usage))
    return KV_PRESSURE_S * share / (1.0 - share)


UNREPORTED = Others(UNREPORTED_RUNNING, 0.0, UNREPORTED_QUEUE_S, _kv_s(None), reported=False)

# SPDX-License-Identifier: Apache-2.0
"""What each of llmgw's features costs: it is turned off alone, and all of them together.

Metrics, deadlines, retries, breakers and the checks of bodies have no switch: they are in every figure.
"""

from __future__ import annotations

from dataclasses import replace

from tests.bench.gateway_bundle import Features
from tests.bench.gateway_compare import UNARY_CONNECTIONS
from tests.bench.gateway_load import body
from tests.bench.gateway_measure import PER_REQUEST, Row, Run, each_target, measured, say, unary_engines
from tests.bench.gateway_targets import llmgw

ALL = Features()
ALL_ON = "all on"
ENDPOINTS = 8
OFF = {
    ALL_ON: ALL,
    "no keys": replace(ALL, keys=False),
    "no limits of keys": replace(ALL, key_limits=False),
    "no admission": replace(ALL, admission=False),
    "round-robin": replace(ALL, policy="round-robin"),
    "no access log": replace(ALL, access_log=False),
    "no explain": replace(ALL, explain_share=0.0),
    "all off": Features(
        keys=False, key_limits=False, admission=False, policy="round-robin", access_log=False, explain_share=0.0
    ),
}


def features(run: Run) -> list[Row]:
    """Rows of llmgw in front of several endpoints, each round going through all settings."""
    rows: list[Row] = []
    chosen = {name: OFF[name] for name in (ALL_ON, "all off")} if run.quick else OFF
    with unary_engines(run, ENDPOINTS) as engines:
        for number in range(run.rounds):
            for name, one in each_target(run, engines, [llmgw(how, name) for name, how in chosen.items()]):
                seen, per = measured(run, one, body(), UNARY_CONNECTIONS, run.seconds)
                rows.append(say(mode="features", target=name, round=number, **seen, **{PER_REQUEST: per}))
    return rows

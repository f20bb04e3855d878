# SPDX-License-Identifier: Apache-2.0
"""Two worker processes against one: requests a second, CPU a request, and how evenly the kernel spreads connections."""

from __future__ import annotations

import os

from tests.bench.gateway_bundle import Features
from tests.bench.gateway_load import body
from tests.bench.gateway_measure import PER_REQUEST, Row, Run, measured, say, unary_engines
from tests.bench.gateway_process import cpu_s
from tests.bench.gateway_targets import NotReadyError, llmgw, started

CONNECTIONS = 64
BUSY_S = 0.1
"""Below this a process only waits: it is no worker."""


def workers(run: Run) -> list[Row]:
    """A row a number of workers. With fewer than four processors the load competes with the second worker, and
    `rps_by_cpu`, what the CPU time of a request allows as many processors as there are workers, tells more than `rps`.
    """
    rows: list[Row] = []
    enough = (os.cpu_count() or 1) >= 4  # two for the gateway, one for the engine, one for the load
    with unary_engines(run, 2) as engines:
        for count in (1, 2):
            cpus = "0" if count == 1 else "0,2" if enough else "0,1"
            target = llmgw(Features(workers=count), f"llmgw {count}")
            try:
                with started(target, run.folder, engines, cpus) as one:
                    before = {pid: cpu_s(pid) for pid in one.program.family()}
                    seen, per = measured(run, one, body(), CONNECTIONS, run.seconds, cpus="3" if enough else "1")
                    used = sorted(cpu_s(pid) - before.get(pid, 0.0) for pid in one.program.family())
            except NotReadyError as error:
                say(target=target.name, error=str(error))
                continue
            busy = [round(seconds, 2) for seconds in used if seconds > BUSY_S][-count:]
            row = {"mode": "workers", "target": "llmgw", "workers": count, **seen, PER_REQUEST: per}
            rows.append(say(**row, rps_by_cpu=round(count * 1e6 / per), cpu_s_each=busy, own_cpus=enough))
    return rows

# SPDX-License-Identifier: Apache-2.0
"""Mixed load on one gateway for a long time, while engines die, hang and restart and routes change every second.

    python -m tests.bench.soak [--minutes 30] [--clients 24] [--reload 1.0] [--workers 1] [--seed 1]

Clients send unary and streaming requests of all sizes, sized and in chunks, under names and aliases, and some leave.
Every answer is checked against its request: an engine answers with a digest of the prompt. Prints a JSON line every
tenth of the way, then what failed by kind, and last the verdict. Exits with 1 where

- an answer was wrong, or a client waited for a minute;
- a request failed before its answer began although an engine of its service was up and routed all that time;
- an answer was cut or late although no engine of its service had been disturbed;
- something of the service that is left in peace failed;
- something is in flight when nobody asks any more.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from llmgw.model.replica import GatewaySpec
from tests.bench.soak_clients import Outcome, SoakClient
from tests.bench.soak_fleet import SERVICES, Fleet
from tests.bench.trial_gateway import TrialGateway

SPEC = {"probe_interval_s": 1.0, "first_byte_timeout_s": 5.0, "idle_timeout_s": 5.0, "connect_timeout_s": 1.0}
BEGUN = {"cut"}
SHOWN = 20
LOOK_BACK_S = 6.0
"""An engine that hung answers its deadline later."""


def complaint(outcome: Outcome, fleet: Fleet) -> str | None:
    """Why a failure is one that must not be, or None."""
    members = fleet.of(outcome.service)
    if outcome.kind in {"wrong", "hang"}:
        return outcome.kind
    troubled = [one for one in members if one.troubled(outcome.began - LOOK_BACK_S, outcome.ended)]
    if outcome.kind in BEGUN:
        return None if troubled else "an answer was cut although its engines were left in peace"
    if outcome.status == 504 and troubled:
        return None
    able = [one.name for one in members if one.could_answer(outcome.began, outcome.ended)]
    return f"failed although {', '.join(able)} could answer" if able else None


def row(gateway: TrialGateway, clients: list[SoakClient], seconds: float) -> dict[str, object]:
    """Where the run is."""
    counts: collections.Counter[str] = collections.Counter()
    for client in clients:
        counts.update(dict(client.counts))
    memory, cpu = gateway.memory_mib(), gateway.cpu_s()
    done: dict[str, object] = {"seconds": round(seconds), "requests": sum(counts.values()), "rss_mib": round(memory, 1)}
    return done | {"cpu_s": round(cpu, 1)} | dict(sorted(counts.items()))


def judge(clients: list[SoakClient], fleet: Fleet) -> int:
    """Prints the failures that must not be. Returns how many."""
    bad = 0
    for outcome in sorted((one for client in clients for one in client.failures), key=lambda one: one.began):
        why = complaint(outcome, fleet)
        if why is None:
            continue
        bad += 1
        if bad <= SHOWN:
            took = round(outcome.ended - outcome.began, 2)
            shown = {"service": outcome.service, "outcome": outcome.name, "took_s": took, "why": why}
            print(json.dumps(shown), flush=True)  # noqa: T201 - its result
    return bad


def main() -> None:
    """Runs, prints, and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--reload", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    spec = GatewaySpec(workers=options.workers, **SPEC)  # type: ignore[arg-type]
    with (
        tempfile.TemporaryDirectory() as folder,
        Fleet(options.seed) as fleet,
        TrialGateway(Path(folder), fleet.routes(), spec) as gateway,
    ):
        gateway.await_ready()
        stop = threading.Event()
        clients = [SoakClient(number, gateway.port, stop, tuple(SERVICES)) for number in range(options.clients)]
        began = time.monotonic()
        for client in clients:
            client.start()
        time.sleep(1.0)
        fleet.trouble(gateway, options.reload)
        for tenth in range(1, 11):
            time.sleep(max(0.0, began + options.minutes * 6 * tenth - time.monotonic()))
            print(json.dumps(row(gateway, clients, time.monotonic() - began)), flush=True)  # noqa: T201 - its result
        fleet.calm()
        stop.set()
        for client in clients:
            client.join()
        gateway.await_nothing_in_flight()
        gateway.await_ready()
        bad = judge(clients, fleet)
        log = gateway.log.read_text()
        verdict = row(gateway, clients, time.monotonic() - began) | fleet.counts
        tracebacks = log.count("Traceback")
    print(json.dumps(verdict | {"must_not_be": bad, "tracebacks": tracebacks}), flush=True)  # noqa: T201 - its result
    sys.exit(1 if bad or tracebacks else 0)


if __name__ == "__main__":
    main()

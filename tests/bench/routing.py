# SPDX-License-Identifier: Apache-2.0
"""How routing pays: llmgw with each of its policies, and sglang-router, in front of the same simulated fleet.

    python -m tests.bench.routing [--targets cost,sglang-router,...] [--seconds 30] [--rate 20] [--seeds 1,2] [--quick]
                                  [--peers FOLDER] [--into docs/explanation/routing.md]

The fleet is a simulator (`routing_fleet`): eight engines on three kinds of cards, with prefix caches, batches and
queues. Nothing about it is known to a gateway but what a real engine tells. All targets get the same conversations
(`routing_traffic`). Prints one JSON line a target and seed on stdout, and a markdown table over all seeds on stderr.
`late` figures say whether this machine kept up: tens of milliseconds make the small times doubtful.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.gateway_bundle import Features
from tests.bench.gateway_measure import say
from tests.bench.gateway_process import ROOT, environment, free_ports, running
from tests.bench.gateway_targets import SGLANG, NotReadyError, Target, llmgw, router, started
from tests.bench.routing_clients import PATIENCE_S
from tests.bench.routing_engine import FLEET
from tests.bench.routing_report import Row, explained, put_between, report, summed

ANY_CPU = f"0-{(os.cpu_count() or 1) - 1}"
"""Nobody is short of CPU time here, so the kernel may place everybody as it likes."""
BLIND = "cost-blind"
"""The cost policy where nothing is known of the cards: it has to learn from answers that they are unlike."""
BALANCED = "sglang-router-balanced"
BALANCE = ("--balance-abs-threshold", "4", "--balance-rel-threshold", "1.1")
"""By default it looks at load only where one engine has 64 requests more than another, which this fleet rarely sees."""
POLICIES = ("cost", "session", "least-inflight", "round-robin", "random")
ROUTERS = (SGLANG, BALANCED)
KNOWN = (*POLICIES, BLIND, *ROUTERS)


def target(name: str, peers: Path) -> Target:
    """What is measured under a name."""
    if name == SGLANG:
        return router(SGLANG, peers)
    if name == BALANCED:
        return replace(router(SGLANG, peers, *BALANCE), name=BALANCED)
    if name == BLIND:
        return llmgw(Features(policy="cost"), BLIND)
    return llmgw(Features(policy=name), name, [hardware.device_class for hardware in FLEET])


def version(peers: Path) -> str:
    """Name and version of the router in the environment `peers`."""
    found = sorted(peers.glob("lib/python*/site-packages/sglang_router-*.dist-info"))
    return f"{SGLANG} {found[-1].name.split('-')[1].removesuffix('.dist')}" if found else SGLANG


def converse(port: int, seed: int, seconds: float, rate: float) -> list[Row]:
    """What came of each question of one run."""
    words = [str(port), str(seed), str(seconds), str(rate)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.routing_clients", *words],
        env=environment(),
        check=True,
        stdout=subprocess.PIPE,
        timeout=seconds * 3 + 10 * PATIENCE_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def measure(folder: Path, one: Target, seed: int, seconds: float, rate: float) -> list[Row]:
    """One run in front of a fleet that has seen nothing. Raises NotReadyError."""
    ports = free_ports(len(FLEET))
    fleet = [sys.executable, "-m", "tests.bench.routing_fleet", *map(str, ports)]
    with (folder / "fleet.log").open("ab") as log, running(ANY_CPU, fleet, log):
        with started(one, folder, ports, ANY_CPU) as gateway:
            outcomes = converse(gateway.port, seed, seconds, rate)
        late = max(simulator_late_ms(port) for port in ports)
        say(seed=seed, **summed(one.name, outcomes, seconds), simulator_late_mean_ms=round(late, 2))
    return outcomes


def simulator_late_ms(port: int) -> float:
    """How late the simulator noticed the end of a step, on average."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return 1000 * next(float(line.split()[-1]) for line in lines if line.startswith("sim:late_seconds_mean"))


def over_seeds(name: str, runs: Sequence[list[Row]], seconds: float) -> Row:
    """One row over all runs of a target."""
    return summed(name, [outcome for run in runs for outcome in run], seconds * len(runs))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(KNOWN))
    parser.add_argument("--peers", type=Path, default=ROOT / ".cache/gateway-peers")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rate", type=float, default=20.0, help="conversations a second, on average")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--into", type=Path, help="a page whose part between the marks becomes the new table")
    parser.add_argument("--quick", action="store_true", help="one seed of 10 s: whether it runs, not how it compares")
    options = parser.parse_args()
    seconds: float = options.seconds or (10.0 if options.quick else 30.0)
    seeds: list[int] = options.seeds or ([1] if options.quick else [1, 2])
    targets = []
    for name in options.targets:
        if name in ROUTERS and not (options.peers / "bin/python").exists():
            sys.stderr.write(
                f"note: not measured: {name}: not in {options.peers} (scripts/gateway-peers installs it)\n"
            )
        elif name in KNOWN:
            targets.append(target(name, options.peers))
        else:
            parser.error(f"unknown target {name}; known: {', '.join(KNOWN)}")
    runs: dict[str, list[list[Row]]] = {one.name: [] for one in targets}
    with tempfile.TemporaryDirectory(prefix="bench-routing-") as folder:
        for seed in seeds:
            for one in targets:
                try:
                    runs[one.name].append(measure(Path(folder), one, seed, seconds, options.rate))
                except NotReadyError as error:
                    say(target=one.name, error=str(error))
    rows = [over_seeds(name, found, seconds) for name, found in runs.items() if found]
    sys.stderr.write("\n".join(["", *report(rows)]) + "\n")
    if options.into is not None:
        lines = explained(rows, seconds, options.rate, seeds, version(options.peers))
        options.into.write_text(put_between(options.into.read_text(), lines))


if __name__ == "__main__":
    main()

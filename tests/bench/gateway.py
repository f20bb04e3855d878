# SPDX-License-Identifier: Apache-2.0
"""What llmgw costs beside sglang-router, vllm-router and nginx, in one run on one machine.

    python -m tests.bench.gateway [--only compare,sizes,endpoints,streams,features,workers] [--seconds 6] [--rounds 2]
                                  [--targets llmgw,nginx,sglang-router,vllm-router] [--quick] [--peers FOLDER]

Each target runs alone on CPU 0; the engine and the load share CPU 1. llmgw runs with all that it has on by default, and
with keys, limits, admission and an access log. `compare`: a 2 KB chat request with a small answer over 32 connections;
100 events, 10 ms apart, over 100 connections. Prints one JSON line a measurement on stdout, and tables of medians,
ratios to sglang-router and the goals on stderr. Other work on the machine raises all figures; ratios hold better.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench.gateway_compare import compare
from tests.bench.gateway_endpoints import endpoints
from tests.bench.gateway_features import features
from tests.bench.gateway_measure import Row, Run
from tests.bench.gateway_process import ROOT, missing
from tests.bench.gateway_report import report
from tests.bench.gateway_sizes import sizes
from tests.bench.gateway_streams import streams
from tests.bench.gateway_targets import LLMGW, NGINX, SGLANG, VLLM, found
from tests.bench.gateway_workers import workers

SECTIONS: dict[str, Callable[[Run], list[Row]]] = {
    "compare": compare,
    "sizes": sizes,
    "endpoints": endpoints,
    "streams": streams,
    "features": features,
    "workers": workers,
}
TARGETS = (LLMGW, NGINX, SGLANG, VLLM)
LEAST_CPUS = 2
QUICK_S, QUICK_TARGETS = 2.0, (LLMGW, NGINX, SGLANG)


def names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    """A reader of names with commas between them."""

    def read(text: str) -> list[str]:
        wanted = text.split(",")
        unknown = sorted(set(wanted) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return wanted

    return read


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names(tuple(SECTIONS)), default=list(SECTIONS))
    parser.add_argument("--targets", type=names(TARGETS))
    parser.add_argument("--peers", type=Path, default=ROOT / ".cache/gateway-peers")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="a look in three minutes; too short to quote")
    options = parser.parse_args()
    if absent := missing("taskset", "wrk", "nginx"):
        sys.exit(f"error: not on this machine: {', '.join(absent)} (`make bench-gateway` installs them as root)")
    if (os.cpu_count() or 1) < LEAST_CPUS:
        sys.exit(
            f"error: {LEAST_CPUS} processors are needed: one for what is measured, one for the engine and the load"
        )
    quick: bool = options.quick
    able, unable = found(options.peers, options.targets or (QUICK_TARGETS if quick else TARGETS))
    for line in unable:
        sys.stderr.write(f"note: not measured: {line}\n")
    seconds = options.seconds or (QUICK_S if quick else 6.0)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder:
        run = Run(Path(folder), able, seconds, options.rounds or (1 if quick else 2), quick)
        for name, section in SECTIONS.items():
            if name in options.only:
                rows += section(run)
    sys.stderr.write("\n".join(report(rows)) + "\n")


if __name__ == "__main__":
    main()

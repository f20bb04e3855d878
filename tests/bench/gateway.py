# SPDX-License-Identifier: Apache-2.0
"""CPU time that the gateway spends on a request and on a streamed chunk, beside plain baselines in the same run.

    python -m tests.bench.gateway [--seconds 4] [--rounds 2]

Each target runs alone on CPU 0; engine and load share CPU 1. Unary: a 2 KB chat request, a small answer, 32
connections. Stream: 100 events, 10 ms apart, 100 connections. Prints one JSON line a target and round, then the medians
and their ratio to `floor` (uvicorn answering by itself). A machine that does other work shows higher numbers; ratios
hold better.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmgw.routes.codec import dump_bundle
from tests.bench.gateway_engine import CHUNKS
from tests.bench.gateway_load import request
from tests.gateway.harness import bundle, endpoint, environment, route

TARGETS = ("floor", "llmgw", "proxy")
CONNECTIONS = {"unary": 32, "stream": 100}
START_S = 20.0
WARM_UP_S = 1.0


class At:
    """Where the engine is, for the bundle."""

    host, model = "127.0.0.1", "m"

    def __init__(self, port: int) -> None:
        self.port = port


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(cpu: int, *words: str) -> Iterator[int]:
    """A Python program pinned to one CPU; its process id."""
    command = ["taskset", "-c", str(cpu), sys.executable, *words]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def await_answer(port: int) -> None:
    """Until a chat request is answered with 200."""
    head, _, body = request(stream=False).partition(b"\r\n\r\n")
    del head
    ask = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body, {"content-type": "application/json"}
    )
    end = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(ask, timeout=5):  # noqa: S310 - a fixed http URL
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, mode: str, seconds: float) -> dict[str, float]:
    """One run of the load program."""
    words = ["-m", "tests.bench.gateway_load", str(port), str(CONNECTIONS[mode]), str(seconds), mode]
    done = subprocess.run(
        ["taskset", "-c", "1", sys.executable, *words],
        env=environment(),
        check=True,
        capture_output=True,
        timeout=seconds + 60,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def words_for(target: str, folder: Path, port: int, engine_port: int) -> list[str]:
    """The command line of a target."""
    if target != "llmgw":
        return ["-m", "tests.bench.gateway_plain", target, str(port), str(engine_port)]
    path = folder / "bundle.json"
    path.write_text(dump_bundle(bundle(1, [route([endpoint(At(engine_port))])])))
    listen = ["--listen", f"127.0.0.1:{port}", "--admin-listen", "127.0.0.1:0"]
    return ["-m", "llmgw", "gateway", "--bundle", str(path), *listen]


def measure(target: str, mode: str, folder: Path, engine_port: int, seconds: float) -> dict[str, object]:
    """One row of the result."""
    port = free_port()
    with running(0, *words_for(target, folder, port, engine_port)) as pid:
        await_answer(port)
        load(port, mode, WARM_UP_S)
        before = cpu_seconds(pid)
        result = load(port, mode, seconds)
        used = cpu_seconds(pid) - before
    units = result["requests"] * (1 if mode == "unary" else CHUNKS + 1)
    per = "cpu_us_per_request" if mode == "unary" else "cpu_us_per_chunk"
    rate = round(result["requests"] / seconds)
    return {"mode": mode, "target": target, **result, "requests_per_s": rate, per: round(used / units * 1e6, 1)}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for mode in CONNECTIONS:
            rows = []
            engine_port = free_port()
            with running(1, "-m", "tests.bench.gateway_engine", str(engine_port)):
                for _round in range(options.rounds):
                    for target in TARGETS:
                        rows.append(measure(target, mode, Path(folder), engine_port, options.seconds))
                        print(json.dumps(rows[-1]), flush=True)  # noqa: T201 - its result
            per = "cpu_us_per_request" if mode == "unary" else "cpu_us_per_chunk"
            medians = {name: statistics.median(row[per] for row in rows if row["target"] == name) for name in TARGETS}  # type: ignore[type-var]
            ratios = {name: round(value / medians["floor"], 2) for name, value in medians.items()}  # type: ignore[operator]
            print(json.dumps({"mode": mode, per: medians, "ratio_to_floor": ratios}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

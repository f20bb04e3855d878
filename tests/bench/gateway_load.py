# SPDX-License-Identifier: Apache-2.0
"""Load on one URL by wrk: each connection sends the next request as soon as the last one is answered."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench.gateway_bundle import KEY, MODEL
from tests.bench.gateway_process import OTHER_CPU

PATH = "/v1/chat/completions"
SENTENCE = "The quick brown fox jumps over the lazy dog. "
USUAL_BYTES = 40 * len(SENTENCE)
UNITS_MS = (("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 6e4))
REQUEST_TIMEOUT_S = 15


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk saw. Latencies in milliseconds. `bad`: answers that were not 2xx, and failed connections."""

    requests: int
    rps: float
    p50_ms: float
    p99_ms: float
    bad: int


def body(*, stream: bool = False, text_bytes: int = USUAL_BYTES) -> bytes:
    """A chat request whose question has `text_bytes` bytes. Its last bytes say whether a stream is asked for."""
    text = (SENTENCE * (text_bytes // len(SENTENCE) + 1))[:text_bytes]
    question = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": text}]
    return json.dumps({"model": MODEL, "messages": question, "max_tokens": 16, "stream": stream}).encode()


def drive(
    folder: Path, port: int, asked: bytes, connections: int, seconds: float, *, cpus: str = OTHER_CPU, threads: int = 1
) -> Load:
    """One run of wrk with the key `k`; `asked` is the body of every request."""
    (folder / "body").write_bytes(asked)
    script = folder / "post.lua"
    script.write_text(
        'wrk.method = "POST"\n'
        'wrk.headers["Content-Type"] = "application/json"\n'
        f'wrk.headers["Authorization"] = "Bearer {KEY}"\n'
        f'wrk.body = io.open("{folder}/body", "rb"):read("*a")\n'
    )
    words = [f"-t{threads}", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "--latency", "-s", str(script)]
    done = subprocess.run(
        ["taskset", "-c", cpus, "wrk", *words, "--timeout", f"{REQUEST_TIMEOUT_S}s", f"http://127.0.0.1:{port}{PATH}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
    )
    return read(done.stdout)


def read(report: str) -> Load:
    """What wrk printed."""
    found: dict[str, float] = {"requests": 0, "rps": 0, "50%": 0, "99%": 0}
    bad = 0
    for line in report.splitlines():
        words = line.split()
        if "requests in" in line:
            found["requests"] = int(words[0])
        elif line.startswith("Requests/sec"):
            found["rps"] = float(words[1])
        elif words[:1] in (["50%"], ["99%"]):
            found[words[0]] = milliseconds(words[1])
        elif "Non-2xx" in line:
            bad += int(words[-1])
        elif "Socket errors" in line:
            bad += sum(int(word.strip(",")) for word in words if word.strip(",").isdigit())
    return Load(int(found["requests"]), round(found["rps"], 2), found["50%"], found["99%"], bad)


def milliseconds(text: str) -> float:
    """A duration as wrk writes it: 873.00us, 1.20ms, 2.01s, 1.10m."""
    for unit, factor in UNITS_MS:
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "").isdigit():
            return round(float(number) * factor, 3)
    raise ValueError(f"wrk wrote a duration that is none: {text!r}")

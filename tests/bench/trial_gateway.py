# SPDX-License-Identifier: Apache-2.0
"""A gateway as a process of its own under trial: its bundle, its admin API, its memory and CPU time."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from llmgw.model.replica import GatewaySpec
from llmgw.model.route import Route
from llmgw.routes.codec import dump_bundle
from tests.bench.trial_engine import MODEL
from tests.gateway.harness import bundle, environment, write

START_S = 30.0


class At:
    """Where an engine is, for the bundle."""

    host, model = "127.0.0.1", MODEL

    def __init__(self, port: int) -> None:
        self.port = port


class TrialGateway:
    """Started with a first set of routes; use as a context manager. `log` has what it wrote."""

    def __init__(self, folder: Path, routes: Iterable[Route], spec: GatewaySpec) -> None:
        self._folder = folder
        self._spec = spec
        self.generation = 0
        self.log = folder / "gateway.log"
        self.publish(routes)

    def __enter__(self) -> Self:
        ready = self._folder / "ready.json"
        words = ["--bundle", str(self._folder / "bundle.json"), "--ready-file", str(ready)]
        listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "llmgw", "gateway", *words, *listen], env=environment(), stderr=log
            )
        await_true(lambda: ready.exists() or self._process.poll() is not None, "the gateway is ready")
        if not ready.exists():
            raise RuntimeError(self.log.read_text()[-2000:])
        found = json.loads(ready.read_text())
        self.url, self.admin_url, self.pid = found["url"], found["admin_url"], found["pid"]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def port(self) -> int:
        """Of the data listener."""
        return int(self.url.rpartition(":")[2])

    def publish(self, routes: Iterable[Route]) -> None:
        """The next generation of routes."""
        self.generation += 1
        write(self._folder / "bundle.json", dump_bundle(bundle(self.generation, routes, gateway=self._spec)))

    def get(self, path: str) -> Any:
        """A document of the admin API."""
        with urllib.request.urlopen(self.admin_url + path, timeout=10) as answer:  # noqa: S310 - a fixed http URL
            return json.loads(answer.read())

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics: `name{labels}` to value."""
        with urllib.request.urlopen(self.admin_url + "/metrics", timeout=10) as answer:  # noqa: S310 - a fixed http URL
            lines = (line.rpartition(" ") for line in answer.read().decode().splitlines() if line[:1] != "#")
        return {name: float(value) for name, _space, value in lines}

    def states(self) -> dict[str, str]:
        """Of every endpoint."""
        return {one["id"]: one["state"] for one in self.get("/api/v1/endpoints")["endpoints"]}

    def await_ready(self) -> None:
        """Until every endpoint is ready, or drains."""
        await_true(lambda: set(self.states().values()) <= {"ready", "draining"}, "all endpoints are ready")

    def in_flight(self) -> dict[str, float]:
        """What endpoints and services still hold, by name; empty when nothing is in flight."""
        held = {one["id"]: one["in_flight"] for one in self.get("/api/v1/endpoints")["endpoints"]}
        samples = self.metrics().items()
        held |= {name: value for name, value in samples if "in_flight" in name or "queue_length" in name}
        return {name: value for name, value in held.items() if value}

    def await_nothing_in_flight(self) -> None:
        """Until nothing is. Raises TimeoutError with what is left."""
        end = time.monotonic() + START_S
        while held := self.in_flight():
            if time.monotonic() > end:
                raise TimeoutError(f"left in flight: {held}")
            time.sleep(0.05)

    def memory_mib(self) -> float:
        """Resident memory of the gateway and its children, MiB."""
        return sum(_resident_kib(pid) for pid in (self.pid, *_children(self.pid))) / 1024

    def cpu_s(self) -> float:
        """CPU time of the gateway and its children, user and system, seconds."""
        return sum(_cpu_s(pid) for pid in (self.pid, *_children(self.pid)))


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with ExitStack() as listeners:
        found = [listeners.enter_context(socket.socket()) for _number in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]


def start_engine(port: int) -> subprocess.Popen[bytes]:
    """An engine as a process."""
    return subprocess.Popen([sys.executable, "-m", "tests.bench.trial_engine", str(port)], env=environment())


@contextmanager
def engine(port: int) -> Iterator[None]:
    """An engine as a process, killed at the end."""
    with start_engine(port) as process:
        try:
            yield
        finally:
            process.kill()


def await_true(check: Callable[[], object], what: str, within_s: float = START_S) -> None:
    """Waits for a condition. Raises TimeoutError."""
    end = time.monotonic() + within_s
    while not check():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

# SPDX-License-Identifier: Apache-2.0
"""A gateway with worker processes, its children, and clients that ask it without end."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmgw.model.replica import GatewaySpec
from llmgw.model.route import Route
from llmgw.routes.codec import dump_bundle
from tests.gateway.client import CHAT, asking
from tests.gateway.harness import bundle, environment, eventually, fetch, write
from tests.gateway.test_process import COMMAND

LONG_S = 30.0
"""For processes to start and end: this machine may be busy."""
START_S = 50.0


class Workers:
    """A running gateway with workers."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._folder = folder
        self.pid = pid
        self.url = self.admin_url = ""
        self.generation = 1
        self.log: list[str] = []
        """Lines of it, as they come."""

    def read(self, ready: Path) -> None:
        """Where it serves."""
        told = json.loads(ready.read_text())
        assert told["pid"] == self.pid
        self.url, self.admin_url = told["url"], told["admin_url"]

    def publish(self, routes: Iterable[Route], **gateway: Any) -> None:
        """The next generation, without waiting for it."""
        self.generation += 1
        spec = GatewaySpec(probe_interval_s=0.1, **{"workers": 2} | gateway)
        write(self._folder / "bundle.json", dump_bundle(bundle(self.generation, routes, gateway=spec)))

    def get(self, path: str) -> Any:
        return json.loads(fetch(f"{self.admin_url}/api/v1/{path}")[2])

    def endpoint(self, number: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = self.get("endpoints")["endpoints"][number]
        return found

    def metrics(self) -> dict[str, float]:
        lines = (line.rpartition(" ") for line in fetch(self.admin_url + "/metrics")[2].decode().splitlines())
        return {name: float(value) for name, _space, value in lines if not name.startswith("#")}

    def served(self, service: str = "chat") -> float:
        return self.metrics().get(f'llmgw_requests_total{{code="200",service="{service}"}}', 0.0)

    def settled(self) -> float:
        """What was served before, when all of it is counted: sums are made four times a second."""

        def twice() -> tuple[float] | None:
            first = self.served()
            time.sleep(1.0)
            return (first,) if first == self.served() else None

        found = eventually(twice, "nothing new", LONG_S)
        assert found is not None
        return found[0]

    def pids(self) -> set[int]:
        """Its worker processes, those that are not reaped yet left out."""
        found = set()
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
            except OSError:
                continue
            if f"\nPPid:\t{self.pid}\n" in text and "\nState:\tZ" not in text:
                found.add(int(status.parent.name))
        return found

    def serving(self) -> bool:
        """Whether there are two workers that serve, and no others."""
        try:
            metrics = self.metrics()
        except OSError:  # new code comes in just now
            return False
        stages = {stage: metrics[f'llmgw_workers{{stage="{stage}"}}'] for stage in ("starting", "serving", "retiring")}
        return stages == {"starting": 0, "serving": 2, "retiring": 0}

    def reload(self) -> None:
        """SIGHUP, and until all workers are other ones that serve."""
        before = self.pids()
        os.kill(self.pid, signal.SIGHUP)
        eventually(lambda: len(self.pids() - before) == 2 and not before & self.pids(), "all replaced", START_S)
        eventually(self.serving, "they serve", LONG_S)


@contextmanager
def workers(
    folder: Path, routes: Iterable[Route], environ: dict[str, str] | None = None, **gateway: Any
) -> Iterator[Workers]:
    """A gateway with two workers that serve."""
    spec = GatewaySpec(probe_interval_s=0.1, **{"workers": 2} | gateway)
    write(folder / "bundle.json", dump_bundle(bundle(1, routes, gateway=spec)))
    ready = folder / "ready.json"
    listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [*COMMAND, "--bundle", folder / "bundle.json", *listen, "--ready-file", ready],
        env=environment() | (environ or {}),
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        made = Workers(folder, running.pid)
        assert running.stderr is not None
        reader = threading.Thread(target=made.log.extend, args=(running.stderr,))
        reader.start()
        try:
            eventually(lambda: ready.exists() or running.poll() is not None, "ready", START_S)
            assert ready.exists(), made.log
            made.read(ready)
            yield made
        finally:
            left = made.pids()
            running.kill()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            reader.join(LONG_S)


class Asking:
    """Clients on threads that ask without end, each over a connection that it keeps while it may, or over new ones.

    `answered` and `failures` are what came of it.
    """

    def __init__(self, url: str, keeping: int, anew: int, context: ssl.SSLContext | None = None) -> None:
        self._parts = urlsplit(url)
        self._context = context
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.answered = 0
        self.failures: list[str] = []
        self._threads = [threading.Thread(target=self._ask, args=(True,), daemon=True) for _number in range(keeping)]
        self._threads += [threading.Thread(target=self._ask, args=(False,), daemon=True) for _number in range(anew)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(LONG_S)

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=LONG_S)
        return http.client.HTTPSConnection(host, port, timeout=LONG_S, context=self._context)

    def _ask(self, keep: bool) -> None:
        connection = self._connect()
        while not self._stop.is_set():
            try:
                connection.request("POST", CHAT, asking(), {"content-type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
                found = answer.status == 200 and body.startswith(b"{")
                why = f"{answer.status} {body!r}"
            except OSError as error:
                found, why = False, repr(error)
            except http.client.HTTPException as error:
                found, why = False, repr(error)
            with self._lock:
                if found:
                    self.answered += 1
                else:
                    self.failures.append(why)
            if not keep or not found:
                connection.close()
                connection = self._connect()
        connection.close()

# SPDX-License-Identifier: Apache-2.0
"""The guards of one replica as real processes on the loopback, and engines that tell in files what becomes of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ansible_collections.llmgw.fleet.plugins.module_utils import guard

PROGRAM = Path(guard.__file__)
GROUP = "sha256:" + "ab12" * 16
LIMIT_S = 30.0
ENGINE = """
echo $$ > {pid}
sleep 300 & worker=$!
echo $worker > {worker}
trap '{on_term}' TERM
while :; do wait $worker; done
"""
POLITE = "echo term >> {events}; exit 0"
DRAINING = "echo term >> {events}; sleep 1; echo drained >> {events}; exit 0"
DEAF = "echo term >> {events}"


def until(what: str, check: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Returns once `check` is true; fails with `what` when it is not in time."""
    end = time.monotonic() + limit_s
    while not check():
        assert time.monotonic() < end, f"not within {limit_s:g} s: {what}"
        time.sleep(0.02)


def running(pid: int | None) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class One:
    """One member: its guard's process and log, its engine's processes and events."""

    def __init__(self, folder: Path, rank: int, command: Sequence[str]) -> None:
        self.rank = rank
        self.folder = folder
        self._log = folder / f"guard-{rank}.log"
        for path in (self.path("pid"), self.path("worker"), self.path("events")):
            path.unlink(missing_ok=True)
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stderr=log, stdout=log)

    def path(self, what: str) -> Path:
        return self.folder / f"engine-{self.rank}.{what}"

    @property
    def log(self) -> str:
        return self._log.read_text()

    def number(self, what: str) -> int | None:
        path = self.path(what)
        text = path.read_text().strip() if path.exists() else ""
        return int(text) if text else None

    @property
    def engine(self) -> int | None:
        """The engine's process id; None until it was started."""
        return self.number("pid")

    @property
    def events(self) -> list[str]:
        path = self.path("events")
        return path.read_text().split() if path.exists() else []

    @property
    def serves(self) -> bool:
        return running(self.engine) and running(self.number("worker"))

    def ended(self) -> int:
        """The guard's exit status, and nothing of its engine is left."""
        status = self.process.wait(LIMIT_S)
        until(f"the engine of rank {self.rank} to be gone", lambda: not running(self.engine))
        until(f"the worker of rank {self.rank} to be gone", lambda: not running(self.number("worker")))
        return status

    def says(self, text: str) -> None:
        """Returns once the log has the text."""
        until(f"rank {self.rank} to say {text!r}, it said: {self.log}", lambda: text in self.log)


class Group:
    """All members of one replica. `on_term`: what each engine does at SIGTERM, by rank; polite where not named."""

    def __init__(
        self,
        folder: Path,
        size: int,
        *,
        stop_timeout: float = 10,
        on_term: dict[int, str] | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.size = size
        self.members: dict[int, One] = {}
        self._stop_timeout = stop_timeout
        self._on_term = on_term or {}
        self._hosts = list(hosts) or ["127.0.0.1"] * size
        self.ports = free_ports(size)

    def place(self, rank: int) -> str:
        host = self._hosts[rank]
        return f"{f'[{host}]' if ':' in host else host}:{self.ports[rank]}"

    def start(self, *ranks: int, group: str = GROUP, command: Sequence[str] = ()) -> None:
        for rank in ranks or range(self.size):
            engine = list(command) or ["/bin/sh", "-c", self._engine(rank)]
            argv = [sys.executable, "-I", str(PROGRAM), "--group", group, "--rank", str(rank)]
            argv += ["--stop-timeout", str(self._stop_timeout)]
            for number in range(self.size):
                argv += ["--member", f"{number}={self.place(number)}"]
            self.members[rank] = One(self.folder, rank, [*argv, "--", *engine])

    def _engine(self, rank: int) -> str:
        files = {what: self.folder / f"engine-{rank}.{what}" for what in ("pid", "worker", "events")}
        return ENGINE.format(on_term=self._on_term.get(rank, POLITE).format(**files), **files)

    def together(self) -> None:
        """Starts all and returns once every engine runs."""
        self.start()
        until(f"all engines to run: {self.logs}", lambda: all(one.serves for one in self.members.values()))

    @property
    def logs(self) -> str:
        return "\n".join(one.log for one in self.members.values())

    def statuses(self) -> list[int]:
        return [self.members[rank].ended() for rank in sorted(self.members)]

    def clear(self) -> None:
        for one in self.members.values():
            one.process.kill()
            one.process.wait(10)
            for pid in (one.engine, one.number("worker")):
                if running(pid) and pid:
                    os.kill(pid, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports

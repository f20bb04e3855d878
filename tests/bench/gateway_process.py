# SPDX-License-Identifier: Apache-2.0
"""Programs that are measured: pinned to processors, and what they and their children use by the kernel's accounts."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[2]
MEASURED_CPU, OTHER_CPU = "0", "1"
"""What is measured has a processor of its own; engine and load share the other."""
STOP_S = 5.0


@dataclass(frozen=True, slots=True)
class Program:
    """A running program, in a session of its own."""

    process: subprocess.Popen[bytes]

    def family(self) -> list[int]:
        """Process ids of the program and of all that it started."""
        found = [self.process.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += [int(child) for child in (_text(children) or "").split()]
        return found

    def cpu_s(self) -> float:
        """CPU time used so far, user and system, in seconds."""
        return sum(cpu_s(pid) for pid in self.family())

    def rss_bytes(self) -> int:
        """Resident memory now."""
        total = 0
        for pid in self.family():
            for line in (_text(Path(f"/proc/{pid}/status")) or "").splitlines():
                if line.startswith("VmRSS:"):
                    total += int(line.split()[1]) * 1024
        return total

    def stop(self) -> None:
        """Asks it to end, and ends it when it does not."""
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def cpu_s(pid: int) -> float:
    """CPU time that one process has used, in seconds; 0 once it is gone."""
    text = _text(Path(f"/proc/{pid}/stat"))
    if text is None:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(cpus: str, words: Sequence[str], log: BinaryIO) -> Iterator[Program]:
    """A program pinned to `cpus`, as taskset names them; stopped at the end. What it says goes to `log`."""
    command = ["taskset", "-c", cpus, *words]
    with subprocess.Popen(
        command, env=environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        program = Program(process)
        try:
            yield program
        finally:
            program.stop()


def environment() -> dict[str, str]:
    """Environment in which the project's own modules are found, and nginx, which is no program of users."""
    path = os.environ.get("PATH", os.defpath)
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'collections'}", "PATH": f"{path}:/usr/sbin:/sbin"}


def missing(*programs: str) -> list[str]:
    """Those of the programs that this machine does not have."""
    return [program for program in programs if shutil.which(program, path=environment()["PATH"]) is None]


def free_ports(count: int) -> list[int]:
    """As many different ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _number in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def free_port() -> int:
    """A port that nobody listens on."""
    return free_ports(1)[0]


def _text(path: Path) -> str | None:
    """A file of /proc; None once its process is gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None

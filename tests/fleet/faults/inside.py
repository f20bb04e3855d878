# SPDX-License-Identifier: Apache-2.0
"""A lab's hosts seen and touched from outside, by the kernel alone: also while a host is cut off or frozen."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.fleet.lab.controller import CLONE_NEWNET
from tests.fleet.lab.hosts import Lab

_UNITS = "llmgw-*.*.*.service"
_ENGINES = "/opt/llmgw/engines/"


class Inside:
    """Looks into the hosts of a running lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._cgroups = lab.cgroup.parent

    def commands(self, host: str) -> dict[str, list[str]]:
        """Unit (`chat.0.0`) to the command line of its main process, of every unit that has one now."""
        found = {}
        for folder in (self._cgroups / host).glob(f"payload/system.slice/{_UNITS}"):
            for pid in _pids(folder):
                with suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    found[folder.name.removeprefix("llmgw-").removesuffix(".service")] = [
                        word.decode(errors="replace") for word in words if word
                    ]
                    break
        return found

    def engines(self, host: str) -> int:
        """How many engines run on the host, in whatever cgroup: one that no unit has is an orphan."""
        return sum(_ENGINES in _command(pid) for pid in _below(self._cgroups / host))

    def signal_unit(self, host: str, unit: str, number: signal.Signals) -> int:
        """Sends a signal to every process of a unit; returns to how many."""
        pids = [
            pid
            for folder in (self._cgroups / host).glob(f"payload/*.slice/llmgw-{unit}.service")
            for pid in _pids(folder)
        ]
        return _signal(pids, number)

    def signal_program(self, host: str, program: str, number: signal.Signals) -> int:
        """Sends a signal to every process of a program on a host; returns to how many."""
        return _signal([pid for pid in _below(self._cgroups / host) if _name(pid) == program], number)

    def kill_controller(self) -> int:
        """SIGKILL to everything that was started on the controller: llmgw, Ansible, its ssh connections."""
        return _signal(_pids(self._lab.cgroup), signal.SIGKILL)

    def path(self, host: str, path: str) -> Path:
        """A path of the host's as one of this process, mounts of the host included. Raises FileNotFoundError."""
        pids = _pids(self._cgroups / host / "payload/init.scope")
        if not pids:
            raise FileNotFoundError(f"{host} has no running systemd")
        return Path(f"/proc/{pids[0]}/root{path}")

    def changed_at(self, host: str, path: str) -> int:
        """Nanoseconds of a file's last change; 0 where there is none."""
        try:
            return self.path(host, path).stat().st_mtime_ns
        except OSError:
            return 0

    def ip(self, command: str, host: str | None = None) -> None:
        """One `ip` command in the network of a host, or of the controller."""
        enter = ["nsenter", f"--mount=/proc/{self._lab.pid}/ns/mnt", f"--net=/proc/{self._lab.pid}/ns/net", "--"]
        where = ["-n", host] if host else []
        subprocess.run([*enter, "ip", *where, *command.split()], check=True, timeout=20, capture_output=True)

    @contextmanager
    def network(self, host: str) -> Iterator[None]:
        """While it lasts, sockets that this thread opens are the host's own, its loopback included."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (
            Path("/proc/thread-self/ns/net").open() as home,
            Path(f"/proc/{self._lab.pid}/root/run/netns/{host}").open() as there,
        ):
            _enter(libc, there.fileno())
            try:
                yield
            finally:
                _enter(libc, home.fileno())


def _enter(libc: ctypes.CDLL, namespace: int) -> None:
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")


def _pids(cgroup: Path) -> list[int]:
    try:
        return [int(line) for line in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _below(cgroup: Path) -> list[int]:
    """Processes of a cgroup and of all below it."""
    return [pid for folder, _folders, _files in os.walk(cgroup) for pid in _pids(Path(folder))]


def _signal(pids: list[int], number: signal.Signals) -> int:
    reached = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached += 1
    return reached


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""

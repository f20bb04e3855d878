# SPDX-License-Identifier: Apache-2.0
"""The controller's place in a lab: commands and sockets inside its network, beside its hosts."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.fleet.lab.errors import LabError

CLONE_NEWNET = 0x40000000
_Argument = str | Path


class Controller:
    """The network namespace of process `pid`; commands in it belong to `cgroup`, by which they end with the lab."""

    pid: int
    cgroup: Path

    def popen(
        self,
        command: Sequence[_Argument],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int | IO[str] | None = subprocess.DEVNULL,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
    ) -> subprocess.Popen[str]:
        """A process in the lab's network, in a session of its own; `env` is added to this process's environment.

        Its PID is the command's own, so signals reach it. Daemons that it leaves behind end with the lab.
        """
        # The cgroup is entered first: even what a command forks away at once, as ssh does for ControlPersist, is in it.
        enter = ["sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self.cgroup / "cgroup.procs")]
        return subprocess.Popen(
            [*enter, "nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *map(str, command)],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def run(
        self,
        command: Sequence[_Argument],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: str = "",
        timeout: float = 60,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """What `command` printed and returned in the lab's network.

        Raises LabError with its output when it takes longer than `timeout` seconds, in which case its process group is
        killed, or, with `check`, when it fails.
        """
        # Files, not pipes: ssh's background masters keep standard error open long after the command has ended.
        with (
            tempfile.TemporaryFile("w+") as given,
            tempfile.TemporaryFile("w+", errors="replace") as out,
            tempfile.TemporaryFile("w+", errors="replace") as err,
        ):
            given.write(stdin)
            given.seek(0)
            process = self.popen(command, env=env, cwd=cwd, stdin=given, stdout=out, stderr=err)
            try:
                process.wait(timeout)
                problem = f"ended with status {process.returncode}" if check and process.returncode else None
            except subprocess.TimeoutExpired:
                problem = f"took longer than {timeout:g} s"
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(timeout=10)
            out.seek(0)
            err.seek(0)
            done = subprocess.CompletedProcess(process.args, process.returncode, out.read(), err.read())
        if problem is not None:
            output = "\n".join([*done.stdout.splitlines()[-40:], *done.stderr.splitlines()[-40:]])
            raise LabError(f"{' '.join(map(str, command))} {problem}:\n{output}")
        return done

    @contextmanager
    def network(self) -> Iterator[None]:
        """While it lasts, sockets that this thread opens, and threads and processes that it starts, are in the lab."""
        libc = ctypes.CDLL(None, use_errno=True)
        # setns(2) works on one thread: the other threads of this process stay where they are.
        with Path("/proc/thread-self/ns/net").open() as home, Path(f"/proc/{self.pid}/ns/net").open() as lab:
            _set_network(libc, lab)
            try:
                yield
            finally:
                _set_network(libc, home)


def _set_network(libc: ctypes.CDLL, namespace: IO[str]) -> None:
    if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"setns: {os.strerror(error)}")

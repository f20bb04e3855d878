# SPDX-License-Identifier: Apache-2.0
"""A systemd user manager of our own, for root on a machine whose PID 1 is not systemd.

It lives in a mount namespace of its own, with a fresh /run/systemd (its socket's path must be short) and the whole
cgroup tree; it is put into its own group first, else it would move foreign processes about. All of it ends in `stop`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from llmgw.demo.processes import answers
from llmgw.errors import LlmgwError

_RUNTIME = "/run/systemd/llmgw"
_ATTEMPTS = 3
_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 60.0
_CLEAN_TIMEOUT_S = 20.0
_TICK_S = 0.05
# $1 runtime directory, $2 control group, $3 systemd
_ENTER = """
set -eu
mount --make-rprivate /
mkdir -p /run/systemd
mount -t tmpfs -o mode=755 tmpfs /run/systemd
mkdir -p /run/systemd/system
mkdir -m 700 "$1"
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$2"
echo $$ > "/sys/fs/cgroup/$2/cgroup.procs"
exec "$3" --user
"""
# $1 an empty directory, $2 control group. Kills what is left in the group, then removes it.
_CLEAN = """
set -u
mount --make-rprivate /
mount -t cgroup2 cgroup2 "$1" || exit 1
[ -d "$1/$2" ] || exit 0
echo 1 > "$1/$2/cgroup.kill" 2>/dev/null || find "$1/$2" -name cgroup.procs -exec cat {} + | xargs -r kill -KILL
for _ in $(seq 100); do
  find "$1/$2" -depth -type d -exec rmdir {} + 2>/dev/null
  [ -d "$1/$2" ] || exit 0
  sleep 0.05
done
exit 1
"""


class PrivateManager:
    """One private manager; its files lie in `state_dir`/private-systemd."""

    def __init__(self, state_dir: Path, systemd: str) -> None:
        self._directory = state_dir / "private-systemd"
        self._pid_file = self._directory / "pid"
        self._systemd = systemd
        self._group = "llmgw-" + hashlib.sha256(str(state_dir).encode()).hexdigest()[:12]
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Where commands find the manager, and where both look for units."""
        return {"XDG_RUNTIME_DIR": _RUNTIME, "XDG_CONFIG_HOME": str(self._directory / "config")}

    @property
    def argv_prefix(self) -> tuple[str, ...]:
        """Puts a command where the manager is. Entering a mount namespace loses the working directory."""
        return ("nsenter", f"--target={self._pid}", "--mount", "--", "env", f"--chdir={Path.cwd()}")

    def start(self) -> None:
        """Finds the manager running, or starts it. Raises LlmgwError when it does not come up."""
        if self._runs_already():
            return
        said = ""
        # It was seen to end without a word now and then; the next one then stayed.
        for _ in range(_ATTEMPTS):
            self._clean()
            if self._attempt():
                return
            said = self._log_tail() or said
            self.stop()
        raise LlmgwError(
            "private-manager-failed",
            f"a systemd manager of our own did not come up in {_ATTEMPTS} attempts: {said or 'it said nothing'}",
            fix="run as root where file systems may be mounted and cgroup v2 is there, "
            "or on a machine whose PID 1 is systemd",
        )

    def stop(self) -> None:
        """Ends the manager and all its units (those that do not end in time are killed), and removes its files."""
        if self._pid is not None and self._answers():
            answers((*self.argv_prefix, "systemctl", "--user", "exit"), self.environment)
            self._wait_for_end()
        self._clean()
        if self._process is not None:
            self._process.wait(_CLEAN_TIMEOUT_S)
            self._process = None
        self._pid = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _attempt(self) -> bool:
        """Starts one manager and says whether it answers, and still answers a moment later."""
        for name in ("config", "home"):
            (self._directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if key != "DBUS_SESSION_BUS_ADDRESS"}
        environment |= self.environment | {"HOME": str(self._directory / "home")}
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - fixed programs
                ["unshare", "--mount", "--", "sh", "-c", _ENTER, "llmgw", _RUNTIME, self._group, self._systemd],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._pid = self._process.pid  # unshare, sh and systemd follow one another in the same process
        self._pid_file.write_text(f"{self._pid}\n", encoding="ascii")
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                time.sleep(2 * _TICK_S)
                return self._process.poll() is None and self._answers()
            time.sleep(_TICK_S)
        return False

    def _answers(self) -> bool:
        # Before the namespace is set up nsenter would end in ours, where another manager may answer.
        if not Path(f"/proc/{self._pid}/root{_RUNTIME}/systemd/private").exists():
            return False
        return answers((*self.argv_prefix, "systemctl", "--user", "show", "-p", "Version"), self.environment)

    def _runs_already(self) -> bool:
        """Whether the manager of an earlier process for the same directory still runs: by its group, as pids recur."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(self._pid_file.read_text(encoding="ascii"))
            if f"/{self._group}/" in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii"):
                self._pid = pid
                if self._answers():
                    return True
        self._pid = None
        return False

    def _wait_for_end(self) -> None:
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                return
            if not Path(f"/proc/{self._pid}").exists():
                return
            time.sleep(_TICK_S)

    def _clean(self) -> None:
        """Kills what an earlier manager left in the group, and removes the group."""
        mount_point = self._directory / "cgroup"
        mount_point.mkdir(mode=0o700, parents=True, exist_ok=True)
        argv = ["unshare", "--mount", "--", "sh", "-c", _CLEAN, "llmgw", str(mount_point), self._group]
        answers(argv, {}, _CLEAN_TIMEOUT_S)

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return " ".join((self._directory / "log").read_text(encoding="utf-8", errors="replace").split())[-500:]
        return ""

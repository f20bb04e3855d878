# SPDX-License-Identifier: Apache-2.0
"""The first process in a lab's namespaces: makes hosts, gives and takes their power and cables, and clears all away.

`unshare` starts it as PID 1 of new mount, network, PID, IPC and UTS namespaces, with its description as JSON argument
and a socket as standard input: one request a line, one answer a line. The end of that stream, which the kernel brings
about when the test process ends in any way, takes the lab down. Standard library only: it runs as a script.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
DISKS = Path("/run/lab")
NETWORKS = Path("/run/netns")
BRIDGE = "lab0"
CONTROLLER = "controller"
NSPAWN_REBOOT = 133  # what systemd-nspawn --keep-unit exits with when its guest asks for a reboot
GUEST_REBOOT = signal.SIGRTMIN + 5  # systemd(1): starts reboot.target
CLEAR_DEADLINE_S = 20.0


@dataclass(frozen=True)
class Description:
    """What the test process asks for; `layers` are the root file system, uppermost first."""

    lab: str
    state: str
    layers: list[str]
    authorized_key: str
    controller: str  # its address in the lab's network
    hosts: dict[str, str]  # name -> address


class Holder:
    def __init__(self, described: Description) -> None:
        self.described = described
        self.addresses = described.hosts
        self.cgroup = CGROUPS / f"llmgw-lab-{described.lab}"
        self.powered: dict[int, str] = {}  # PID of a systemd-nspawn -> host
        self.boots = dict.fromkeys(self.addresses, 0)

    # --- making ---

    def prepare(self) -> None:
        """Private /run, cgroup2 and a bridge; then every host, without power."""
        # The machine's own /run stays out of reach of systemd-nspawn, and with it the locks on machine names.
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "lab", "/run")
        # systemd-nspawn wants cgroup2 there, which a machine with cgroup v1 mounts elsewhere or nowhere. The tmpfs is
        # between the two for a machine with cgroup2: the kernel refuses to mount a file system onto itself.
        for kind in ("tmpfs", "cgroup2"):
            _run("mount", "-t", kind, "lab", str(CGROUPS))
        for name in (CONTROLLER, *self.addresses):
            (self.cgroup / name).mkdir(parents=True)
        for controller in (self.cgroup / "cgroup.controllers").read_text().split():
            (self.cgroup / "cgroup.subtree_control").write_text(f"+{controller}")
        NETWORKS.mkdir()
        _ip(
            "link set lo up",
            f"link add {BRIDGE} type bridge",
            f"address add {self.described.controller}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        )
        for name in self.addresses:
            self._make_disk(name)
            self._make_network(name)
        _ip(*self._neighbours(BRIDGE))

    def _make_disk(self, name: str) -> None:
        disk = DISKS / name
        etc = disk / "upper/etc"
        (etc / "ssh").mkdir(parents=True)
        for folder in ("work", "root"):
            (disk / folder).mkdir()
        known = {"localhost": "127.0.0.1", CONTROLLER: self.described.controller, **self.addresses}
        (etc / "hostname").write_text(f"{name}\n")
        (etc / "hosts").write_text("".join(f"{address} {other}\n" for other, address in known.items()))
        (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (etc / "ssh/lab_authorized_keys").write_text(self.described.authorized_key)
        layers = f"lowerdir={':'.join(self.described.layers)},upperdir={disk / 'upper'},workdir={disk / 'work'}"
        _run("mount", "-t", "overlay", "-o", layers, "lab", str(disk / "root"))

    def _make_network(self, name: str) -> None:
        cable, adapter = self._cable(name), f"host0 address {self._mac(name)} netns {name}"
        _ip(
            f"netns add {name}",
            f"link add {cable} type veth peer name {adapter}",
            f"link set {cable} master {BRIDGE} up",
        )
        address = f"address add {self.addresses[name]}/24 dev host0"
        _ip("link set lo up", address, "link set host0 up", *self._neighbours("host0"), network=name)

    def _neighbours(self, device: str) -> list[str]:
        """Entries by which a host that is cut off stays silent: an ARP request would fail, and soon end in an error."""
        return [
            f"neighbour replace {address} lladdr {self._mac(name)} dev {device} nud permanent"
            for name, address in self.addresses.items()
        ]

    def _cable(self, name: str) -> str:
        """The bridge's end of a host's network cable, named by address: interface names hold only 15 characters."""
        return f"cable{self._number(name)}"

    def _mac(self, name: str) -> str:
        return f"02:00:00:00:00:{self._number(name):02x}"

    def _number(self, name: str) -> int:
        return int(self.addresses[name].rpartition(".")[2])

    # --- requests ---

    def state(self, name: str) -> dict[str, object]:
        return {"running": name in self.powered.values(), "boots": self.boots[name]}

    def start(self, name: str) -> None:
        if name in self.powered.values():
            raise RuntimeError(f"{name} is already running")
        command = [
            *("systemd-nspawn", "--quiet", "--boot", f"--machine={name}", f"--directory={DISKS / name / 'root'}"),
            *("--register=no", "--keep-unit", "--settings=no", "--console=pipe", "--suppress-sync=yes"),
            *("--resolv-conf=off", "--timezone=off", "--link-journal=no"),
            f"--network-namespace-path={NETWORKS / name}",
        ]
        enter = 'echo 0 >"$0" && exec "$@"'
        console = os.open(Path(self.described.state, f"{name}.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nspawn = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", enter, str(self.cgroup / name / "cgroup.procs"), *command],
            {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, console, 1),
                (os.POSIX_SPAWN_DUP2, console, 2),
            ],
            setsid=True,
        )
        os.close(console)
        self.powered[nspawn] = name
        self.boots[name] += 1

    def crash(self, name: str) -> None:
        self._write(name, "cgroup.kill", "1")

    def freeze(self, name: str) -> None:
        self._write(name, "cgroup.freeze", "1")

    def thaw(self, name: str) -> None:
        self._write(name, "cgroup.freeze", "0")

    def cut(self, name: str) -> None:
        _ip(f"link set {self._cable(name)} down")

    def heal(self, name: str) -> None:
        _ip(f"link set {self._cable(name)} up")

    def reboot(self, name: str) -> None:
        scope = self.cgroup / name / "payload/init.scope/cgroup.procs"
        pids = scope.read_text().split() if scope.exists() else []
        if not pids:
            raise RuntimeError(f"{name} has no running systemd to reboot")
        os.kill(int(pids[0]), GUEST_REBOOT)

    def _write(self, name: str, file: str, value: str) -> None:
        (self.cgroup / name / file).write_text(value)

    # --- living and ending ---

    def serve(self) -> None:
        """Answers requests and restarts hosts that reboot, until the test process is gone."""
        woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with socket.socket(fileno=0) as channel, channel.makefile("rw", encoding="utf-8") as lines:
            lines.write('{"ok": null}\n')
            lines.flush()
            while True:
                readable, _, _ = select.select([channel.fileno(), woken], [], [])
                if woken in readable:
                    os.read(woken, 4096)
                    self._reap()
                if channel.fileno() in readable:
                    request = lines.readline()
                    if not request:
                        return
                    lines.write(json.dumps(self._answer(request)) + "\n")
                    lines.flush()

    def _answer(self, request: str) -> dict[str, object]:
        action, name = json.loads(request)
        try:
            return {"ok": getattr(self, action)(name)}
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return {"error": str(error)}

    def _reap(self) -> None:
        """Collects every ended process: those of dead hosts come to PID 1 too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self.powered.pop(pid, None)
            if name is not None and os.waitstatus_to_exitcode(status) == NSPAWN_REBOOT:
                self.start(name)

    def clear(self) -> None:
        """Ends all processes and removes what outlives namespaces: cgroups and the state directory."""
        if self.cgroup.exists():
            deadline = time.monotonic() + CLEAR_DEADLINE_S
            for file in self.cgroup.glob("*/cgroup.kill"):
                file.write_text("1")
            while "populated 1" in (self.cgroup / "cgroup.events").read_text() and time.monotonic() < deadline:
                time.sleep(0.005)
            for folder, _, _ in os.walk(self.cgroup, topdown=False):
                Path(folder).rmdir()
        shutil.rmtree(self.described.state)


def _ip(*commands: str, network: str | None = None) -> None:
    where = ["-n", network] if network else []
    _run("ip", *where, "-batch", "-", script="\n".join(commands))


def _run(*command: str, script: str = "") -> None:
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()}")


def main() -> None:
    os.umask(0o022)  # the hosts' plain users read what is made here
    holder = Holder(Description(**json.loads(sys.argv[1])))
    try:
        holder.prepare()
        holder.serve()
    finally:
        holder.clear()


if __name__ == "__main__":
    main()

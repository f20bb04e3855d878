# SPDX-License-Identifier: Apache-2.0
"""Several real systemd hosts behind sshd in one private network: made, broken and repaired by tests.

`with Lab(4) as lab:` boots n1 to n4 from one read-only root. Each has its own writable layer in memory, its own network
and PID 1. Nothing of it is visible outside, labs do not see one another, and all of it ends with the test process.
"""

from __future__ import annotations

import io
import secrets
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from ruamel.yaml import YAML

from tests.fleet.lab.controller import Controller
from tests.fleet.lab.errors import LabError
from tests.fleet.lab.gold import gold
from tests.fleet.lab.holding import Holding
from tests.fleet.lab.inventory import SSH_OPTIONS, document
from tests.fleet.lab.waiting import wait_until

NETWORK = "10.77.0"
FIRST_ADDRESS = 11
BOOT_DEADLINE_S = 30.0

Files = Mapping[str, str | Path]
"""Absolute path on a host -> text, executable when it starts with `#!`, or a file or folder to copy with its modes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A host before it boots: its name, and files that make it special, such as a stand-in for nvidia-smi."""

    name: str
    files: Files = field(default_factory=dict)


class Lab(Controller):
    """Running hosts; as a context manager it boots them and takes them down.

    `machines` is their number, for hosts n1, n2, ..., or their descriptions.
    """

    state_dir: Path  # the key, the consoles' logs

    def __init__(self, machines: int | Sequence[Machine] = 4) -> None:
        if isinstance(machines, int):
            machines = [Machine(f"n{number}") for number in range(1, machines + 1)]
        self.id = secrets.token_hex(4)
        self.machines = tuple(machines)
        self.addresses = {
            machine.name: f"{NETWORK}.{number}" for number, machine in enumerate(self.machines, FIRST_ADDRESS)
        }
        self._held = ExitStack()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.addresses)

    @property
    def key(self) -> Path:
        """The private key that root and the plain user `deploy` of every host accept."""
        return self.state_dir / "id_ed25519"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            layers = stack.enter_context(gold())
            self.state_dir = Path(tempfile.mkdtemp(prefix=f"llmgw-lab-{self.id}-"))
            # The holder removes it; this is for a holder that never came to it.
            stack.callback(shutil.rmtree, self.state_dir, ignore_errors=True)
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(self.key)]
            subprocess.run(keygen, check=True, timeout=30)
            self._holding = Holding(
                {
                    "lab": self.id,
                    "state": str(self.state_dir),
                    "layers": [str(layer) for layer in layers],
                    "authorized_key": self.key.with_suffix(".pub").read_text(),
                    "controller": f"{NETWORK}.1",
                    "hosts": self.addresses,
                }
            )
            stack.callback(self._holding.close)
            self.pid = self._holding.pid
            self.cgroup = Path(f"/proc/{self.pid}/root/sys/fs/cgroup/llmgw-lab-{self.id}/controller")
            for machine in self.machines:
                self.put(machine.name, machine.files)
            self.start(*self.hosts)
            self._held = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def down(self) -> None:
        """Ends every host and every command of the lab and removes all of it; a second call does nothing."""
        self._held.close()

    # --- power and cables ---

    def start(self, *hosts: str) -> None:
        """Gives power to hosts that have none and waits until they can be logged in to."""
        for host in hosts:
            self._holding.ask("start", host)
        self.wait_ssh(*hosts)

    def crash(self, *hosts: str) -> None:
        """Power loss: every process of each host is gone at once; its disk stays as it is."""
        for host in hosts:
            self._holding.ask("crash", host)
        wait_until(lambda: not any(map(self.running, hosts)), 20, f"{', '.join(hosts)} to be without power")

    def reboot(self, *hosts: str) -> None:
        """An orderly reboot, asked of systemd without the network."""
        with self.rebooting(*hosts):
            for host in hosts:
                self._holding.ask("reboot", host)

    @contextmanager
    def rebooting(self, *hosts: str) -> Iterator[None]:
        """Waits at its end until what was done inside has rebooted each host and it can be logged in to again."""
        boots = {host: self._state(host)["boots"] for host in hosts}
        yield
        wait_until(
            lambda: all(self._state(host)["boots"] > before for host, before in boots.items()),
            BOOT_DEADLINE_S,
            f"{', '.join(hosts)} to reboot",
        )
        self.wait_ssh(*hosts)

    def freeze(self, *hosts: str) -> None:
        """Stops every process of each host where it stands; its kernel still answers pings and accepts connections."""
        for host in hosts:
            self._holding.ask("freeze", host)

    def thaw(self, *hosts: str) -> None:
        for host in hosts:
            self._holding.ask("thaw", host)

    def cut(self, *hosts: str) -> None:
        """Pulls the network cable of each host: what is sent is lost without an answer."""
        for host in hosts:
            self._holding.ask("cut", host)

    def heal(self, *hosts: str) -> None:
        for host in hosts:
            self._holding.ask("heal", host)

    def running(self, host: str) -> bool:
        """Whether the host has power."""
        return bool(self._state(host)["running"])

    def _state(self, host: str) -> dict[str, int]:
        return cast("dict[str, int]", self._holding.ask("state", host))

    # --- reaching the hosts ---

    def wait_ssh(self, *hosts: str) -> None:
        """Returns when sshd of every host answers; raises LabError with the end of the console of one that does not."""
        silent = set(hosts)

        def all_greet() -> bool:
            silent.difference_update([host for host in silent if _greets(self.addresses[host])])
            return not silent

        with self.network():
            try:
                wait_until(all_greet, BOOT_DEADLINE_S, f"sshd of {', '.join(hosts)} to answer")
            except LabError as error:
                host = min(silent)
                end = self.console(host)[-3000:]
                raise LabError(f"{error}; silent: {', '.join(sorted(silent))}; console of {host}:\n{end}") from None

    def console(self, host: str) -> str:
        """Everything that the host has written to its console since it was made."""
        return (self.state_dir / f"{host}.log").read_text(errors="replace")

    def ssh(
        self, host: str, *command: str, user: str = "root", timeout: float = 60, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """What a shell command line printed and returned on a host; `user` is root or deploy, who may sudo."""
        options = [*SSH_OPTIONS, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-i", str(self.key)]
        target = f"{user}@{self.addresses[host]}"
        return self.run(["ssh", *options, target, "--", *command], timeout=timeout, check=check)

    def put(self, host: str, files: Files) -> None:
        """Writes files as root onto the host's disk from outside, whether it runs or not; not below /run or /tmp."""
        if not files:
            return
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
            for path, content in files.items():
                if isinstance(content, Path):
                    archive.add(content, path, filter=_owned_by_root)
                    continue
                entry = tarfile.TarInfo(path)
                entry.mode = 0o755 if content.startswith("#!") else 0o644
                entry.size = len(content.encode())
                archive.addfile(entry, io.BytesIO(content.encode()))
        # Unpacked under chroot: a link on the host's disk cannot lead out of it.
        unpack = ["chroot", f"/run/lab/{host}/root", "tar", "-x", "-f-", "-C", "/"]
        enter = ["nsenter", f"--mount=/proc/{self.pid}/ns/mnt", "--"]
        subprocess.run([*enter, *unpack], input=packed.getvalue(), check=True, timeout=60)

    def inventory(
        self,
        path: Path,
        *,
        groups: Mapping[str, Sequence[str]] | None = None,
        host_vars: Mapping[str, Mapping[str, object]] | None = None,
    ) -> Path:
        """Writes an Ansible inventory to `path` and returns it; `groups` defaults to one, fleet, of all hosts."""
        content = document(self.addresses, self.key, groups or {"fleet": self.hosts}, host_vars or {})
        yaml = YAML(typ="safe")
        yaml.default_flow_style = False
        yaml.dump(content, path)
        return path


def _greets(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry

# SPDX-License-Identifier: Apache-2.0
"""Which systemd manager of this machine can run the demo's units: the system's, the user's, or a private one.

Where PID 1 is not systemd (containers, CI), root may start a manager of its own: `systemd --user` in a mount namespace
with its own /run/systemd and its own branch of the cgroup tree. It has no journal, so units there log to files.
"""

from __future__ import annotations

import enum
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.demo.private_manager import PrivateManager
from llmgw.demo.processes import answers
from llmgw.errors import LlmgwError

_SYSTEMD = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
_PRIVATE_TOOLS = ("unshare", "nsenter", "mount", "umount", "systemctl")


class ManagerKind(enum.Enum):
    """Whose manager it is."""

    SYSTEM = "system"
    USER = "user"
    PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides about the manager. `missing`: programs that a private manager needs and this machine lacks."""

    root: bool
    booted_by_systemd: bool
    user_manager_answers: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manager:
    """A usable manager. Commands that talk to it run behind `argv_prefix` and with `environment` added to their own."""

    kind: ManagerKind
    argv_prefix: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    on_close: Callable[[], None] | None = None

    @property
    def scope(self) -> str:
        """What modules and units call it: system or user."""
        return "system" if self.kind is ManagerKind.SYSTEM else "user"

    def close(self) -> None:
        """Ends a private manager with all that it runs; the machine's own managers stay as they are."""
        if self.on_close is not None:
            self.on_close()


def choose(machine: Machine) -> ManagerKind:
    """The manager to use on such a machine. Raises LlmgwError `no-systemd-manager` when there is none."""
    if machine.booted_by_systemd and machine.root:
        return ManagerKind.SYSTEM
    if machine.user_manager_answers and not machine.root:
        return ManagerKind.USER
    if machine.booted_by_systemd:
        raise LlmgwError(
            "no-systemd-manager",
            "this user's systemd manager does not answer (systemctl --user)",
            fix="log in through ssh or the console instead of su or sudo, or run `loginctl enable-linger` as root, "
            "or run the demo as root",
        )
    if not machine.root:
        raise LlmgwError(
            "no-systemd-manager",
            "this machine was not started by systemd, and only root can start a manager of its own",
            fix="run the demo as root, or on a machine or virtual machine whose PID 1 is systemd",
        )
    if machine.missing:
        raise _lacking(machine.missing)
    return ManagerKind.PRIVATE


def find_manager(state_dir: Path) -> Manager:
    """A manager that works now; a private one keeps its files in `state_dir`, and one that lives there is used again.

    Raises LlmgwError when this machine cannot have one.
    """
    environment = _user_environment()
    kind = choose(_look(environment))
    if kind is ManagerKind.SYSTEM:
        return Manager(kind)
    if kind is ManagerKind.USER:
        return Manager(kind, environment=environment)
    return private_manager(state_dir)


def private_manager(state_dir: Path) -> Manager:
    """A manager of our own, whatever else the machine has; needs root. Raises LlmgwError when it does not come up."""
    missing = _missing()
    if missing:
        raise _lacking(missing)
    private = PrivateManager(state_dir.resolve(), _systemd())
    private.start()
    return Manager(ManagerKind.PRIVATE, private.argv_prefix, private.environment, private.stop)


def _lacking(missing: tuple[str, ...]) -> LlmgwError:
    return LlmgwError(
        "no-systemd-manager",
        f"a systemd manager of our own needs {', '.join(missing)}",
        fix="install them: apt-get install systemd util-linux mount",
    )


def _look(environment: dict[str, str]) -> Machine:
    root = os.geteuid() == 0
    return Machine(
        root=root,
        booted_by_systemd=Path("/run/systemd/system").is_dir() and _name_of_init() == "systemd",
        user_manager_answers=not root and answers(("systemctl", "--user", "show", "-p", "Version"), environment),
        missing=_missing(),
    )


def _missing() -> tuple[str, ...]:
    tools = [tool for tool in _PRIVATE_TOOLS if shutil.which(tool) is None]
    return (*tools, *(() if _systemd() else ("systemd",)))


def _name_of_init() -> str:
    try:
        return Path("/proc/1/comm").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _systemd() -> str:
    return next((path for path in _SYSTEMD if Path(path).exists()), "")


def _user_environment() -> dict[str, str]:
    """Where the user's manager is found; su and sudo leave it out."""
    runtime = f"/run/user/{os.getuid()}"
    return {} if "XDG_RUNTIME_DIR" in os.environ or not Path(runtime).is_dir() else {"XDG_RUNTIME_DIR": runtime}

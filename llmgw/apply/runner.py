# SPDX-License-Identifier: Apache-2.0
"""Runs a playbook of the collection by ansible-runner, with this llmgw's own collection ahead of every other copy."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner

from llmgw.apply.events import INTERRUPTED
from llmgw.apply.inputs import Paths
from llmgw.apply.run_folder import run_folder
from llmgw.nodekit import contract

HOST_KEYS = "ANSIBLE_HOST_KEY_CHECKING"
_SSH_ARGS = "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=2 -o ServerAliveCountMax=2"
_UNLESS_CONFIGURED = {
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_SSH_ARGS": _SSH_ARGS,
    "ANSIBLE_SSH_CONTROL_PATH_DIR": "~/.ansible/cp-llmgw",
    "ANSIBLE_TIMEOUT": "10",
    "ANSIBLE_FORKS": "50",
}
"""What makes large and half-dead fleets bearable; an ansible.cfg or the environment has the last word. Keep-alives
matter most: a frozen host behind a warm ControlPersist connection would else hang the run for ever; such a connection
of another run, without keep-alives, is not gone on with."""


@dataclass(frozen=True, slots=True)
class Run:
    """One playbook run: name (`llmgw.fleet.apply`), the fleet's files, and Ansible's own switches."""

    playbook: str
    paths: Paths
    variables: Mapping[str, Any] = field(default_factory=dict)
    check: bool = False
    diff: bool = False
    limit: str | None = None
    verbosity: int = 0


def run_playbook(
    run: Run, on_event: Callable[[dict[str, Any]], None], cancelled: Callable[[], bool] | None = None
) -> int:
    """Ansible's exit status: 0, 2 (a host failed), 4 (unreachable), 130 when interrupted. Every event is handed to
    `on_event`. The run ends when `cancelled` says so; without it when SIGINT or SIGTERM comes, whose handlers are then
    ansible-runner's from here on.
    """

    def handle(event: dict[str, Any]) -> bool:
        on_event(event)
        return False  # nothing of it is kept: the folder goes away with the run

    with run_folder() as private:
        result = ansible_runner.interface.init_runner(
            private_data_dir=str(private),
            project_dir=str(Path.cwd()),
            playbook=run.playbook,
            inventory=str(run.paths.inventory.resolve()),
            extravars={
                "llmgw_catalog": str(run.paths.catalog.resolve()),
                "llmgw_facts_dir": str(run.paths.facts.resolve()),
                **run.variables,
            },
            envvars=_environment(private),
            cmdline=" ".join(_switches(run)) or None,
            verbosity=run.verbosity or None,
            quiet=True,
            settings={"suppress_ansible_output": True},
            event_handler=handle,
            cancel_callback=cancelled,
        )
        # ansible-runner switches the check of ssh host keys off; that is for ansible.cfg and the environment to say.
        if HOST_KEYS not in os.environ:
            result.config.env.pop(HOST_KEYS, None)
        result.run()
    if result.status == "canceled":
        return INTERRUPTED
    return int(result.rc) if result.rc is not None else 1


def collections_root() -> Path:
    """The directory that holds the `ansible_collections` this llmgw belongs to."""
    return Path(contract.__file__).resolve().parents[6]


def _switches(run: Run) -> list[str]:
    switches = []
    if run.check:
        switches.append("--check")
    if run.diff:
        switches.append("--diff")
    if run.limit:
        switches.append(shlex.quote(f"--limit={run.limit}"))
    return switches


def _environment(private: Path) -> dict[str, str]:
    paths = [str(collections_root()), *filter(None, [os.environ.get("ANSIBLE_COLLECTIONS_PATH")])]
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": ":".join(paths),
        "ANSIBLE_NOCOLOR": "true",  # what it prints is shown by us, if at all
        # An interrupted Ansible is killed: what it keeps for its own time goes away with the run.
        "ANSIBLE_LOCAL_TEMP": str(private / "tmp"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
    }
    if "ANSIBLE_CONFIG" not in os.environ and not Path("ansible.cfg").exists():
        environment |= {name: value for name, value in _UNLESS_CONFIGURED.items() if name not in os.environ}
    return environment

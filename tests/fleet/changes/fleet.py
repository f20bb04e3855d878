# SPDX-License-Identifier: Apache-2.0
"""A fleet of simulators whose catalog and inventory change: its files, its commands, and what is on its hosts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tests.fleet.changes.wishes import Wish, catalog_document, host_variables
from tests.fleet.faults.inside import Inside
from tests.fleet.lab.hosts import Lab
from tests.fleet.lab.inventory import SSH_OPTIONS, document
from tests.fleet.site import GATEWAY, GATEWAY_PORT, Outcome, Site, build_wheel

_UNIT_FILES = "/etc/systemd/system"


class ChangedFleet:
    """The site of a lab. The gateway is on the first host, which runs engines too."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.inside = Inside(lab)
        self.commands = Site(lab, folder)

    @property
    def url(self) -> str:
        """The gateway, as clients know it."""
        return f"http://{self.lab.addresses[GATEWAY]}:{GATEWAY_PORT}/v1"

    def prepare(self, wheel_folder: Path) -> None:
        """Prepares nodes and gateway."""
        variables = {
            "llmgw_wheelhouse": "/opt/wheels",
            "llmgw_wheel": str(build_wheel(wheel_folder)),
            "llmgw_engine_kinds": ["sim"],
            "llmgw_gateway_listen": "0.0.0.0:8080",
        }
        folder = self.commands.folder / "group_vars"
        folder.mkdir()
        (folder / "all.json").write_text(json.dumps(variables))
        self.write(Wish())
        self.commands.playbook("prepare", timeout=600)
        self.commands.playbook("gateway", timeout=280)

    def write(self, wish: Wish) -> None:
        """Writes catalog and inventory."""
        folder = self.commands.folder
        (folder / "catalog.yaml").write_text(json.dumps(catalog_document(wish), indent=1), encoding="utf-8")
        groups: dict[str, Sequence[str]] = {"fleet": self.lab.hosts, "gateway": [GATEWAY]}
        inventory = document(self.lab.addresses, self.lab.key, groups, host_variables(wish, self.lab.hosts))
        variables = cast("dict[str, dict[str, Any]]", inventory["all"])["vars"]
        # Without the lab's keep-alives: llmgw has its own.
        variables["ansible_ssh_common_args"] = " ".join(SSH_OPTIONS[: SSH_OPTIONS.index("ServerAliveInterval=2") - 1])
        (folder / "hosts.yml").write_text(json.dumps(inventory, indent=1), encoding="utf-8")

    def apply(self, *arguments: str) -> Outcome:
        """One `llmgw apply --json` to its end, whatever its status."""
        return self.commands.llmgw("apply", "--json", *arguments, timeout=300)

    def plan(self) -> tuple[dict[str, Any], int]:
        """What `llmgw plan` says of the facts as last read, and the status of its detailed exit code."""
        done = self.commands.llmgw("plan", "--json", "--detailed-exitcode")
        assert done.status in (0, 2, 3), f"plan ended with {done.status}:\n{done.err}"
        document: dict[str, Any] = done.document
        return document, done.status

    def files(self) -> set[str]:
        """`replica@host` of every unit file."""
        return {
            f"{_replica(path.name.removeprefix('llmgw-'))}@{host}"
            for host in self.lab.hosts
            for path in self.inside.path(host, _UNIT_FILES).glob("llmgw-*.*.*.service")
        }

    def running(self) -> dict[str, list[str]]:
        """`replica@host` of every unit that has processes, with the command line of its engine."""
        return {
            f"{_replica(unit)}@{host}": words
            for host in self.lab.hosts
            for unit, words in self.inside.commands(host).items()
        }

    def endpoints(self) -> dict[str, str]:
        """Endpoint to state, as the gateway tells it."""
        return self.commands.endpoints()

    def empty(self) -> None:
        """Leaves no unit on any host."""
        self.write(Wish())
        done = self.apply()
        assert done.status == 0, f"the hosts cannot be left empty:\n{done.out}\n{done.err}"


def option(words: list[str], name: str) -> str | None:
    """The value of an option in a command line; None where it has none yet: a process is systemd's own at first."""
    return words[words.index(name) + 1] if name in words else None


def _replica(unit: str) -> str:
    service, number = unit.split(".")[:2]
    return f"{service}/{number}"

# SPDX-License-Identifier: Apache-2.0
"""One node to try units on: a real systemd manager, real processes, and a state directory of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import host_change, observed, unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node as facts_of_node
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import StateFiles
from ansible_collections.llmgw.fleet.plugins.module_utils.systemd import USER, Manager
from ansible_collections.llmgw.fleet.plugins.module_utils.units_apply import Apply, UnitResult

ROOT = Path(__file__).resolve().parents[2]
SIMULATOR = ROOT / "collections/ansible_collections/llmgw/fleet/roles/engine/files/llmgw_sim"
TEXT = """\
[Unit]
Description={description}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
Environment=LLMGW_PROCESS_DIGEST={process_digest}
KillMode=mixed
TimeoutStopSec={stop_s}
Restart=on-failure
RestartSec=0.3
StandardOutput=append:{log}
StandardError=inherit
{extra}
[Install]
WantedBy=default.target

"""


class Wrapped(NamedTuple):
    """How commands reach the manager: a prefix that ends in `env`, and variables."""

    prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}

    def argv(self, argv: Sequence[str]) -> list[str]:
        return [*self.prefix, *(f"{key}={value}" for key, value in self.environment.items()), *argv]


class WrappedHost(Host):
    """The real machine, whose commands run where the private manager is."""

    def __init__(self, wrapped: Wrapped) -> None:
        self._wrapped = wrapped
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
        self.ran.append(" ".join(argv))
        return super().run(self._wrapped.argv(argv), timeout_s, stdin)


@dataclass
class Outcome:
    """What one call did."""

    changed: bool
    diff: list[dict[str, str]]
    actions: dict[str, str]
    results: dict[str, UnitResult] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)


class Node:
    """A node with its state directory; units of one test are told from another's by their service names."""

    def __init__(self, wrapped: Wrapped, state_dir: Path) -> None:
        self.wrapped = wrapped
        self.host = WrappedHost(wrapped)
        self.manager = Manager(self.host, USER)
        self.manager.unit_dir = f"{wrapped.environment['XDG_CONFIG_HOME']}/systemd/user"
        self.unit_dir = Path(self.manager.unit_dir)
        self.unit_dir.mkdir(parents=True, exist_ok=True)
        self.state = StateFiles(self.host, str(state_dir))
        self.state_dir = state_dir

    def engine(self, service: str, port: int, *options: str, **changes: Any) -> host_change.WantedUnit:
        """A unit of the simulator that serves `service` on a port."""
        command = f"{sys.executable} {SIMULATOR} --model tiny --served-model-name {service} --port {port}"
        readiness = Readiness("http", "127.0.0.1", port, expect_model=service, start_timeout_s=20, ready_timeout_s=20)
        return self.unit(service, " ".join((command, *options)), readiness, **changes)

    def unit(
        self,
        service: str,
        command: str,
        readiness: Readiness | None = None,
        *,
        description: str = "test",
        extra: str = "",
        stop_s: int = 5,
        members: int = 1,
        environment_files: Mapping[str, str] | None = None,
    ) -> host_change.WantedUnit:
        """A unit that runs a command; what the process digest covers is the command."""
        name = unitfile.unit_name(service, 0, 0)
        readiness = readiness or Readiness("unit", start_timeout_s=20, ready_timeout_s=20)
        digest = unitfile.digest([command, dict(environment_files or {})])
        log = self.state_dir / "logs" / f"{service}.log"
        text = TEXT.format(
            description=description, command=command, process_digest=digest, stop_s=stop_s, log=log, extra=extra
        )
        header = unitfile.Header(
            engine="sim",
            replica=f"{service}/0",
            rank=0,
            members=members,
            served_name=service,
            address=readiness.address,
            port=readiness.port,
            start_timeout_s=int(readiness.start_timeout_s),
            ready_timeout_s=int(readiness.ready_timeout_s),
            process_digest=digest,
        )
        text_digest = unitfile.text_digest(text + unitfile.section(header))
        text += unitfile.section(header._replace(text_digest=text_digest))
        return host_change.WantedUnit(name, text, digest, text_digest, readiness, stop_s, dict(environment_files or {}))

    def seen(self, service: str) -> ObservedUnit:
        """A unit with its state, as facts have it: its engine is asked."""
        units = observed.observe_units(
            self.host,
            self.manager,
            str(self.state_dir),
            lambda header, record: facts_of_node._serves(self.host, header, record),
        )
        return {unit.name: unit for unit in units}[unitfile.unit_name(service, 0, 0)]

    def look(self) -> dict[str, ObservedUnit]:
        units = observed.observe_units(self.host, self.manager, str(self.state_dir))
        return {unit.name: unit for unit in units}

    def compute(
        self, present: Sequence[host_change.WantedUnit], absent: Sequence[str] = ()
    ) -> tuple[observed.Survey, host_change.HostChange]:
        survey = observed.survey(self.host, self.manager, str(self.state_dir))
        paths = host_change.companion_paths(survey.units, present, survey.drop_ins)
        contents = observed.texts(self.host, paths)
        return survey, host_change.compute(
            survey.units, present, absent, self.manager.unit_dir, contents=contents, drop_ins=survey.drop_ins
        )

    def apply(
        self, present: Sequence[host_change.WantedUnit] = (), absent: Sequence[str] = (), *, generation: int = 1
    ) -> Outcome:
        """One call, as the module makes it."""
        self.host.ran.clear()
        self.state.prepare()
        _, change = self.compute(present, absent)
        results = Apply(self.host, self.manager, self.state, generation).carry_out(change)
        return Outcome(
            change.changed,
            change.diff,
            {step.name: step.action for step in change.steps},
            {result.name: result for result in results},
            list(self.host.ran),
        )

    def systemctl(self, *arguments: str) -> str:
        ended = subprocess.run(
            self.wrapped.argv(["systemctl", "--user", *arguments]),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return (ended.stdout + ended.stderr).strip()

    def wait_for_queue(self, name: str) -> None:
        """Returns when systemd has done all that was queued for a unit."""
        deadline = time.monotonic() + 10
        while self.systemctl("show", "-p", "Job", "--value", name):
            assert time.monotonic() < deadline, f"{name} is still queued"
            time.sleep(0.02)

    def main_pid(self, name: str) -> int:
        return int(self.systemctl("show", "-p", "MainPID", "--value", name))

    def clear(self) -> None:
        """Stops and removes every unit, whatever state it is in."""
        names = [name for name in self.look() if unitfile.is_replica_unit(name)]
        if names:
            self.systemctl("kill", "--signal=KILL", *names)
            self.systemctl("stop", *names)
            self.systemctl("disable", "--no-reload", *names)
        for path in self.unit_dir.glob("llmgw-*.service*"):
            for inside in path.iterdir() if path.is_dir() else ():
                inside.unlink()
            path.rmdir() if path.is_dir() else path.unlink()
        self.systemctl("daemon-reload")
        self.systemctl("reset-failed")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def digest_of(pid: int) -> str | None:
    return unitfile.environment_digest(Path(f"/proc/{pid}/environ").read_bytes())


def environment() -> dict[str, str]:
    return dict(os.environ)

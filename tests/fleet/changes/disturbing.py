# SPDX-License-Identifier: Apache-2.0
"""Carries out what somebody else does to hosts and units, over ssh as that somebody would."""

from __future__ import annotations

from collections.abc import Iterable

from tests.fleet.changes.edits import Disturbance
from tests.fleet.lab.hosts import Lab

UNITS = "/etc/systemd/system"
_COMMANDS = {
    "stop": "systemctl stop {unit}",
    "kill": "systemctl kill --signal=KILL --kill-whom=all {unit}",
    "edit": "sed -i 's/^Restart=.*/Restart=no/; $a # by hand' {path}",
    "delete": "rm {path}",
    "drop-in": "mkdir -p {path}.d && printf '[Service]\\nEnvironment=BY_HAND=1\\n' > {path}.d/hand.conf"
    " && systemctl daemon-reload",
    "remove": "systemctl disable --now {unit}; rm -f {path}; systemctl daemon-reload",
    "disable": "systemctl disable {unit}",
}


def disturb(lab: Lab, disturbances: Iterable[Disturbance]) -> list[str]:
    """Does all of it; returns what it was in words."""
    done = []
    for one in disturbances:
        if one.kind == "reboot":
            host = lab.hosts[one.target % len(lab.hosts)]
            lab.reboot(host)
            done.append(f"reboot {host}")
            continue
        there = sorted(_units(lab))
        if there:
            host, unit = there[one.target % len(there)]
            lab.ssh(host, _COMMANDS[one.kind].format(unit=unit, path=f"{UNITS}/{unit}"), check=True)
            done.append(f"{one.kind} {unit.removeprefix('llmgw-').removesuffix('.service')}@{host}")
    return done


def _units(lab: Lab) -> Iterable[tuple[str, str]]:
    for host in lab.hosts:
        listed = lab.ssh(host, f"cd {UNITS} && ls -d llmgw-*.*.*.service 2>/dev/null || true", check=True).stdout
        yield from ((host, name) for name in listed.split())

# SPDX-License-Identifier: Apache-2.0
"""Rendered units on a real host: a program in the place of the engine tells what its sandbox lets it do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.model.node import Node, NodeSettings
from llmgw.nodekit import contract
from tests.fleet.lab.hosts import Lab
from tests.fleet.site import PROJECT
from tests.support.fleets import profile, with_facts
from tests.unit.units.unit_cases import USER, Case, alone, cards, gpus, machine

PROBE = "/opt/llmgw-probe/probe"
GUARD = PROJECT / "collections/ansible_collections/llmgw/fleet/plugins/module_utils/guard.py"
SYSTEM = NodeSettings(state_dir="/var/lib/llmgw-probe", engine_user="llmgw-probe")
SECRET = "s3cret-of-the-probe"
UNIT = "llmgw-chat.7.0"
READ_ONLY, NOT_PERMITTED, DENIED = "Read-only file system", "Operation not permitted", "Permission denied"

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True)
class Host:
    """A host of the lab that has the program and its user."""

    lab: Lab
    name: str

    def sh(self, command: str, *, user: str = "root") -> str:
        return self.lab.ssh(self.name, command, user=user, check=True).stdout

    def node(self, settings: NodeSettings, gpus: int = 0) -> Node:
        one = replace(machine(gpus=gpus, settings=settings), address=self.lab.addresses[self.name])
        assert one.facts is not None
        engines = (contract.Engine("sim", (PROBE,), "1", runnable=True),)
        return with_facts(one, replace(one.facts, engines=engines))

    def report(self, case: Case) -> dict[str, Any]:
        """What the unit's process reported; systemd must have had no complaint about the unit."""
        self.lab.put(self.name, {f"/etc/systemd/system/{UNIT}.service": case.unit.text})
        self.sh(f"systemctl daemon-reload && systemctl restart {UNIT}")
        told = self.sh(f"for _ in $(seq 150); do journalctl -b -t {UNIT} -o cat | grep '^{{' && break; sleep 0.2; done")
        complaints = self.sh(f"journalctl -b -p warning -o cat _PID=1 + UNIT={UNIT}.service | grep -F {UNIT} || true")
        self.sh(f"systemctl stop {UNIT}; journalctl --rotate --vacuum-time=1ms >&2")
        assert complaints == ""
        document: dict[str, Any] = json.loads(told.strip().splitlines()[-1])
        return document


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[Host]:
    one = Host(lab, lab.hosts[-1])
    probe = Path(__file__).with_name("sandbox_probe.py")
    secret = {f"{SYSTEM.state_dir}/secrets/hf": SECRET}
    lab.put(one.name, {PROBE: probe.read_text(encoding="utf-8"), f"{SYSTEM.state_dir}/guard.py": GUARD, **secret})
    one.sh(f"useradd --system --no-create-home {SYSTEM.engine_user} && chmod -R go= {SYSTEM.state_dir}/secrets")
    yield one
    one.sh(
        f"systemctl disable --now {UNIT} 2>/dev/null; userdel {SYSTEM.engine_user}; rm -rf {PROBE} {SYSTEM.state_dir} "
        f"/etc/systemd/system/{UNIT}.service /var/cache/llmgw/sim; systemctl daemon-reload"
    )


def test_an_engine_of_the_system_writes_to_its_caches_and_nowhere_else(host: Host) -> None:
    report = host.report(alone(profile(), host.node(SYSTEM), number=7))
    caches = "/var/cache/llmgw/sim"
    assert (report["home"], report["folder"], report["umask"]) == (caches, caches, "0077")
    written = report["writes"]
    assert {path for path, error in written.items() if error is None} == {caches, "/tmp", "/var/tmp", "/dev/shm"}  # noqa: S108
    assert {written[path] for path in ("/etc", "/usr", "/srv", "/home", "/opt")} == {READ_ONLY}
    assert host.sh("ls /tmp/llmgw-probe-left 2>/dev/null || true") == ""


def test_an_engine_of_the_system_has_no_rights_and_what_it_needs(host: Host) -> None:
    report = host.report(alone(profile(), host.node(SYSTEM), number=7))
    assert (report["capabilities"], report["no_new_privileges"], report["filtered"]) == ("0000000000000000", "1", "2")
    refused = ("mount", "user namespace", "clock", "packet socket")
    assert all(report["calls"][name] for name in refused)
    needed = ("memory policy", "netlink socket", "writable code", "connection")
    assert {report["calls"][name] for name in needed} == {None}
    assert not {"kmsg", "net", "initctl"} & set(report["devices"])


def test_a_secret_reaches_the_engine_it_is_for_and_no_text_of_its_unit(host: Host) -> None:
    case = alone(profile(secrets={"TOKEN": "hf"}), host.node(SYSTEM), number=7)
    report = host.report(case)
    assert report["environment"]["TOKEN"] == SECRET
    assert report["reads"][f"{SYSTEM.state_dir}/secrets/hf"] == DENIED
    assert report["user"] != 0
    assert SECRET not in case.unit.text
    assert SECRET not in json.dumps(report["arguments"])


def test_limits_and_binding_are_what_systemd_made_of_them(host: Host) -> None:
    wanted = gpus("sim", 1, max_memory_bytes=10**9)
    host.report(alone(wanted, host.node(SYSTEM, gpus=1), cards(1), number=7, numa_node=0))
    keys = "MemoryMax,NUMAPolicy,NUMAMask,CPUAffinity,LimitMEMLOCK,DevicePolicy,KillMode,Restart,OOMPolicy"
    shown = dict(line.split("=", 1) for line in host.sh(f"systemctl show {UNIT} -p {keys}").splitlines())
    assert shown.pop("CPUAffinity").startswith("0")
    assert shown == {
        "MemoryMax": str(10**9),
        "NUMAPolicy": "preferred",
        "NUMAMask": "0",
        "LimitMEMLOCK": "infinity",
        "DevicePolicy": "closed",
        "KillMode": "mixed",
        "Restart": "on-failure",
        "OOMPolicy": "kill",
    }


def test_a_users_manager_gives_secrets_and_filters_too(host: Host) -> None:
    settings = replace(USER, state_dir="~/probe-state")
    case = alone(profile(secrets={"TOKEN": "hf"}), host.node(settings), number=7)
    folder = "/home/deploy/probe-state"
    files: dict[str, str | Path] = {f"{folder}/guard.py": GUARD, f"{folder}/secrets/hf": SECRET}
    files[f"/home/deploy/.config/systemd/user/{UNIT}.service"] = case.unit.text
    host.lab.put(host.name, files)
    environment = "XDG_RUNTIME_DIR=/run/user/$(id -u)"
    try:
        host.sh("chown -R deploy: /home/deploy && loginctl enable-linger deploy")
        host.sh("for _ in $(seq 100); do [ -S /run/user/$(id -u deploy)/systemd/private ] && break; sleep 0.2; done")
        host.sh(f"export {environment}; systemctl --user daemon-reload; systemctl --user start {UNIT}", user="deploy")
        told = host.sh(f"for _ in $(seq 150); do journalctl -b -t {UNIT} -o cat | grep '^{{' && break; sleep 0.2; done")
        report = json.loads(told.strip().splitlines()[-1])
    finally:
        host.sh(f"{environment} systemctl --user stop {UNIT} || true", user="deploy")
        left = f"{folder} /home/deploy/.config/systemd/user/{UNIT}.service /tmp/llmgw-probe-left"
        host.sh(f"loginctl disable-linger deploy; rm -rf {left}")
    assert report["environment"]["TOKEN"] == SECRET
    assert (report["no_new_privileges"], report["filtered"]) == ("1", "2")
    assert report["calls"]["user namespace"] == NOT_PERMITTED
    assert report["writes"]["/etc"] == DENIED

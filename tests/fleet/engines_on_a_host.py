# SPDX-License-Identifier: Apache-2.0
"""One host of a lab with llama.cpp and the simulator on it: units as llmgw renders them, put there by its module over
ssh, and looked at by its facts.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from llmgw.model.ids import ReplicaId
from llmgw.model.node import Node
from llmgw.model.placement import Assignment, Member
from llmgw.model.replica import ProfileSpec
from llmgw.model.unit import UnitFile
from llmgw.units.render import render
from tests.fleet.lab.hosts import Lab
from tests.support.fleets import node, profile, service

PROJECT = Path(__file__).parents[2]
FILES = PROJECT / "collections/ansible_collections/llmgw/fleet/roles/engine/files"
FOLDER = "/opt/engines"
MODEL = "/srv/models/SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE = "/var/cache/llmgw/sim"
STATE = "/var/lib/llmgw-elsewhere"
SMALL_DISKS = f"{CACHE} {STATE}"
LONG_S = 100.0
"""How long anything may take that takes a second or a few here."""

# A worker that a leader leaves behind keeps its memory, as the workers of vLLM do.
WITH_WORKER = "sleep 100000 &\n"
# Writes to the cache that its unit gives it, as engines that compile do.
FILLS_DISK = 'set -e\ndd if=/dev/zero of="$XDG_CACHE_HOME/kernels" bs=16k count=64 status=none\n'
# Takes a gigabyte before it serves. A kernel without the cgroup controller for memory has another limit for it.
TAKES_MEMORY = (
    "set -e\ngrep -qw memory /sys/fs/cgroup/cgroup.controllers || ulimit -v 262144\n"
    "python3 -c 'taken = bytearray(2 ** 30)'\n"
)
PROGRAMS = {
    "llama": f"PYTHONPATH={FOLDER}/site exec python3 -B {FOLDER}/llama_server.py",
    "sim": f"exec python3 -B {FOLDER}/llmgw_sim",
    "sim-with-worker": f"{WITH_WORKER}exec python3 -B {FOLDER}/llmgw_sim",
    "sim-that-fills-a-disk": f"{FILLS_DISK}exec python3 -B {FOLDER}/llmgw_sim",
    "sim-that-takes-memory": f"{TAKES_MEMORY}exec python3 -B {FOLDER}/llmgw_sim",
}


@dataclass(frozen=True)
class Applied:
    """What one call of replica_units did: results by unit, what it said when it failed, whether anything changed."""

    units: dict[str, dict[str, Any]]
    msg: str
    changed: bool

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self.units[name]


class EngineHost:
    """The host. Ansible runs here, beside it, as it does for an operator."""

    def __init__(self, lab: Lab, host: str, folder: Path) -> None:
        self.lab = lab
        self.host = host
        self.address = lab.addresses[host]
        self.inventory = lab.inventory(folder / "hosts.yml")
        self._generation = 0

    def install(self) -> None:
        """Engines without a package manager: the wheel of llama.cpp is unpacked where it is found."""
        self.lab.put(self.host, {f"{FOLDER}/llmgw_sim": FILES / "llmgw_sim"})
        self.lab.put(self.host, {f"{FOLDER}/llama_server.py": FILES / "llama_server.py"})
        scripts = {f"{FOLDER}/{name}": f'#!/bin/sh\n{body} "$@"\n' for name, body in PROGRAMS.items()}
        self.lab.put(self.host, scripts)
        self.ssh(
            "id llmgw >/dev/null 2>&1 || useradd --system --home-dir /var/lib/llmgw --create-home llmgw; "
            f"python3 -m zipfile -e /opt/wheels/xllamacpp-*.whl {FOLDER}/site && chmod -R go+rX {FOLDER} /srv/models"
        )

    def ssh(self, command: str) -> str:
        return self.lab.ssh(self.host, command, check=True).stdout.strip()

    def unit(self, name: str, port: int, wanted: ProfileSpec, program: str) -> UnitFile:
        """The unit of the only member of `name/0`, whose engine is one of PROGRAMS."""
        place = self._node(wanted, program)
        chat = service(name, served_name=name, profiles=(wanted,))
        member = Member(0, place.name, (), port)
        return render(Assignment(ReplicaId(f"{name}/0"), chat, wanted, (member,)), member, {place.name: place})

    def llama(self, name: str, port: int, path: str = MODEL) -> UnitFile:
        """A unit of llama.cpp with one slot, whose streams have as long to finish as systemd lets them."""
        model = replace(profile().model, path=path)
        limits = {"max_model_len": 2048, "parallel_requests": 1, "threads": 1}
        args = ("--stop-timeout", "22")
        wanted = profile("real", "llama.cpp", ("cpu",), 0, model=model, args=args, **limits)
        return self.unit(name, port, wanted, "llama")

    def sim(self, name: str, port: int, *args: str, program: str = "sim", **more: Any) -> UnitFile:
        """A unit of the simulator."""
        wanted = profile("pretended", "sim", ("cpu",), 0, args=args, **more)
        return self.unit(name, port, wanted, program)

    def _node(self, wanted: ProfileSpec, program: str) -> Node:
        place = node(self.host)
        commands: dict[str, tuple[str, ...]] = {wanted.engine: (f"{FOLDER}/{program}",)}
        return replace(
            place, facts=None, address=self.address, settings=replace(place.settings, engine_commands=commands)
        )

    def apply(self, *units: UnitFile, absent: Sequence[str] = (), state_dir: str | None = None) -> Applied:
        """What one call of the module did."""
        # Other tests applied to this host before, and it refuses what is older.
        seen = self.ssh("cat /var/lib/llmgw/generation 2>/dev/null || echo 0").strip()
        self._generation = max(self._generation, int(seen)) + 1
        keys = ("name", "text", "process_digest", "text_digest", "stop_timeout_s")
        present = [{key: getattr(unit, key) for key in keys} | {"readiness": asdict(unit.readiness)} for unit in units]
        arguments = {"generation": self._generation, "present": present, "absent": list(absent)}
        if state_dir is not None:
            arguments["state_dir"] = state_dir
        answer = self._module("replica_units", arguments)
        results = {one["name"]: one for one in answer.get("units", [])}
        return Applied(results, str(answer.get("msg", "")), bool(answer.get("changed")))

    def facts(self) -> dict[str, dict[str, Any]]:
        """Units by name, as the host's facts have them."""
        answer = self._module("node_facts", {"gather": ["units"]})
        return {one["name"]: one for one in answer["ansible_facts"]["llmgw"]["units"]}

    def _module(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """One module by `ansible`, whose answer it prints as one line of JSON."""
        ansible = str(Path(sys.executable).parent / "ansible")
        module = ["-m", f"llmgw.fleet.{name}", "-a", json.dumps(arguments)]
        argv = [ansible, self.host, "-i", str(self.inventory), *module]
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(PROJECT / "collections"),
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "oneline",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOST_KEY_CHECKING": "0",
        }
        done = self.lab.run(argv, cwd=PROJECT, env=environment, timeout=150)
        _, found, document = done.stdout.partition(" => ")
        assert found, f"{name}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        answer: dict[str, Any] = json.loads(document)
        return answer

    def small_disk(self, path: str, size: str) -> None:
        """Mounts a disk of so many bytes there, until the host is cleared."""
        self.ssh(f"mkdir -p {path} && mount -t tmpfs -o size={size},mode=777 small {path}")

    def show(self, unit: str, key: str) -> str:
        return self.ssh(f"systemctl show --property={key} --value {unit}")

    def processes(self, unit: str) -> set[int]:
        """Processes of a unit's cgroup."""
        group = self.show(unit, "ControlGroup")
        listed = self.ssh(f"cat /sys/fs/cgroup{group}/cgroup.procs 2>/dev/null || true") if group else ""
        return set(map(int, listed.split()))

    def serves(self, port: int) -> bool:
        """Whether an engine on the host says that it is well."""
        with self.lab.network():
            try:
                with urlopen(f"http://{self.address}:{port}/health", timeout=5) as answer:
                    return bool(answer.status == http.client.OK)
            except OSError:
                return False

    def alive(self, processes: set[int]) -> set[int]:
        """Those that there still are."""
        listed = self.ssh("ls /proc")
        return {int(name) for name in listed.split() if name.isdigit()} & processes

    def clear(self) -> None:
        """Ends and forgets every unit."""
        self.ssh(
            "systemctl kill --signal=KILL 'llmgw-*.*.*.service' 2>/dev/null; "
            "systemctl stop 'llmgw-*.*.*.service' 2>/dev/null; "
            "systemctl disable $(cd /etc/systemd/system && ls -d llmgw-*.*.*.service 2>/dev/null) 2>/dev/null; "
            "rm -rf /etc/systemd/system/llmgw-*.*.*.service* /var/lib/llmgw/units /var/lib/llmgw/last-good; "
            f"systemctl daemon-reload; systemctl reset-failed; umount {SMALL_DISKS} 2>/dev/null; true"
        )


def until(condition: Callable[[], bool], what: str) -> None:
    """Returns when the condition holds; fails with `what` when it does not for a long time."""
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end, f"waited {LONG_S:g} s for {what}"
        time.sleep(0.2)
